package sim

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// promptOf is a prompt of n tokens of which the first shared are the same for
// every i.
func promptOf(i, n, shared int) []uint32 {
	ids := make([]uint32, n)
	for k := range ids {
		seed := uint64(k)
		if k >= shared {
			seed += uint64(i) << 32
		}
		ids[k] = uint32(mix(seed) % vocabularySize)
	}
	return ids
}

func BenchmarkInsert(b *testing.B) {
	for _, cached := range []int{0, 11_984} {
		b.Run(fmt.Sprintf("tokens=12000/cached=%d", cached), func(b *testing.B) {
			c := newCache(16, &recorder{page: 16})
			prompts := make([][]uint32, 100)
			for i := range prompts {
				prompts[i] = promptOf(i, 12_000, cached)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				c.insert(space{}, prompts[i%len(prompts)])
				if i++; i%len(prompts) == 0 {
					c.evict(c.pages)
				}
				c.changes.take()
			}
		})
	}
}

func BenchmarkMatch(b *testing.B) {
	c := newCache(16, &recorder{page: 16})
	prompt := promptOf(0, 12_000, 0)
	c.insert(space{}, prompt)
	b.ReportAllocs()
	for b.Loop() {
		c.match(space{}, prompt)
	}
}

func BenchmarkParseGenerate(b *testing.B) {
	body := []byte(generateBody(promptOf(0, 12_000, 0), 300, ""))
	l := &jobReader{process: &process{cfg: &Config{ContextLength: 1 << 20, CachePages: 1 << 20, PageSize: 16}}}
	l.ranks = []*rank{nil}
	ctx := &fasthttp.RequestCtx{}
	ctx.Request.SetBodyRaw(body)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.generateJob(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGenerate is one request of the Mooncake trace, end to end, half of its
// prompt cached, on a worker that is so fast that only its own work counts.
func BenchmarkGenerate(b *testing.B) {
	for _, stream := range []bool{false, true} {
		b.Run(fmt.Sprintf("prompt=12000/answer=343/stream=%v", stream), func(b *testing.B) {
			w, err := New(Config{TimeScale: 1e6})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			wg.Go(func() { _ = w.Run(ctx) })
			defer wg.Wait()
			defer cancel()
			defer http.DefaultClient.CloseIdleConnections()
			bodies := make([]string, 200)
			for i := range bodies {
				bodies[i] = generateBody(promptOf(i, 12_000, 6_000), 343, fmt.Sprintf(`,"stream":%v`, stream))
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				resp, err := http.Post(w.URL()+"/generate", "application/json", strings.NewReader(bodies[i%len(bodies)]))
				if err != nil {
					b.Fatal(err)
				}
				drainBody(resp)
				i++
			}
		})
	}
}

func drainBody(resp *http.Response) {
	buf := make([]byte, 32<<10)
	for {
		if _, err := resp.Body.Read(buf); err != nil {
			resp.Body.Close()
			return
		}
	}
}

// BenchmarkTimeScale runs eight ranks through a simulated hour each and reports by
// how much their clocks were off in the end.
func BenchmarkTimeScale(b *testing.B) {
	for _, scale := range []float64{60, 240, 960} {
		b.Run(fmt.Sprintf("ranks=8/scale=%v", scale), func(b *testing.B) {
			worst := 0.0
			for b.Loop() {
				errs := make(chan float64, 8)
				for range cap(errs) {
					go func() { errs <- hour(scale) }()
				}
				for range cap(errs) {
					worst = max(worst, math.Abs(<-errs))
				}
			}
			b.ReportMetric(100*worst, "%off")
		})
	}
}

// hour keeps a rank busy for a simulated hour and returns by what share the wall
// clock disagrees.
func hour(scale float64) float64 {
	cfg := Config{TimeScale: scale, CachePages: 250_000}.withDefaults()
	k := newRank(0, &cfg, newFaults(), &tape{}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { k.run(ctx) })
	defer wg.Wait()
	defer cancel()
	start := time.Now()
	batch := make([]*request, 32)
	for i := range batch {
		batch[i] = newTestRequest(promptOf(i, 12_000, 0), 100_000)
		batch[i].planned = 100_000
		k.submit(batch[i])
	}
	for k.report.snapshot().clock < time.Hour {
		time.Sleep(time.Millisecond)
	}
	simulated := k.report.snapshot().clock
	return (time.Since(start).Seconds()*scale - simulated.Seconds()) / simulated.Seconds()
}
