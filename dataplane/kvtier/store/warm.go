package store

import (
	"context"
	"errors"
	"time"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// warmShare bounds what a cold tier fills itself with: half of its memory, so that what its own engines compute finds room.
const warmShare = 2

// warm fills the tier with other nodes' most used pages of each model that an engine here begins to use, until ctx ends.
func (t *Tier) warm(ctx context.Context) {
	if t.cfg.Warm <= 0 {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case ns := <-t.cold:
			t.warmSpace(ctx, ns)
		}
	}
}

// warmSpace asks the peers one after the other, and again while there is none.
func (t *Tier) warmSpace(ctx context.Context, ns uint32) {
	const patience, period = 30, time.Second // a cluster's nodes are known within seconds
	tick := time.NewTicker(period)
	defer tick.Stop()
	asked := map[*peer]bool{}
	for range patience {
		if _, ok := t.spaceOf(ns); !ok {
			return
		}
		for _, p := range t.live() {
			if !asked[p] && ctx.Err() == nil {
				asked[p] = true
				if err := t.warmFrom(ctx, p, ns); err != nil {
					t.log.Warn("cannot warm the KV tier from a peer", "peer", p.Name, "error", err)
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

// warmFrom pulls a peer's most used pages of a namespace, in order, no faster than cfg.Warm.
func (t *Tier) warmFrom(ctx context.Context, p *peer, ns uint32) error {
	r, ok := t.spaceOf(ns)
	if !ok {
		return nil
	}
	bytes := int(r.bytes)
	room := (t.Stats().Bytes/warmShare - t.Stats().Used) / int64(bytes)
	if room <= 0 {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, t.cfg.pull)
	defer cancel()
	l, err := t.dialPeer(asking, p.Endpoint)
	if err != nil {
		return err
	}
	defer l.close()
	r.lease = uint32(min(room, maxHottest))
	body, _, err := l.call(asking, opHottest, r.encode())
	if err != nil {
		return err
	}
	pages, err := parseHottest(body)
	if err != nil {
		return err
	}
	runs := t.runsOf(ns, pages)
	began, moved := time.Now(), int64(0)
	for _, q := range runs {
		t.announce(q)
		select {
		case p.pulls <- q:
		case <-p.gone:
			t.finish(q)
			return errGone
		}
		select {
		case <-q.done:
		case <-p.gone:
			p.drain()
			return errGone
		}
		moved += int64(len(q.hashes) * bytes)
		t.counts.warmed.Add(int64(len(q.hashes)))
		if !pace(ctx, began, moved, t.cfg.Warm) {
			return nil
		}
	}
	return nil
}

var errGone = errors.New("tier: the peer is gone")

// pace waits until so many bytes are no more than the limit allows. It reports whether ctx goes on.
func pace(ctx context.Context, began time.Time, moved, limit int64) bool {
	due := time.Duration(float64(moved) / float64(limit) * float64(time.Second))
	timer := time.NewTimer(due - time.Since(began))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// runsOf cuts a list of pages into pulls of pages that follow each other. Those that are here are left out.
func (t *Tier) runsOf(ns uint32, pages []followed) []*pull {
	var runs []*pull
	for _, page := range pages {
		if t.look(ns, []proto.Hash{page.hash}) == 1 {
			continue
		}
		t.counts.warming.Add(1)
		if n := len(runs); n > 0 {
			last := runs[n-1]
			if len(last.hashes) < pullPages && last.hashes[len(last.hashes)-1] == page.parent {
				last.hashes = append(last.hashes, page.hash)
				continue
			}
		}
		q := &pull{ns: ns, hashes: []proto.Hash{page.hash}, done: make(chan struct{})}
		if page.parent != (proto.Hash{}) {
			parent := page.parent
			q.parent = &parent
		}
		runs = append(runs, q)
	}
	return runs
}
