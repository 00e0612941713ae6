package replay

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestOverlapComparesLikeTheEngineCounts(t *testing.T) {
	tests := []struct {
		name           string
		overlap        string
		prompt, cached int
		want           Overlap
	}{
		{"no header", "", 100, 96, Overlap{}},
		{"not a header", "x/y", 100, 96, Overlap{}},
		{"exact", "3/6", 100, 48, Overlap{Compared: 1, Exact: 1, Enough: 1, Expected: 48, Actual: 48}},
		{"all pages, the last token is computed", "6/6", 96, 80, Overlap{Compared: 1, Exact: 1, Enough: 1, Expected: 80, Actual: 80}},
		{"over, but enough", "6/6", 100, 80, Overlap{Compared: 1, Enough: 1, Over: 1, Expected: 96, Actual: 80}},
		{"over", "6/6", 100, 16, Overlap{Compared: 1, Over: 1, Expected: 96, Actual: 16}},
		{"under", "1/6", 100, 96, Overlap{Compared: 1, Enough: 1, Under: 1, Expected: 16, Actual: 96}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got Overlap
			got.add(&sample{overlap: tt.overlap, usage: usage{prompt: tt.prompt, cached: tt.cached}}, 16)
			if got != tt.want {
				t.Errorf("add = %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestTable(t *testing.T) {
	var a, b Result
	for _, r := range []*Result{&a, &b} {
		r.start(Config{TimeScale: 20, Simulated: true, PageSize: 16})
	}
	a.Policy, b.Policy = "kv", "round-robin"
	a.add(&sample{
		worker: "w1", overlap: "60/62", ttft: 50 * time.Millisecond, latency: 100 * time.Millisecond, usage: usage{1000, 960, 10},
		gaps: []time.Duration{time.Millisecond, 12 * time.Millisecond},
	})
	b.add(&sample{worker: "w1", ttft: 100 * time.Millisecond, latency: 150 * time.Millisecond, usage: usage{1000, 0, 10}})
	b.add(&sample{worker: "w2", ttft: 100 * time.Millisecond, latency: 150 * time.Millisecond, usage: usage{1000, 0, 10}})
	b.add(&sample{err: errors.New("no")})
	a.late(2 * time.Millisecond)
	b.late(300 * time.Millisecond)
	a.finish(time.Second)
	b.finish(2 * time.Second)

	var out strings.Builder
	if err := Table(&out, []*Result{&a, &b}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"policy kv round-robin", "errors 0 1", "hit rate 96.0 % 0.0 %", "ITL p95 240.0 ms 0.0 ms", "TPOT p95 111.1 ms 111.1 ms",
		"TTFT mean 1.000 s 2.000 s", "worker 1 by share 100.0 % 50.0 %", "worker 2 by share - 50.0 %",
		"overlap exact 100.0 % -", "measured times x 20", "300ms late",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}
