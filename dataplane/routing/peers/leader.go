package peers

import (
	"sync/atomic"
	"time"
)

// leadership is the router that chooses for all: the one that runs for longest, so that a new
// router changes no leader, and a router that ends seldom does.
type leadership struct {
	id      string // of this router
	started int64  // unix microseconds

	leader  atomic.Pointer[peer] // nil: this router
	present atomic.Bool          // there are other routers
	changed atomic.Bool          // the leader does not know of this router's prompts in flight
	idle    atomic.Bool          // Run sleeps until wake or the next heartbeat
	wake    chan struct{}        // capacity 1
	pause   pause
}

// elect finds the leader among this router and its peers.
func (l *leadership) elect(peers map[string]*peer) {
	var leader *peer
	started, id := l.started, l.id
	for _, p := range peers {
		if p.started < started || (p.started == started && p.id < id) {
			leader, started, id = p, p.started, p.id
		}
	}
	l.present.Store(len(peers) > 0)
	if l.leader.Swap(leader) != leader {
		l.pause.end()
		l.changed.Store(true)
		l.poke()
	}
}

// stir makes Run publish often again: a request is about to be sent.
func (l *leadership) stir() {
	if l.idle.Load() && l.idle.CompareAndSwap(true, false) {
		l.poke()
	}
}

// poke ends Run's sleep.
func (l *leadership) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// After lateReplies in a row the leader is not asked for firstPause, and for twice as long each
// time that the next request's reply is late too, up to lastPause. A dead leader so costs a few
// requests one deadline each. One late reply is a busy machine: 50 ms of choices without each
// other cost more than one more wait.
const (
	lateReplies = 3
	firstPause  = 50 * time.Millisecond
	lastPause   = time.Second
)

// pause is the time in which the leader is not asked.
type pause struct {
	until atomic.Int64 // unix nanoseconds; 0: there is none
	next  atomic.Int64 // nanoseconds, of the next pause
	late  atomic.Int64 // late replies in a row
}

func (p *pause) end() {
	p.until.Store(0)
	p.next.Store(int64(firstPause))
	p.late.Store(0)
}

// inTime notes a reply within the deadline.
func (p *pause) inTime() {
	if p.until.Load() != 0 || p.late.Load() != 0 {
		p.end()
	}
}

// begin notes a late reply; sure: none will come.
func (p *pause) begin(now int64, sure bool) {
	until := p.until.Load()
	if until > now || (p.late.Add(1) < lateReplies && until == 0 && !sure) {
		return
	}
	p.until.CompareAndSwap(until, now+p.next.Load())
}

// over reports whether try may succeed.
func (p *pause) over() bool {
	until := p.until.Load()
	return until == 0 || time.Now().UnixNano() >= until
}

// try reports whether a request may ask: any outside a pause, and one at its end.
func (p *pause) try(deadline time.Duration) bool {
	until := p.until.Load()
	if until == 0 {
		return true
	}
	now, next := time.Now().UnixNano(), min(2*p.next.Load(), int64(lastPause))
	if now < until || !p.until.CompareAndSwap(until, now+int64(deadline)+next) {
		return false
	}
	p.next.Store(next) // where this reply is late too
	return true
}
