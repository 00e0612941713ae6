package routing

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// SharedPredictions are the prompts that other routers have sent and that no event tells of yet. A
// router predicts its own prompts in the index. Without those of the others, as many workers
// compute equal prompts as there are routers that get them at once: four routers near saturation
// have up to four times the mean time to first token.
//
// A prompt ends shortly after its first byte, when each router has read the events that tell of
// it, or with its router.
type SharedPredictions struct {
	count atomic.Int32 // of all: a choice takes no lock while there are none

	mu   sync.RWMutex
	all  []sharedPrompt        // the oldest first; guarded by mu
	free [][]uint32            // fingerprints of ended prompts, to be reused; guarded by mu
	ids  map[PromptID]struct{} // of all; guarded by mu
	by   map[string]int        // number of all, by PromptID.Owner; guarded by mu
}

// PromptID names a prompt: its router and its number there.
type PromptID struct {
	Owner          string // of the router's token; "" of all that have the cluster's secret
	Router, Number uint64
}

type sharedPrompt struct {
	id           PromptID
	rank         uint64 // Hash
	until        int64  // unix nanoseconds
	first        uint32 // of fingerprints: most prompts differ there
	tokens       int
	fingerprints []uint32
}

const (
	// maxShared bounds the prompts: a scan of all takes some 25 us where they share a system
	// prompt.
	maxShared = 512
	maxFree   = 64
	// A sent prompt counts for sentFor: its router tells when the first byte has come.
	sentFor = time.Minute
)

// Add notes a prompt that another router has sent to the rank with that hash. It copies
// fingerprints.
func (x *SharedPredictions) Add(now time.Time, id PromptID, rank uint64, tokens int, fingerprints []uint32) {
	if len(fingerprints) == 0 || len(fingerprints) > MaxFingerprints {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dropLocked(func(e *sharedPrompt) bool { return e.until < now.UnixNano() || e.id == id })
	if len(x.all) >= maxShared {
		// The oldest of the owner with the most: a router that tells without end drops its own.
		most := x.mostLocked(id.Owner)
		oldest := x.all[slices.IndexFunc(x.all, func(e sharedPrompt) bool { return e.id.Owner == most })].id
		x.dropLocked(func(e *sharedPrompt) bool { return e.id == oldest })
	}
	var kept []uint32
	if n := len(x.free); n > 0 {
		kept, x.free = x.free[n-1], x.free[:n-1]
	}
	kept = append(kept[:0], fingerprints...)
	if x.ids == nil {
		x.ids, x.by = make(map[PromptID]struct{}, maxShared), make(map[string]int)
	}
	x.ids[id] = struct{}{}
	x.by[id.Owner]++
	x.all = append(x.all, sharedPrompt{id, rank, now.Add(sentFor).UnixNano(), fingerprints[0], tokens, kept})
	x.count.Store(int32(len(x.all)))
}

// Done notes that a prompt is computed or given up.
func (x *SharedPredictions) Done(now time.Time, id PromptID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.ids[id]; !ok { // most messages are about unknown prompts
		return
	}
	if i := slices.IndexFunc(x.all, func(e sharedPrompt) bool { return e.id == id }); i >= 0 {
		x.all[i].until = min(x.all[i].until, now.Add(endedFor).UnixNano())
	}
}

// Forget drops the prompts of a router.
func (x *SharedPredictions) Forget(router uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dropLocked(func(e *sharedPrompt) bool { return e.id.Router == router })
	x.count.Store(int32(len(x.all)))
}

// mostLocked returns the owner of the most prompts, the given one if it is among them.
func (x *SharedPredictions) mostLocked(owner string) string {
	for other, n := range x.by {
		if n > x.by[owner] {
			owner = other
		}
	}
	return owner
}

func (x *SharedPredictions) dropLocked(is func(*sharedPrompt) bool) {
	kept := x.all[:0]
	for i := range x.all {
		if !is(&x.all[i]) {
			kept = append(kept, x.all[i])
			continue
		}
		id := x.all[i].id
		delete(x.ids, id)
		if x.by[id.Owner]--; x.by[id.Owner] == 0 {
			delete(x.by, id.Owner)
		}
		if len(x.free) < maxFree {
			x.free = append(x.free, x.all[i].fingerprints)
		}
	}
	clear(x.all[len(kept):])
	x.all = kept
}

// rankTokens is the leading tokens of a prompt that a rank will hold.
type rankTokens struct {
	rank   uint64
	tokens int
}

// find appends, for each rank, the longest beginning of a prompt that it is about to compute.
func (x *SharedPredictions) find(dst []rankTokens, now int64, tokens int, fingerprints []uint32) []rankTokens {
	if len(fingerprints) == 0 {
		return dst
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	for i := range x.all {
		e := &x.all[i]
		if e.first != fingerprints[0] || e.until < now {
			continue
		}
		n := sharedTokens(tokens, fingerprints, e.tokens, e.fingerprints)
		if n == 0 {
			continue
		}
		if j := slices.IndexFunc(dst, func(r rankTokens) bool { return r.rank == e.rank }); j >= 0 {
			dst[j].tokens = max(dst[j].tokens, n)
		} else {
			dst = append(dst, rankTokens{e.rank, n})
		}
	}
	return dst
}

// sharedMatch is the overlap of ranks with a prompt by shared predictions.
type sharedMatch struct {
	fingerprints []uint32 // of the prompt, where known
	known        bool     // since the choice began
	ranks        []rankTokens
}

// of returns the prompt's fingerprints, which stay valid until the next choice.
func (m *sharedMatch) of(model string, p *Prompt) []uint32 {
	if !m.known {
		m.fingerprints, m.known = appendFingerprints(m.fingerprints[:0], model, p), true
	}
	return m.fingerprints
}

// overlap returns the predicted overlap of a rank, with the prompts of other routers, while they
// have requests there.
func (m *sharedMatch) overlap(rank *worker.Rank, p *Prompt, predicted overlap) overlap {
	for _, e := range m.ranks {
		if e.rank == rank.IDHash() && e.tokens > predicted.tokens && rank.Load.PeersInFlight() > 0 {
			return overlap{tokens: e.tokens, gpu: e.tokens, block: predicted.block}.usable(p)
		}
	}
	return predicted
}
