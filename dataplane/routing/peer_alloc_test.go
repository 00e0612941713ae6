//go:build !race

package routing_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// quiet is two other routers that keep nothing.
type quiet struct{}

func (quiet) Sending() bool { return true }

func (quiet) Routers() int { return 3 }

func (quiet) Tell(uint64, []uint32) uint64 { return 1 }

func (quiet) Done(uint64) {}

// TestTellingDoesNotAllocate: a request that other routers are told of costs no memory from its
// choice to its end.
func TestTellingDoesNotAllocate(t *testing.T) {
	f := newFleet(t, tiny(), tiny(), tiny())
	view := &ingest.View{Shapes: f.shapes}
	r := routing.New(f.registry, f.index, func() *ingest.View { return view }, policy.KV{Options: policy.Defaults}, func() uint64 { return 7 })
	known(f, r)
	p, number := prompt(tokens(1, 1000)), uint64(0)
	marks := routing.AppendFingerprints(nil, model, p)
	request := func() {
		number++
		r.Shared.Add(time.Now(), routing.PromptID{Router: 1, Number: number}, f.ranks[0], marks)
		d, err := r.Pick(&f.scratch, p, nil)
		if err != nil {
			t.Error(err)
			return
		}
		flight := r.Dispatch(&f.scratch, p, &d)
		flight.Prefilled()
		r.Withdraw(flight)
		r.Shared.Forget(1)
	}
	measure := func() float64 {
		for range 2000 {
			request()
		}
		return testing.AllocsPerRun(200, request)
	}
	alone := measure() // a prediction that nobody holds
	r.Peers = quiet{}
	require.LessOrEqual(t, measure(), alone)
}
