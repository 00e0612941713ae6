//go:build !race

package route_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/policy"
	"github.com/warmpath/warmpath/dataplane/route"
	"github.com/warmpath/warmpath/radix"
)

// quiet answers like the router that it has, and keeps nothing.
type quiet struct {
	router  *route.Router
	scratch route.Scratch
	off     bool
}

func (q *quiet) Active() bool { return !q.off }

func (*quiet) Sent(uint64) {}

func (*quiet) Together() bool { return true }

func (*quiet) Tell(uint64, int, []uint32) uint64 { return 1 }

func (*quiet) Done(uint64) {}

func (q *quiet) Choose(a *route.Ask) (route.Answer, bool) {
	d, err := q.router.Arbitrate(&q.scratch, a)
	return route.Answer{Number: 1, Rank: d.Rank.Hash()}, err == nil
}

// TestAskingDoesNotAllocate: with other routers or without, a request costs no memory, here or there.
func TestAskingDoesNotAllocate(t *testing.T) {
	f := newFleet(t, tiny(), tiny(), tiny())
	f.holds(1, radix.DomainKey{}, tokens(1, 1000), 100, radix.TierGPU)
	view := &ingest.View{Shapes: f.shapes}
	fresh := func() *route.Router {
		return route.New(f.registry, f.index, func() *ingest.View { return view }, policy.KV{Options: policy.Defaults}, func() uint64 { return 7 })
	}
	q, r := &quiet{router: fresh()}, fresh()
	r.Others = q
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
