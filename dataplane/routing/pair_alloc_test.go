//go:build !race

package routing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

// pairRouter picks among so many prefill and decode workers, each of the former with half of
// the prompt, and two others.
func pairRouter(t testing.TB, prefill, decode int) (*fleet, *routing.Router, *routing.Prompt) {
	t.Helper()
	nodes := []*node{tiny(), tiny()}
	for range prefill {
		nodes = append(nodes, prefillNode())
	}
	for range decode {
		nodes = append(nodes, decodeNode())
	}
	f := newFleet(t, nodes...)
	ids := tokens(1, 4096)
	for i := range prefill {
		f.holds(2+i, radix.DomainKey{BlockSize: benchPage}, ids, len(ids)/benchPage/2, radix.TierGPU)
	}
	for _, rank := range f.ranks[:2] {
		rank.Load.Begin(1 << 20)
	}
	view := &ingest.View{Shapes: []ingest.Shape{{Model: model, BlockSize: benchPage}}}
	seed := uint64(0)
	return f, routing.New(f.registry, f.index, func() *ingest.View { return view }, policy.KV{Options: policy.Defaults},
		func() uint64 { seed++; return seed }), prompt(ids)
}

func TestPickOfAPairDoesNotAllocate(t *testing.T) {
	f, r, p := pairRouter(t, 4, 4)
	f.tell(2, gpuDraining)
	f.tell(3, gpuSlow)
	f.tell(7, gpuSlow)
	pick := func() {
		if d, err := r.Pick(&f.scratch, p, nil); err != nil || d.Decode == nil {
			t.Errorf("Pick = %+v, %v", d, err)
		}
	}
	pick()
	require.Zero(t, testing.AllocsPerRun(200, pick), "allocations of a choice")
}
