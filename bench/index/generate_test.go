package index_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/bench/index"
)

// mooncake reads the first 200 requests of Mooncake's conversation trace.
func mooncake(tb testing.TB) []index.Request {
	tb.Helper()
	f, err := os.Open("../replay/testdata/mooncake_conversation_200.jsonl")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	trace, err := index.ReadTrace(f, 0)
	if err != nil || len(trace) != 200 {
		tb.Fatalf("ReadTrace = %d requests, %v", len(trace), err)
	}
	return trace
}

func generate(tb testing.TB, trace []index.Request, o index.Options) *index.Workload {
	tb.Helper()
	w, err := index.Generate(trace, o)
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

// TestGenerateEqualsPeers compares files with those of the peers' generator (in Rust, with
// Dynamo's own hash) for the same trace and options, byte for byte.
func TestGenerateEqualsPeers(t *testing.T) {
	tests := []struct {
		o   index.Options
		sum string
	}{
		{index.Options{Workers: 4, Blocks: 9000, IDBlocks: 32}, "fe0a304272a1311514ad4af3efb3a1a3ba45d7a5905a726b80a264840534a661"},
		{index.Options{Workers: 3, Blocks: 9000, IDBlocks: 32}, "6fcca43b5d7ace1cdf779f1839e2964df6fafe0c41a8723ff046016d4ede430c"},
		{index.Options{Workers: 4, Blocks: 9000, IDBlocks: 32, Random: true}, "8ce9df9a6968cd1d907aec93cd77882f96f144d34eae22cd6240143dac208fbd"},
	}
	trace := mooncake(t)
	for _, tt := range tests {
		h := sha256.New()
		if err := generate(t, trace, tt.o).Write(h); err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != tt.sum {
			t.Errorf("%+v gives a file of SHA-256 %s, want %s", tt.o, got, tt.sum)
		}
	}
}

// held has the blocks of workers by engine hash, in plain maps.
type held []map[uint64]bool

// replay applies ops and fails on one that no engine publishes: a block stored twice, a missing
// parent, or a missing block removed.
func (h held) replay(t *testing.T, w *index.Workload, ops []index.Op) {
	t.Helper()
	for i, o := range ops {
		names, mine := w.EngineHashes(o.Req), h[o.Worker]
		switch o.Kind {
		case index.Store:
			if o.Start > 0 && !mine[names[o.Start-1]] {
				t.Fatalf("op %d = %+v stores behind a block that the worker lacks", i, o)
			}
		case index.Clear:
			h[o.Worker] = map[uint64]bool{}
			continue
		case index.Query:
			continue
		}
		for _, name := range names[o.Start:o.End] {
			if mine[name] == (o.Kind == index.Store) {
				t.Fatalf("op %d = %+v: a block is there: %t", i, o, mine[name])
			}
			if mine[name] = o.Kind == index.Store; !mine[name] {
				delete(mine, name)
			}
		}
	}
}

// sum returns the right sum of a look-up, and the largest overlap.
func (h held) sum(w *index.Workload, req uint32) (sum uint64, most int) {
	prompt := w.EngineHashes(req)[:len(w.Prompt(req))]
	for worker, mine := range h {
		depth := 0
		for depth < len(prompt) && mine[prompt[depth]] {
			depth++
		}
		sum += uint64(depth) * uint64(2*worker+1)
		most = max(most, depth)
	}
	return sum, most
}

func TestGenerateTellsTheTruth(t *testing.T) {
	tests := []struct {
		name  string
		trace []index.Request
		o     index.Options
		kinds string // letters of the expected kinds of ops
	}{
		{"trace", mooncake(t), index.Options{Workers: 4, Blocks: 9000, IDBlocks: 32}, "qsr"},
		{"conversation", index.Conversation(300), index.Options{Workers: 8, Blocks: 4000, IDBlocks: 16}, "qsr"},
		{"shared", index.Shared(400), index.Options{Workers: 300, Blocks: 9000, IDBlocks: 16, Random: true}, "qs"},
		{"holes", index.Shared(500), index.Options{Workers: 3, Blocks: 2000, IDBlocks: 16, Random: true, Holes: true}, "qsrc"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := generate(t, tt.trace, tt.o)
			h := make(held, w.Workers)
			for i := range h {
				h[i] = map[uint64]bool{}
			}
			h.replay(t, w, w.Ops[:w.Warm])
			pairs, distinct := 0, map[uint64]bool{}
			for _, mine := range h {
				pairs += len(mine)
				for name := range mine {
					distinct[name] = true
				}
				if len(mine) > tt.o.Blocks {
					t.Errorf("a worker holds %d blocks, want at most %d", len(mine), tt.o.Blocks)
				}
			}
			if pairs != w.Pairs || len(distinct) != w.Distinct {
				t.Errorf("%d pairs of %d blocks are held, the workload says %d of %d",
					pairs, len(distinct), w.Pairs, w.Distinct)
			}
			for _, truth := range w.Tests {
				sum, most := h.sum(w, truth.Req)
				if sum != truth.Sum || most != int(truth.Depth) {
					t.Fatalf("request %d: sum %d, depth %d, the workload says %+v",
						truth.Req, sum, most, truth)
				}
			}
			h.replay(t, w, w.Ops[w.Warm:])
			for i, letter := range "qsrc" {
				n := 0
				for _, o := range w.Ops {
					if o.Kind == index.Kind(i) {
						n++
					}
				}
				if strings.ContainsRune(tt.kinds, letter) != (n > 0) {
					t.Errorf("%d ops of kind %c", n, letter)
				}
			}
		})
	}
}

// TestHolesAreThere expects blocks that a worker holds without the block before.
func TestHolesAreThere(t *testing.T) {
	w := generate(t, index.Shared(900), index.Options{Workers: 4, Blocks: 4000, IDBlocks: 16, Random: true, Holes: true})
	h := make(held, w.Workers)
	for i := range h {
		h[i] = map[uint64]bool{}
	}
	h.replay(t, w, w.Ops[:w.Warm])
	open := 0
	for _, truth := range w.Tests {
		names := w.EngineHashes(truth.Req)
		for _, mine := range h {
			for i := 1; i < len(names); i++ {
				if mine[names[i]] && !mine[names[i-1]] {
					open++
				}
			}
		}
	}
	if open < 100 {
		t.Errorf("the prompts that are looked up meet %d holes, want more than 100", open)
	}
}
