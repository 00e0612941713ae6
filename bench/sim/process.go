package sim

import (
	"context"
	"sync"
	"time"
)

// process is the part of an engine's process that all its servers share.
type process struct {
	cfg    *Config
	faults *Faults
	ctx    context.Context // Ends with the process.
	cancel context.CancelFunc
	wg     sync.WaitGroup // Its goroutines.
}

// patience bounds the wait for an answer of a bootstrap server. A scaled clock does not make
// its machine faster, so a scaled worker waits 30 s at least; a dead server refuses connections
// at once.
func (p *process) patience() time.Duration {
	if p.cfg.TimeScale > 1 {
		return max(30*time.Second, p.cfg.real(heartbeatTimeout))
	}
	return p.cfg.real(heartbeatTimeout)
}
