package replay_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/bench/replay"
)

func TestTraceReadsTheSlice(t *testing.T) {
	f, err := os.Open("testdata/mooncake_conversation_200.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	trace := replay.NewTraceFile(f)
	defer trace.Close()
	requests, tokens := 0, 0
	for {
		r, err := trace.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if requests == 0 && (r.At != 0 || r.Input != 6758 || r.Output != 500 || len(r.Blocks) != 14 || r.Blocks[13] != 13) {
			t.Errorf("the first request is %+v", r)
		}
		requests++
		tokens += r.Input
	}
	if requests != 200 || tokens != 2782179 {
		t.Errorf("read %d requests of %d tokens, want 200 of 2782179", requests, tokens)
	}
}

func TestTraceRefusesBadLines(t *testing.T) {
	const good = `{"timestamp": 1000, "input_length": 600, "output_length": 3, "hash_ids": [1, 2]}` + "\n"
	tests := []struct{ name, line, want string }{
		{"no JSON", `{"timestamp": `, "line 3"},
		{"no object", `[1]`, "no timestamp"},
		{"no length", `{"timestamp": 1000}`, "no input_length"},
		{"wrong type", `{"timestamp": "now", "input_length": 1, "output_length": 1, "hash_ids": [1]}`, "timestamp"},
		{"negative", `{"timestamp": 1000, "input_length": -1, "output_length": 1, "hash_ids": [1]}`, "input_length is -1"},
		{"empty prompt", `{"timestamp": 1000, "input_length": 0, "output_length": 1, "hash_ids": []}`, "input_length is 0"},
		{"too few ids", `{"timestamp": 1000, "input_length": 600, "output_length": 1, "hash_ids": [1]}`, "1 hash_ids for input_length 600"},
		{"id of a wrong type", `{"timestamp": 1000, "input_length": 1, "output_length": 1, "hash_ids": ["a"]}`, "hash_ids[0]"},
		{"back in time", `{"timestamp": 999, "input_length": 1, "output_length": 1, "hash_ids": [1]}`, "before the line above"},
		{"too long", strings.Repeat("x", 2<<20), "line 3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			trace := replay.NewTrace(strings.NewReader(good + "\n" + tt.line + "\n" + good))
			if r, err := trace.Next(); err != nil || r.At != time.Second || len(r.Blocks) != 2 {
				t.Fatalf("Next() = %+v, %v, want the first line", r, err)
			}
			_, err := trace.Next()
			if !errors.Is(err, replay.ErrTrace) || !strings.Contains(err.Error(), "line 3") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Next() = %v, want ErrTrace that names line 3 and %q", err, tt.want)
			}
		})
	}
}

func FuzzTrace(f *testing.F) {
	f.Add(`{"timestamp": 0, "input_length": 513, "output_length": 3, "hash_ids": [1, 2]}`)
	f.Add("\n\n{}")
	f.Fuzz(func(t *testing.T, text string) {
		trace := replay.NewTrace(strings.NewReader(text))
		last := time.Duration(0)
		for {
			r, err := trace.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, replay.ErrTrace) {
					t.Fatalf("Next() = %v, want io.EOF or ErrTrace", err)
				}
				return
			}
			if r.Input < 1 || r.Output < 0 || r.At < last || len(r.Blocks) != (r.Input+replay.BlockTokens-1)/replay.BlockTokens {
				t.Fatalf("Next() = %+v after %v: no request can be made of it", r, last)
			}
			last = r.At
		}
	})
}

func TestSyntheticIsTheSameForASeedAndSharesPrefixes(t *testing.T) {
	const n = 400
	a, b, other := replay.NewSynthetic(1, n), replay.NewSynthetic(1, n), replay.NewSynthetic(2, n)
	seen := map[uint64]bool{}
	blocks, known, differs := 0, 0, false
	for range n {
		r, err := a.Next()
		if err != nil {
			t.Fatal(err)
		}
		same, _ := b.Next()
		different, _ := other.Next()
		if r.At != same.At || r.Input != same.Input || r.Output != same.Output {
			t.Fatalf("the same seed gives %+v and %+v", r, same)
		}
		differs = differs || r.Input != different.Input
		if want := (r.Input + replay.BlockTokens - 1) / replay.BlockTokens; len(r.Blocks) != want {
			t.Fatalf("%d blocks for %d tokens, want %d", len(r.Blocks), r.Input, want)
		}
		for _, id := range r.Blocks {
			blocks++
			if seen[id] {
				known++
			}
			seen[id] = true
		}
	}
	if _, err := a.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("Next() after %d requests = %v, want io.EOF", n, err)
	}
	if !differs {
		t.Error("two seeds give the same trace")
	}
	if part := float64(known) / float64(blocks); part < 0.5 || part > 0.95 {
		t.Errorf("%.2f of the blocks were seen before: a trace without choices measures no policy", part)
	}
}
