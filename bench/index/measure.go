package index

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/radix"
)

// Config configures a measurement.
type Config struct {
	Name   string        // of the workload, for the result
	Rounds int           // repetitions; medians are over them
	Time   time.Duration // of each loop of look-ups; 1 s in the peers' harness
	// Progress is called at each step, if it is not nil.
	Progress func(step string)
}

// Measure plays a workload and measures. With [ErrWrong] the result is complete; with any other
// error, which is ctx's, there is none.
func Measure(ctx context.Context, w *Workload, cfg Config) (*Result, error) {
	r := &Result{Workload: cfg.Name, Workers: w.Workers, Pairs: w.Pairs, Distinct: w.Distinct}
	r.LookUps = len(w.Tests)
	two := splitByWorker(w.Ops[:w.Warm], 2)
	for i := range cfg.Rounds {
		b := &round{ended: ctx.Err, cfg: cfg, number: i + 1, w: w, r: r, start: time.Now()}
		b.clock()
		p := b.applyWarm()
		b.matchStatic(p)
		b.matchBesideWriter(p)
		b.clearAll(p)
		p = b.applyParts(two)
		b.matchTokens(p)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("cannot measure the index: %w", err)
		}
	}
	return r, r.err()
}

// bench is one round.
type round struct {
	ended  func() error // of the context
	cfg    Config
	number int
	w      *Workload
	r      *Result
	start  time.Time
	before int // live heap bytes without an index
}

// now reads the clock once; time.Now reads the date, too.
func (b *round) now() time.Duration { return time.Since(b.start) }

// step reports progress, and returns false if the context has ended.
func (b *round) step(name string) bool {
	if b.ended() != nil {
		return false
	}
	if b.cfg.Progress != nil {
		b.cfg.Progress(fmt.Sprintf("round %d of %d: %s", b.number, b.cfg.Rounds, name))
	}
	return true
}

// clock measures two clock reads, which are in the time of each look-up.
func (b *round) clock() {
	times := make([]uint32, 10_000)
	for i := range times {
		t := b.now()
		times[i] = uint32(b.now() - t)
	}
	b.r.addTimes("clock", times, 50)
}

// liveBytes returns the heap bytes that are reachable.
func liveBytes() int {
	runtime.GC()
	runtime.GC() // the second one empties sync.Pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// millionsPerSecond returns a rate.
func millionsPerSecond(n int, d time.Duration) float64 { return float64(n) / d.Seconds() / 1e6 }

// applyWarm applies the warm ops by one writer, and compares the answers with the right ones.
func (b *round) applyWarm() *Player {
	if !b.step("apply, 1 writer") {
		return nil
	}
	b.before = liveBytes()
	p := NewPlayer(b.w)
	t := b.now()
	refused := p.Apply(b.w.Ops[:b.w.Warm])
	b.r.add("apply, 1 writer", "M blocks/s", millionsPerSecond(changedBlocks(b.w.Ops[:b.w.Warm]), b.now()-t))
	b.r.add("heap", "B/entry", float64(liveBytes()-b.before)/float64(max(b.w.Pairs, 1)))
	b.r.Entries = p.Index.Stats().Entries
	b.r.Wrong, b.r.Refused = max(b.r.Wrong, p.Wrong()), max(b.r.Refused, refused)
	return p
}

// Prompts of longMin to longMax blocks are also reported alone, as in the peers' harness, and
// so are those of them with an overlap of longMin.
const longMin, longMax = 500, 2000

// matchStatic measures look-ups without writers.
func (b *round) matchStatic(p *Player) {
	if !b.step("look-ups, 1 and 2 threads") {
		return
	}
	one := b.matchRate(p)
	b.r.add("look-ups, 1 thread", "M/s", one/1e6)
	b.r.add("look-ups, 2 threads", "M/s", b.matchRateTwo(p)/1e6)
	var all, long, deep []uint32
	buf := make([]radix.Overlap, 0, b.w.Workers)
	for range 5 {
		for _, truth := range b.w.Tests {
			t := b.now()
			buf = p.Match(buf[:0], truth.Req)
			took := uint32(b.now() - t)
			all = append(all, took)
			if n := len(b.w.Prompt(truth.Req)); n >= longMin && n <= longMax {
				long = append(long, took)
				if truth.Depth >= longMin {
					deep = append(deep, took)
				}
			}
		}
	}
	b.r.addTimes("look-up", all, 50, 99, 99.9)
	b.r.addTimes(fmt.Sprintf("of %d-%d blocks", longMin, longMax), long, 50, 99)
	b.r.addTimes(fmt.Sprintf("and %d held", longMin), deep, 50, 99)
}

// matchRate looks up all tests repeatedly and returns the rate per second.
func (b *round) matchRate(p *Player) float64 {
	buf := make([]radix.Overlap, 0, b.w.Workers)
	begin, n := b.now(), 0
	for len(b.w.Tests) > 0 && (n == 0 || b.now()-begin < b.cfg.Time) {
		for i := range b.w.Tests {
			buf = p.Match(buf[:0], b.w.Tests[i].Req)
		}
		n += len(b.w.Tests)
	}
	return float64(n) / (b.now() - begin).Seconds()
}

// matchRateTwo is matchRate by two goroutines at once.
func (b *round) matchRateTwo(p *Player) float64 {
	var rates [2]float64
	var both sync.WaitGroup
	for i := range rates {
		both.Go(func() { rates[i] = b.matchRate(p) })
	}
	both.Wait()
	return rates[0] + rates[1]
}

// matchBesideWriter looks up while one writer applies the rest of the workload.
func (b *round) matchBesideWriter(p *Player) {
	if !b.step("look-ups beside 1 writer") {
		return
	}
	rest := b.w.Ops[b.w.Warm:]
	var done atomic.Bool
	var writer sync.WaitGroup
	begin := b.now()
	writer.Go(func() {
		refused := p.Apply(rest)
		b.r.add("mixed: apply, 1 writer", "M blocks/s", millionsPerSecond(changedBlocks(rest), b.now()-begin))
		b.r.Refused = max(b.r.Refused, refused)
		done.Store(true)
	})
	times := make([]uint32, 0, 1<<20)
	buf := make([]radix.Overlap, 0, b.w.Workers)
	for i := 0; len(b.w.Tests) > 0; i++ {
		t := b.now()
		buf = p.Match(buf[:0], b.w.Tests[i%len(b.w.Tests)].Req)
		times = append(times, uint32(min(b.now()-t, math.MaxUint32)))
		if done.Load() {
			break
		}
	}
	took := b.now() - begin
	writer.Wait()
	b.r.add("mixed: look-ups, 1 thread", "M/s", millionsPerSecond(len(times), took))
	b.r.addTimes("mixed: look-up", times, 50, 99, 99.9)
}

// clearAll clears all workers and measures the rest of the heap.
func (b *round) clearAll(p *Player) {
	if !b.step("clears") {
		return
	}
	const mib = 1 << 20
	full := liveBytes()
	b.r.add("counted of the heap", "%", 100*float64(p.Index.Stats().Bytes)/float64(full-b.before))
	for i := range b.w.Workers {
		p.Index.Clear(radix.Worker(i))
	}
	b.r.add("heap at the end of the trace", "MiB", float64(full-b.before)/mib)
	b.r.add("heap after clears", "MiB", float64(max(liveBytes()-b.before, 0))/mib)
	runtime.KeepAlive(p)
}

// applyParts applies the warm ops by one writer for each part.
func (b *round) applyParts(parts [][]Op) *Player {
	if !b.step(fmt.Sprintf("apply, %d writers", len(parts))) {
		return nil
	}
	p := NewPlayer(b.w)
	runtime.GC()
	t := b.now()
	refused := p.ApplyParts(parts)
	b.r.add(fmt.Sprintf("apply, %d writers",
		len(parts)), "M blocks/s", millionsPerSecond(changedBlocks(b.w.Ops[:b.w.Warm]), b.now()-t))
	b.r.Refused = max(b.r.Refused, refused)
	b.r.Wrong = max(b.r.Wrong, p.Wrong())
	return p
}
