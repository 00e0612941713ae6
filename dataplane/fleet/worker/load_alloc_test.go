package worker_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

func TestLoadDoesNotAllocate(t *testing.T) {
	var rank worker.Rank
	now := time.Now()
	if n := testing.AllocsPerRun(100, func() {
		lease := rank.Load.Begin(1000)
		rank.Load.Report(now, worker.Report{Running: 1, Prefilled: 100, Busy: 1})
		_ = rank.Load.View(now)
		_ = rank.Trust.Credit(now, true)
		rank.Trust.Observe(now, 1000, 900)
		lease.End()
		leg := rank.Load.BeginLeg(1000, worker.Work{Prompt: 1000})
		leg.End()
	}); n != 0 {
		t.Errorf("load and trust allocate %v times, want 0", n)
	}
}
