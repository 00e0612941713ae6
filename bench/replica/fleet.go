package replica

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/fleet/worker/workertest"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

const (
	model = "m"
	page  = 16
	// Prompts are of the conversation trace's mean turn, behind a part that a few ranks hold.
	prompts, promptTokens, holders = 64, 4096, 4
)

// fleet is one router's view of the workers.
type fleet struct {
	registry *worker.Registry
	router   *routing.Router
	prompts  [][]uint32
}

// newFleet waits until all workers have described themselves. They are asked once, so nothing
// but ctx may end the question.
func newFleet(ctx context.Context, workers int) (*fleet, error) {
	f := &fleet{registry: worker.NewRegistry(worker.Config{Interval: time.Hour, Timeout: time.Hour, LoadEvery: -1, Dial: workertest.Dial, Log: slog.New(slog.DiscardHandler)}, nil)}
	for i := range workers {
		if _, err := f.registry.Add(fmt.Sprintf("http://w%04d:80", i)); err != nil {
			return f, fmt.Errorf("cannot add worker %d: %w", i, err)
		}
	}
	for !f.ready() {
		select {
		case <-ctx.Done():
			return f, fmt.Errorf("cannot wait for %d workers: %w", workers, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
	index := radix.New(radix.Config{Seed: 1})
	view := &ingest.View{Shapes: []ingest.Shape{{Model: model, BlockSize: page}}}
	f.router = routing.New(f.registry, index, func() *ingest.View { return view }, policy.KV{Options: policy.Defaults}, rand.Uint64)
	return f, f.fill(index)
}

func (f *fleet) ready() bool {
	for _, w := range f.registry.Snapshot().Workers {
		if w.State() != worker.Ready {
			return false
		}
	}
	return true
}

// fill gives each prompt to a few ranks, the same ones in every router.
func (f *fleet) fill(index *radix.Index) error {
	ranks, rng := f.registry.Snapshot().Ranks, rand.New(rand.NewPCG(1, 1))
	domain := index.Domain(radix.DomainKey{Model: model, BlockSize: page})
	for i := range prompts {
		ids := make([]uint32, promptTokens)
		for j := range ids {
			ids[j] = uint32(i)<<16 + uint32(j)
		}
		f.prompts = append(f.prompts, ids)
		chain := index.AppendHashes(nil, ids, page)
		for range holders {
			id, blocks := index.AddWorker(), 1+rng.IntN(len(chain))
			rank := ranks[rng.IntN(len(ranks))]
			rank.SetIndexIDs(append(append([]uint32{}, rank.IndexIDs()...), uint32(id)))
			names := make([]uint64, blocks)
			for k := range names {
				names[k] = rng.Uint64()
			}
			if err := index.Store(radix.Store{Worker: id, Domain: domain, Engine: names, Blocks: chain[:blocks]}); err != nil {
				return fmt.Errorf("cannot fill the index: %w", err)
			}
		}
	}
	return nil
}

// close ends the registry's goroutines.
func (f *fleet) close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = f.registry.Run(ctx)
}
