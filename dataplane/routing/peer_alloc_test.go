//go:build !race

package routing_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

// quiet answers like the router that it has, and keeps nothing.
type quiet struct {
	router  *routing.Router
	scratch routing.Scratch
	off     bool
}

func (q *quiet) Active() bool { return !q.off }

func (*quiet) Sent(uint64) {}

func (*quiet) Present() bool { return true }

func (*quiet) Tell(uint64, int, []uint32) uint64 { return 1 }

func (*quiet) Done(uint64) {}

func (q *quiet) Choose(a *routing.PeerRequest) (routing.PeerReply, bool) {
	d, err := q.router.ChooseFor(&q.scratch, a)
	return routing.PeerReply{Number: 1, Rank: d.Rank.IDHash()}, err == nil
}

// TestAskingDoesNotAllocate: with other routers or without, a request costs no memory, here or
// there.
func TestAskingDoesNotAllocate(t *testing.T) {
	f := newFleet(t, tiny(), tiny(), tiny())
	f.holds(1, radix.DomainKey{}, tokens(1, 1000), 100, radix.TierGPU)
	view := &ingest.View{Shapes: f.shapes}
	fresh := func() *routing.Router {
		return routing.New(f.registry, f.index, func() *ingest.View { return view }, policy.KV{Options: policy.Defaults}, func() uint64 { return 7 })
	}
	q, r := &quiet{router: fresh()}, fresh()
	q.router.Known = known(f, r)
	r.Peers = q
	p := prompt(tokens(1, 1000))
	request := func() {
		if d, err := r.Pick(&f.scratch, p, nil); err != nil || d.Rank == nil {
			t.Errorf("Pick = %+v, %v", d, err)
		}
	}
	for _, q.off = range []bool{false, true} {
		for range 100 {
			request()
		}
		require.Zero(t, testing.AllocsPerRun(200, request), "off: %v", q.off)
	}
}

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
		r.Shared.Add(time.Now(), routing.PromptID{Router: 1, Number: number}, 1, 1000, marks, true)
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
	r.Peers = &quiet{router: r, off: true}
	require.LessOrEqual(t, measure(), alone)
}
