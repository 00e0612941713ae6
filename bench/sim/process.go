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

// patience is how long an answer of a bootstrap server may take. Where time is scaled, the machine that answers is not: one that stands still
// for a while is not dead, as a server that is gone refuses connections at once.
func (p *process) patience() time.Duration {
	if p.cfg.TimeScale > 1 {
		return max(30*time.Second, p.cfg.real(heartbeatTimeout))
	}
	return p.cfg.real(heartbeatTimeout)
}
