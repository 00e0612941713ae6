package ingest_test

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/radix"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

// world is a manager that follows one worker.
type world struct {
	t      *testing.T
	net    network
	pubs   []*publisher // by rank
	index  *radix.Index
	m      *ingest.Manager
	worker *worker.Worker
	info   *worker.Info
}

const (
	model = "tiny"
	page  = 4
)

// inWorld runs test in a bubble with a worker of dp ranks whose publishers it
// may prepare. The manager does not follow it yet.
func inWorld(t *testing.T, cfg ingest.Config, dp int, test func(w *world)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		w := &world{t: t, net: network{}, index: radix.New(radix.Config{Seed: 1}), worker: workers(t, dp, "http://a:1")[0]}
		w.info = &worker.Info{Models: []string{model}, DPSize: dp, Events: &worker.Events{BlockSize: page}}
		for i := range dp {
			p := newPublisher()
			live, replay := fmt.Sprintf("live%d", i), fmt.Sprintf("replay%d", i)
			w.net[live], w.net[replay] = p, p
			w.pubs = append(w.pubs, p)
			w.info.Events.Endpoints = append(w.info.Events.Endpoints, live)
			w.info.Events.Replays = append(w.info.Events.Replays, replay)
		}
		cfg.Log = slog.New(slog.DiscardHandler)
		w.m = ingest.NewManager(cfg, w.index, w.net.subscribe, w.net.replay)
		defer w.end()
		test(w)
	})
}

// end stops the manager's streams and checks that they leave nothing.
func (w *world) end() {
	w.m.Down(w.worker)
	require.Zero(w.t, w.index.Stats().Workers, "holders after the end")
	require.Zero(w.t, w.index.Stats().Entries, "blocks after the end")
	for i, p := range w.pubs {
		require.Empty(w.t, p.subs, "subscriptions of rank %d after the end", i)
	}
}

func (w *world) up() {
	w.m.Up(w.worker, w.info)
	synctest.Wait()
}

// after lets d pass and everything settle.
func (w *world) after(d time.Duration) {
	time.Sleep(d) // of the bubble's clock
	synctest.Wait()
}

func (w *world) stream(rank int) *ingest.Stream {
	w.t.Helper()
	s := w.m.Stream(w.worker.Ranks()[rank])
	require.NotNil(w.t, s, "stream of rank %d", rank)
	return s
}

func (w *world) stats() *ingest.Stats { return &w.stream(0).Stats }

// held returns how many leading blocks of a prompt a rank has: what all of its
// holders have.
func (w *world) held(rank int, k radix.DomainKey, tokens []uint32) (blocks int) {
	k.Model, k.BlockSize = model, page
	d, ok := w.index.FindDomain(k)
	if !ok {
		return 0
	}
	width := page
	if k.Bigram {
		width *= 2
	}
	found := map[uint32]int{}
	for _, o := range w.index.Match(nil, d, w.index.AppendHashes(nil, tokens, width)) {
		found[uint32(o.Worker)] = int(o.Blocks)
	}
	for i, id := range w.worker.Ranks()[rank].IndexIDs() {
		if i == 0 || found[id] < blocks {
			blocks = found[id]
		}
	}
	return blocks
}

// credited is held for rank 0 as far as routing believes it.
func (w *world) credited(tokens []uint32) int {
	if w.worker.Ranks()[0].Doubt() != worker.NoDoubt {
		return 0
	}
	return w.held(0, radix.DomainKey{}, tokens)
}

// wantHeld is held for rank 0 and plain prompts.
func (w *world) wantHeld(want int, tokens []uint32, msg string) {
	w.t.Helper()
	require.Equal(w.t, want, w.held(0, radix.DomainKey{}, tokens), "blocks held: %s", msg)
}

// prompt returns n blocks of tokens that no other prompt begins with.
func prompt(id uint32, n int) []uint32 {
	tokens := make([]uint32, n*page)
	for i := range tokens {
		tokens[i] = id<<16 + uint32(i)
	}
	return tokens
}

// store is the event of blocks [from, to) of a prompt, by SGLang's names.
func store(tokens []uint32, from, to int) kvevent.Event {
	names := kvevent.SGLangHashes(nil, tokens, page, "")
	ev := kvevent.Event{
		Kind: kvevent.Stored, Hashes: names[from:to], Tokens: tokens[from*page : to*page], BlockSize: page, Medium: kvevent.MediumGPU,
	}
	if from > 0 {
		ev.Parent, ev.HasParent = names[from-1], true
	}
	return ev
}

// remove is the event of blocks [from, to) leaving the GPU.
func remove(tokens []uint32, from, to int) kvevent.Event {
	return kvevent.Event{
		Kind: kvevent.Removed, Hashes: kvevent.SGLangHashes(nil, tokens, page, "")[from:to], Medium: kvevent.MediumGPU,
	}
}

var cleared = kvevent.Event{Kind: kvevent.Cleared}
