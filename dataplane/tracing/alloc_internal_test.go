package tracing

import (
	"errors"
	"testing"
	"time"
)

// TestOffDoesNotAllocate: a request without a trace costs nothing.
func TestOffDoesNotAllocate(t *testing.T) {
	var tr *Tracer
	failed := errors.New("x")
	worker := "http://w:1"
	if n := testing.AllocsPerRun(100, func() {
		r := tr.Begin(nil, worker, time.Time{})
		r.Step(StepTokenize, r.Now(), nil)
		a := r.Attempt(StepFirstByte, worker)
		_, _ = a.Parent()
		a.Failed(failed)
		a.Answered(200)
		r.End(200, nil, worker)
	}); n != 0 {
		t.Errorf("tracing that is off allocates %v times, want 0", n)
	}
}
