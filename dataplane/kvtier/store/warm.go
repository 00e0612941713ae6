package store

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

const (
	// warmShare bounds warming to half of the memory, so that pages of this node's engines find
	// room.
	warmShare = 2
	// maxHottest bounds a list of pages: 1 M of them would take 64 MiB, and a message holds 16.
	maxHottest = 200_000
)

// warmer pulls the most used pages of other nodes for each namespace that is new here.
type warmer struct {
	cfg            *Config
	pages          *pages
	peers          *peerClient
	wanted, pulled atomic.Int64 // pages
}

// run warms new namespaces until ctx ends.
func (w *warmer) run(ctx context.Context) {
	if w.cfg.WarmRate <= 0 {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case ns := <-w.pages.added:
			w.warm(ctx, ns)
		}
	}
}

// warm pulls from the peers one after the other, and waits for peers for half a minute: the nodes
// of a cluster are known within seconds.
func (w *warmer) warm(ctx context.Context, ns uint32) {
	const attempts, period = 30, time.Second
	tick := time.NewTicker(period)
	defer tick.Stop()
	asked := map[*peer]bool{}
	for range attempts {
		if _, ok := w.pages.request(ns); !ok {
			return
		}
		for _, p := range w.peers.connected() {
			if !asked[p] && ctx.Err() == nil {
				asked[p] = true
				if err := w.warmFrom(ctx, p, ns); err != nil {
					w.cfg.Log.Warn("cannot warm the KV tier from a peer", "peer", p.Name, "error", err)
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// warmFrom pulls the most used pages of a peer, in order, no faster than Config.WarmRate.
func (w *warmer) warmFrom(ctx context.Context, p *peer, ns uint32) error {
	r, ok := w.pages.request(ns)
	if !ok {
		return nil
	}
	bytes := int(r.bytes)
	room := (int64(len(w.pages.arena.data))/warmShare - w.pages.stats().Used) / int64(bytes)
	if room <= 0 {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, w.cfg.pullTimeout)
	defer cancel()
	l, err := w.peers.dial(asking, p.Endpoint)
	if err != nil {
		return err
	}
	defer l.close()
	r.lease = uint32(min(room, maxHottest))
	body, _, err := l.call(asking, opHottest, r.encode())
	if err != nil {
		return err
	}
	hottest, err := parseHottest(body)
	if err != nil {
		return err
	}
	began, moved := time.Now(), int64(0)
	for _, q := range w.absent(ns, hottest) {
		w.peers.incoming.add(q)
		select {
		case p.pulls <- q:
		case <-p.gone:
			w.peers.incoming.end(q)
			return errGone
		}
		select {
		case <-q.done:
		case <-p.gone:
			p.drain()
			return errGone
		}
		moved += int64(len(q.hashes) * bytes)
		w.pulled.Add(int64(len(q.hashes)))
		if !pace(ctx, began, moved, w.cfg.WarmRate) {
			return nil
		}
	}
	return nil
}

// pace waits until the bytes moved are within the rate. It reports whether ctx goes on.
func pace(ctx context.Context, began time.Time, moved, rate int64) bool {
	due := time.Duration(float64(moved) / float64(rate) * float64(time.Second))
	timer := time.NewTimer(due - time.Since(began))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// absent cuts the absent pages of a list into pulls of chains.
func (w *warmer) absent(ns uint32, list []chainedPage) []*pull {
	var pulls []*pull
	for _, page := range list {
		if w.pages.holds(ns, []proto.Hash{page.hash}) == 1 {
			continue
		}
		w.wanted.Add(1)
		if n := len(pulls); n > 0 {
			last := pulls[n-1]
			if len(last.hashes) < pullPages && last.hashes[len(last.hashes)-1] == page.parent {
				last.hashes = append(last.hashes, page.hash)
				continue
			}
		}
		q := newPull(ns, []proto.Hash{page.hash}, nil, false)
		if page.parent != (proto.Hash{}) {
			q.parent = &page.parent
		}
		pulls = append(pulls, q)
	}
	return pulls
}
