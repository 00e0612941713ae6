package store

import (
	"hash/maphash"
	"time"

	"github.com/warmpath/warmpath/dataplane/kvtier/hint"
)

const (
	// maxHints bounds the pull hints at work. A hint takes half a millisecond, most of it waiting
	// for a peer, and up to Config.AskTimeout where the peer hangs: 160 hints a second are taken
	// then, and the others dropped.
	maxHints = 16
	// hintInterval is the time for which a hint for the same pages is a duplicate: of a request
	// tried again, or of another router.
	hintInterval = 2 * time.Second
	// recentHints are remembered for that. With more in two seconds, duplicates may be worked on.
	recentHints = 1 << 10
)

// recentHint is a hash of a hint's pages, and the time of the hint.
type recentHint struct {
	pages uint64
	at    time.Time
}

// HintStats counts the pull hints of routers.
type HintStats struct {
	Received int64 `json:"received"`
	Refused  int64 `json:"refused"` // cannot be read
	// For the pages of another hint of the last two seconds.
	Duplicate int64 `json:"duplicate"`
	Dropped   int64 `json:"dropped"` // too many at work
	// For a model that no engine of this node has used the tier for.
	UnknownModel int64 `json:"unknown_model"`
	Needless     int64 `json:"needless"`     // for pages that were present or being pulled
	Vain         int64 `json:"vain"`         // for absent pages of which no peer had the first one
	Pulled       int64 `json:"pulled_pages"` // pages pulled for hints
}

// takeHint takes a pull hint and has its absent pages pulled. It owns data, and does not wait.
// Pages that no engine asks for stay on probation and are evicted first.
func (f *prefetcher) takeHint(data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts.add(func(s *Stats) { s.Hints.Received++ })
	m, err := hint.Parse(data)
	if err != nil {
		f.counts.add(func(s *Stats) { s.Hints.Refused++ })
		f.cfg.Log.Debug("cannot read a router's pull hint", "error", err)
		return
	}
	if f.done {
		return
	}
	pages, now := maphash.Bytes(f.seed, m.Pages), f.cfg.Now()
	recent := &f.recent[pages%recentHints]
	if recent.pages == pages && now.Sub(recent.at) < hintInterval {
		f.counts.add(func(s *Stats) { s.Hints.Duplicate++ })
		return
	}
	select {
	case f.slots <- struct{}{}:
	default:
		f.counts.add(func(s *Stats) { s.Hints.Dropped++ })
		return
	}
	*recent = recentHint{pages, now}
	f.wg.Go(func() {
		e, before := f.pull(&m)
		f.counts.add(func(s *Stats) {
			switch {
			case e.Namespaces == 0:
				s.Hints.UnknownModel++
			case before == e.Pages:
				s.Hints.Needless++
			case before == e.Ready:
				s.Hints.Vain++
			}
		})
		<-f.slots
	})
}
