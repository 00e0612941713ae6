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

// TestPickDoesNotAllocate: a choice and the answer's bookkeeping allocate nothing, with similar
// prompts in flight.
func TestPickDoesNotAllocate(t *testing.T) {
	f := newFleet(t, tiny(), tiny(), tiny())
	ids := tokens(1, 1000)
	f.holds(0, radix.DomainKey{}, ids, 100, radix.TierGPU)
	f.holds(1, radix.DomainKey{Bigram: true}, ids, 100, radix.TierGPU)
	view := &ingest.View{Shapes: []ingest.Shape{{Model: model, BlockSize: page}, {Model: model, BlockSize: page, Bigram: true}}}
	r := routing.New(f.registry, f.index, func() *ingest.View { return view }, policy.KV{Options: policy.Defaults}, func() uint64 { return 7 })
	p, reply, now := prompt(ids), tokens(2, 50), time.Now().Add(time.Hour)
	f.tell(0, gpuSlow)
	f.tell(2, gpuDraining)
	pick := func() {
		d, err := r.Pick(&f.scratch, p, f.ranks[2:])
		if err != nil || d.Matched == 0 {
			t.Errorf("Pick = %+v, %v", d, err)
		}
		flight := r.Dispatch(&f.scratch, p, &d)
		flight.Prefilled()
		r.Withdraw(flight)
		flight = r.Dispatch(&f.scratch, p, &d)
		r.Finish(&f.scratch, flight, reply, now)
	}
	for range 5000 { // from here on each answer takes an older one's place
		pick()
	}
	require.Zero(t, testing.AllocsPerRun(200, pick), "allocations of a request")
}

// TestApproximatePickDoesNotAllocate: neither does a choice by the approximate index, with ids
// and with text, nor a whole request with a known prompt.
func TestApproximatePickDoesNotAllocate(t *testing.T) {
	f := newFleet(t, tiny(), tiny(), tiny())
	f.learns()
	f.ranks[0].SetExact(true)
	f.holds(0, radix.DomainKey{}, tokens(1, 1000), 100, radix.TierGPU)
	view := &ingest.View{Shapes: f.shapes}
	r := routing.New(f.registry, f.index, func() *ingest.View { return view }, policy.KV{Options: policy.Defaults}, func() uint64 { return 7 })
	r.Approx = f.router.Approx
	prompts := []*routing.Prompt{prompt(tokens(1, 1000)), text(words(1, 4000))}
	request := func() {
		for _, p := range prompts {
			d, err := r.Pick(&f.scratch, p, nil)
			if err != nil {
				t.Error(err)
			}
			r.Sent(&f.scratch, &d)
			r.Answered(&f.scratch, p, &d, p.Len(), d.Cached)
			r.Failed(&f.scratch, &d)
		}
	}
	for range 20 {
		request()
	}
	require.Zero(t, testing.AllocsPerRun(200, request), "allocations of a request")
}
