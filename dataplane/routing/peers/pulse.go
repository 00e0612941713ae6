package peers

import "sync/atomic"

// pulse is when Run publishes: seldom while nothing changes.
type pulse struct {
	others atomic.Int64  // other routers
	shares atomic.Int64  // see codec.Members.Shares
	idle   atomic.Bool   // Run sleeps until wake or the next heartbeat
	wake   chan struct{} // capacity 1
}

// stir makes Run publish often again: a request is about to be sent, or has ended.
func (p *pulse) stir() {
	if p.idle.Load() && p.idle.CompareAndSwap(true, false) {
		p.poke()
	}
}

// poke ends Run's sleep.
func (p *pulse) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
