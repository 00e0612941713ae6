package index_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/bench/index"
	"github.com/warmpath/warmpath/dataplane/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func small(tb testing.TB) *index.Workload {
	tb.Helper()
	return generate(tb, index.Shared(300), index.Options{Workers: 4, Blocks: 4000, IDBlocks: 16, Random: true, Holes: true})
}

var quick = index.Config{Name: "small", Rounds: 3, Time: time.Millisecond}

func TestMeasure(t *testing.T) {
	w := small(t)
	var said []string
	cfg := quick
	cfg.Progress = func(what string) { said = append(said, what) }
	r, err := index.Measure(t.Context(), w, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r.Entries != w.Pairs || r.Wrong != 0 || r.Refused != 0 || r.LookUps != len(w.Tests) {
		t.Errorf("Measure = %+v, want %d entries and no wrong answers", r, w.Pairs)
	}
	for _, m := range r.Metrics {
		if len(m.Values) != cfg.Rounds || slices.Max(m.Values) <= 0 && m.Name != "heap after clears" {
			t.Errorf("%s has values %v in %d rounds", m.Name, m.Values, cfg.Rounds)
		}
	}
	if !slices.Contains(said, "round 3 of 3: apply, 2 writers") {
		t.Errorf("progress was %q", said)
	}
	var table bytes.Buffer
	if err := r.Table(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"small: 4 workers", "apply, 1 writer", "apply, 2 writers", "look-ups, 2 threads", "look-up, p99.9", "mixed: look-up, p99", "B/entry",
		"heap after clears", "16,384 tokens, all but 512 known, p50", "wrong answers: 0 of",
	} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
	if text, err := json.Marshal(r); err != nil || !strings.Contains(string(text), `"name":"apply, 1 writer","unit":"M blocks/s","median":`) {
		t.Errorf("JSON is %s, %v", text, err)
	}
}

// TestMeasureGivesMemoryBack expects a cleared index to keep less than a twentieth of its
// memory.
func TestMeasureGivesMemoryBack(t *testing.T) {
	w := generate(t, index.Conversation(500), index.Options{Workers: 4, Blocks: 16384, IDBlocks: 32})
	r, err := index.Measure(t.Context(), w, quick)
	if err != nil {
		t.Fatal(err)
	}
	value := func(name string) float64 {
		return r.Metrics[slices.IndexFunc(r.Metrics, func(m index.Metric) bool { return m.Name == name })].Median
	}
	if full, left := value("heap at the end of the trace"), value("heap after clears"); left > full/20 {
		t.Errorf("%.2f MiB of %.2f are left after clears", left, full)
	}
}

func TestMeasureFindsFaults(t *testing.T) {
	tests := []struct {
		name   string
		change func(w *index.Workload)
		want   string
	}{
		{"wrong sum", func(w *index.Workload) { w.Tests[0].Sum++ }, "1 of"},
		{"wrong depth", func(w *index.Workload) { w.Tests[1].Depth++ }, "1 of"},
		{"lost store", func(w *index.Workload) {
			w.Ops[slices.IndexFunc(w.Ops, func(o index.Op) bool { return o.Kind == index.Store })].Kind = index.Query
		}, "changes were refused"},
		{"wrong number of entries", func(w *index.Workload) { w.Pairs++ }, "entries are held of"},
	}
	for _, tt := range tests {
		w := small(t)
		tt.change(w)
		cfg := quick
		cfg.Rounds = 1
		r, err := index.Measure(t.Context(), w, cfg)
		if !errors.Is(err, index.ErrWrong) || !strings.Contains(err.Error(), tt.want) || r == nil || len(r.Metrics) == 0 {
			t.Errorf("%s: Measure = %v, %v, want ErrWrong with %q and a whole result",
				tt.name, r, err, tt.want)
		}
	}
}

func TestMeasureStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cfg := quick
	cfg.Progress = func(string) { cancel() }
	if r, err := index.Measure(ctx, small(t), cfg); !errors.Is(err, context.Canceled) || r != nil {
		t.Errorf("Measure that is cancelled = %v, %v", r, err)
	}
}

// TestTwoWriters compares all answers after two writers have applied the ops, several times for
// the race detector.
func TestTwoWriters(t *testing.T) {
	w := small(t)
	parts := [][]index.Op{nil, nil}
	for _, o := range w.Ops[:w.Warm] {
		parts[o.Worker%2] = append(parts[o.Worker%2], o)
	}
	for range 5 {
		p := index.NewPlayer(w)
		if refused, wrong := p.ApplyParts(parts), p.Wrong(); refused+wrong > 0 {
			t.Fatalf("two writers: %d changes refused, %d answers wrong", refused, wrong)
		}
	}
}

func TestTableOfNumbers(t *testing.T) {
	r := index.Result{Workload: "x", Workers: 1024, Entries: 1048576, LookUps: 3000, Wrong: 2, Metrics: []index.Metric{
		{Name: "a", Unit: "ns", Median: 1234.5, Values: []float64{1234.5}},
		{Name: "b", Unit: "ns", Median: 123.4, Values: []float64{123.4, 12.34, 1.234}},
	}}
	var b bytes.Buffer
	if err := r.Table(&b); err != nil {
		t.Fatal(err)
	}
	want := `x: 1,024 workers, 1,048,576 entries of 0 blocks
  a  1,235  ns
  b    123  ns  123 12.3 1.23
wrong answers: 2 of 3,000; changes refused: 0
`
	if b.String() != want {
		t.Errorf("Table wrote\n%s\nwant\n%s", b.String(), want)
	}
	if err := r.Table(full{}); err == nil {
		t.Error("Table to a full disk succeeds")
	}
}
