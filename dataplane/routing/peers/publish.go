package peers

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// idleAfter is how long nothing is in flight and nothing changes before Run stops looking.
const idleAfter = 50 * time.Millisecond

// publisher is what Run keeps from one message to the next.
type publisher struct {
	g       *Group
	snap    *worker.Snapshot
	last    []worker.RouterLoad // as last told, of the ranks of snap
	out     state
	buf     []byte
	whole   time.Time // when all was last told
	changed time.Time
	flying  bool
}

// tick tells what is new, looks who is gone, and returns when the next one is due.
func (p *publisher) tick(now time.Time) time.Duration {
	g := p.g
	alone := g.upkeep(now)
	g.tellAgain(now)
	whole := now.Sub(p.whole) >= g.cfg.Whole
	if !alone || whole {
		p.tell(now, false)
	}
	rest := max(g.cfg.Whole-now.Sub(p.whole), time.Millisecond)
	if alone || (!p.flying && now.Sub(p.changed) > idleAfter) {
		g.idle.Store(!alone)
		return rest
	}
	g.idle.Store(false)
	return min(g.every(), rest)
}

// tell publishes what has changed, or everything where that is due.
func (p *publisher) tell(now time.Time, last bool) {
	g := p.g
	s := &p.out
	s.id, s.started, s.last, s.whole = append(s.id[:0], g.cfg.ID...), g.started, last, last || now.Sub(p.whole) >= g.cfg.Whole
	s.sent, s.done = g.asks.take(s.sent[:0], s.done[:0]) // before the shares are read, which then have them
	s.ranks = s.ranks[:0]
	if !last {
		p.scan(now)
	}
	if !s.whole && len(s.ranks) == 0 && len(s.sent) == 0 && len(s.done) == 0 {
		return
	}
	if s.whole {
		p.whole = now
	}
	s.number++
	p.buf = s.append(p.buf[:0])
	if err := g.cfg.Bus.Publish(subjectState, p.buf); err != nil {
		g.count.failed.Add(1) // the next whole one makes it good
		return
	}
	g.count.published.Add(1)
	g.count.publishedBytes.Add(uint64(len(p.buf)))
}

// scan lists the ranks whose share has changed, or all that have one.
func (p *publisher) scan(now time.Time) {
	if snap := p.g.cfg.Registry.Snapshot(); snap != p.snap {
		old := make(map[*worker.Rank]worker.RouterLoad, len(p.last))
		for i := range p.last {
			old[p.snap.Ranks[i]] = p.last[i]
		}
		p.snap, p.last = snap, make([]worker.RouterLoad, len(snap.Ranks))
		for i, rank := range snap.Ranks {
			p.last[i] = old[rank]
		}
	}
	p.flying = false
	for i, rank := range p.snap.Ranks {
		share := rank.Load.Own()
		changed, idle := share != p.last[i], share.Idle()
		p.flying = p.flying || !idle
		if changed {
			p.changed, p.last[i] = now, share
		}
		if changed || (p.out.whole && !idle) {
			p.out.ranks = append(p.out.ranks, rankShare{rank.IDHash(), share})
		}
	}
}
