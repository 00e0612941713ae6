package worker

import (
	"sync/atomic"
	"time"
)

// probeRecord holds the results of a worker's probes, besides its state.
type probeRecord struct {
	since   atomic.Int64 // unix nanoseconds of the last change of state
	alive   atomic.Int64 // unix nanoseconds of the last answered probe
	lastErr atomic.Pointer[string]
}

// Since returns when the probed state last changed.
func (p *probeRecord) Since() time.Time { return time.Unix(0, p.since.Load()) }

// Alive returns when the last probe was answered. A SGLang engine whose scheduler has died
// answers none from then on, and keeps its connections open for 5 to 65 s.
func (p *probeRecord) Alive() time.Time { return time.Unix(0, p.alive.Load()) }

// LastError returns the words of the last failed probe, or "".
func (p *probeRecord) LastError() string {
	if p := p.lastErr.Load(); p != nil {
		return *p
	}
	return ""
}

func (p *probeRecord) setError(err error) {
	if err == nil {
		p.lastErr.Store(nil)
		return
	}
	text := err.Error()
	p.lastErr.Store(&text)
}
