//go:build !race

package route_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/policy"
	"github.com/warmpath/warmpath/dataplane/route"
	"github.com/warmpath/warmpath/radix"
)

// TestPickDoesNotAllocate: nor does what follows the answer, once the ring of
// answers has been round.
func TestPickDoesNotAllocate(t *testing.T) {
	f := newFleet(t, tiny(), tiny(), tiny())
	ids := tokens(1, 1000)
	f.holds(0, radix.DomainKey{}, ids, 100, radix.TierGPU)
	f.holds(1, radix.DomainKey{Bigram: true}, ids, 100, radix.TierGPU)
	view := &ingest.View{Shapes: []ingest.Shape{{Model: model, BlockSize: page}, {Model: model, BlockSize: page, Bigram: true}}}
	r := route.New(f.registry, f.index, func() *ingest.View { return view }, policy.KV{Options: policy.Defaults}, func() uint64 { return 7 })
	p, reply, now := prompt(ids), tokens(2, 50), time.Now()
	pick := func() {
		d, err := r.Pick(&f.scratch, p, f.ranks[2:])
		if err != nil || d.Matched == 0 {
			t.Errorf("Pick = %+v, %v", d, err)
		}
		flight := r.Dispatch(&f.scratch, &d)
		flight.Prefilled()
		r.Land(flight)
		r.Ended(&d, reply, now)
	}
	for range 300 {
		pick()
	}
	require.Zero(t, testing.AllocsPerRun(200, pick), "allocations of a request")
}
