package peers

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// idleAfter is the time without load and changes after which Run looks only at heartbeats.
const idleAfter = 50 * time.Millisecond

// publisher publishes the load of this router.
type publisher struct {
	g       *Group
	snap    *worker.Snapshot
	last    []worker.RouterLoad // as published last, of the ranks of snap
	message message
	buf     []byte
	whole   time.Time // of the last whole message
	changed time.Time
	busy    bool // some load is in flight
}

// tick publishes changes, forgets silent routers and returns the time until the next tick.
func (p *publisher) tick(now time.Time) time.Duration {
	g := p.g
	alone := g.loads.expire(now)
	whole := now.Sub(p.whole) >= g.cfg.Whole
	if !alone || whole {
		p.publish(now, false)
	}
	rest := max(g.cfg.Whole-now.Sub(p.whole), time.Millisecond)
	if alone || (!p.busy && now.Sub(p.changed) > idleAfter) {
		g.pulse.idle.Store(!alone)
		return rest
	}
	g.pulse.idle.Store(false)
	return min(g.every(), rest)
}

// publish sends the changes, or all load where that is due.
func (p *publisher) publish(now time.Time, last bool) {
	g := p.g
	m := &p.message
	m.id, m.started, m.last, m.whole = append(m.id[:0], g.cfg.ID...), g.started, last, last || now.Sub(p.whole) >= g.cfg.Whole
	g.news.take(m)
	m.ranks = m.ranks[:0]
	if !last {
		p.scan(now)
	}
	if !m.whole && len(m.ranks) == 0 && len(m.sent) == 0 && len(m.done) == 0 {
		return
	}
	if m.whole {
		p.whole = now
	}
	m.number++
	p.buf = m.append(p.buf[:0])
	if err := g.cfg.Bus.PublishOwn(subject, p.buf); err != nil {
		g.count.failed.Add(1) // the next whole message has the load; the prompts are lost
		return
	}
	g.count.published.Add(1)
	g.count.publishedBytes.Add(uint64(len(p.buf)))
}

// scan lists the ranks with a changed share, or for a whole message all with a share.
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
	p.busy = false
	for i, rank := range p.snap.Ranks {
		share := rank.Load.Own()
		changed, idle := share != p.last[i], share.Idle()
		p.busy = p.busy || !idle
		if changed {
			p.changed, p.last[i] = now, share
		}
		if changed || (p.message.whole && !idle) {
			p.message.ranks = append(p.message.ranks, rankShare{rank.IDHash(), share})
		}
	}
}
