package routing_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

// benchPage is the page size that operators run SGLang with.
const benchPage = 64

// benchFleet has workers that each hold half of the prompt, and a router over
// them.
func benchFleet(b *testing.B, workers, length int) (*fleet, *routing.Router, *routing.Prompt) {
	b.Helper()
	var nodes []*node
	for range workers {
		nodes = append(nodes, tiny())
	}
	f := newFleet(b, nodes...)
	ids := tokens(1, length)
	for rank := range f.ranks {
		f.holds(rank, radix.DomainKey{BlockSize: benchPage}, ids, length/benchPage/2, radix.TierGPU)
	}
	view := &ingest.View{Shapes: []ingest.Shape{{Model: model, BlockSize: benchPage}}}
	seed := uint64(0)
	return f, routing.New(f.registry, f.index, func() *ingest.View { return view }, policy.KV{Options: policy.Defaults},
		func() uint64 { seed++; return seed }), prompt(ids)
}

func BenchmarkPick(b *testing.B) {
	for _, workers := range []int{8, 64, 256, 1024} {
		for _, length := range []int{1000, 12000} {
			b.Run(fmt.Sprintf("workers=%d/tokens=%d", workers, length), func(b *testing.B) {
				f, r, p := benchFleet(b, workers, length)
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					if _, err := r.Pick(&f.scratch, p, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkRequest is all that a request costs here, without events: the choice, the dispatch,
// the answer's first byte and its end. Others like it are in flight or not.
func BenchmarkRequest(b *testing.B) {
	for _, length := range []int{1000, 16384} {
		for _, others := range []int{0, 64} {
			b.Run(fmt.Sprintf("tokens=%d/others=%d", length, others), func(b *testing.B) {
				f, r, p := benchFleet(b, 8, length)
				for range others {
					d, err := r.Pick(&f.scratch, p, nil)
					require.NoError(b, err)
					r.Dispatch(&f.scratch, p, &d)
				}
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					d, err := r.Pick(&f.scratch, p, nil)
					if err != nil {
						b.Fatal(err)
					}
					flight := r.Dispatch(&f.scratch, p, &d)
					flight.Prefilled()
					r.Withdraw(flight)
				}
			})
		}
	}
}

// BenchmarkKnownSessions is a turn of an agent, of which eight ranks hold the first half: the choice,
// the dispatch and the end, with and without the knowledge of sessions. A session has 32 turns.
func BenchmarkKnownSessions(b *testing.B) {
	for _, length := range []int{1000, 16384, 90000} {
		for _, known := range []bool{false, true} {
			b.Run(fmt.Sprintf("tokens=%d/known=%v", length, known), func(b *testing.B) {
				f, r, p := benchFleet(b, 8, length)
				for _, rank := range f.ranks {
					rank.SetExact(true)
					prove(rank)
				}
				f.learns()
				r.Approx = f.router.Approx
				if known {
					r.Known = routing.NewKnownSessions(f.index)
				}
				all := p.Tokens
				b.ReportAllocs()
				b.ResetTimer()
				for n := range b.N {
					all[length/2+1] = uint32(n / 32)
					p.Tokens = all[:length*3/4+n%32*length/128]
					d, err := r.Pick(&f.scratch, p, nil)
					if err != nil {
						b.Fatal(err)
					}
					flight := r.Dispatch(&f.scratch, p, &d)
					r.Known.End(&d, 100, time.Now())
					r.Withdraw(flight)
					r.Failed(&f.scratch, &d)
				}
			})
		}
	}
}
