package radix

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// predictHistory runs ops on predictions and on a plain list of them.
type predictHistory struct {
	history // for its input
	made    []*Prediction
	oracle  []predicted
}

// predicted is a prediction: block size 1, so its tokens are its blocks.
type predicted struct {
	active, confirmed bool
	worker            Worker
	scope             Scope
	tokens            []uint32
}

const (
	historyPredictions = 6
	historyScopes      = 2
)

func newPredictHistory(tb testing.TB, in []byte) *predictHistory {
	tb.Helper()
	f := &predictHistory{
		history: history{t: tb, in: in, x: New(Config{Seed: 1, Stripes: 2})},
		made:    make([]*Prediction, historyPredictions), oracle: make([]predicted, historyPredictions),
	}
	for i := range f.made {
		f.made[i] = new(Prediction)
	}
	return f
}

func (f *predictHistory) scope() Scope {
	return f.x.Scope(DomainKey{Salt: string(rune('a' + f.next(historyScopes)))})
}

// tokens often have common prefixes.
func (f *predictHistory) tokens() []uint32 {
	out := make([]uint32, f.next(12))
	for i := range out {
		out[i] = uint32(max(f.next(8), 6))
	}
	return out
}

func (f *predictHistory) hashes(tokens []uint32) []Hash { return f.x.AppendHashes(nil, tokens, 1) }

func (f *predictHistory) op() {
	i := f.next(historyPredictions)
	p, o := f.made[i], &f.oracle[i]
	switch f.next(8) {
	case 0, 1, 2:
		*o = predicted{active: true, worker: Worker(f.next(historyWorkers)), scope: f.scope(), tokens: f.tokens()}
		f.x.Predict(p, o.worker, o.scope, f.hashes(o.tokens))
	case 3, 4:
		p.Confirm()
		o.confirmed = true
	case 5, 6:
		more := f.tokens()
		o.tokens = append(o.tokens, more...)
		p.Extend(f.hashes(more))
	default:
		p.Forget()
		o.active = false
	}
}

// want is the answer of the list.
func (f *predictHistory) want(s Scope, tokens []uint32) (out []Overlap) {
	for w := range Worker(historyWorkers) {
		o := Overlap{Worker: w}
		for _, p := range f.oracle {
			if !p.active || p.worker != w || p.scope != s {
				continue
			}
			n := int32(0)
			for int(n) < min(len(tokens), len(p.tokens)) && tokens[n] == p.tokens[n] {
				n++
			}
			o.Blocks = max(o.Blocks, n)
			if p.confirmed {
				o.GPU = max(o.GPU, n)
			}
		}
		if o.Blocks > 0 {
			out = append(out, o)
		}
	}
	return out
}

func (f *predictHistory) compare(s Scope, tokens []uint32) {
	f.t.Helper()
	want := f.want(s, tokens)
	f.buf = f.x.MatchPredicted(f.buf[:0], s, f.hashes(tokens))
	sortOverlaps(f.buf)
	if !slices.Equal(f.buf, want) {
		f.t.Fatalf("MatchPredicted(%v) = %v, want %v", tokens, f.buf, want)
	}
	var hashes []Hash
	f.buf, hashes = f.x.MatchPredictedTokens(f.buf[:0], nil, s, tokens, 1)
	sortOverlaps(f.buf)
	if !slices.Equal(f.buf, want) || !slices.Equal(hashes, f.hashes(tokens)[:len(hashes)]) {
		f.t.Fatalf("MatchPredictedTokens(%v) = %v, %v, want %v", tokens, f.buf, hashes, want)
	}
}

func (f *predictHistory) run() {
	for len(f.in) > 0 {
		f.op()
		f.compare(f.scope(), f.tokens())
		checkPredictions(f.t, f.x)
	}
	for _, p := range f.oracle {
		f.compare(p.scope, p.tokens)
		f.compare(p.scope, append(p.tokens, 6))
	}
	for _, p := range f.made {
		p.Forget()
	}
	checkPredictions(f.t, f.x)
	if s := f.x.Stats(); s.Predictions != 0 || s.PredictedBlocks != 0 || f.x.predictions.runs.Load() != 0 || f.x.predictions.bytes.Load() != 0 {
		f.t.Fatalf("Stats() = %+v, %d runs after Forget", s, f.x.predictions.runs.Load())
	}
}

// checkPredictions walks the quiet tree of predictions and compares all that it has in two
// places.
func checkPredictions(tb testing.TB, x *Index) {
	tb.Helper()
	t := &x.predictions
	runs, blocks, bytes := int64(0), int64(0), int64(0)
	t.children.all(func(r *run) {
		f := r.view.Load()
		runs, blocks, bytes = runs+1, blocks+int64(len(r.hashes())), bytes+predictedBytes(len(r.hashes()))
		passing := 0
		seen := map[Worker]bool{}
		words, _ := f.coverages()
		for i := range r.predicted.holders {
			g := &r.predicted.holders[i]
			if got := words[i].Load(); got != g.coverage() {
				tb.Fatalf("run %d publishes %#x, want %#x", r.id, got, g.coverage())
			}
			if len(g.counts) > 0 && seen[g.worker] {
				tb.Fatalf("worker %d has two slots in run %d", g.worker, r.id)
			}
			seen[g.worker] = seen[g.worker] || len(g.counts) > 0
			for _, e := range g.counts {
				passing += int(e.n)
				if e.n == 0 || e.confirmed > e.n || e.blocks == 0 || int(e.blocks) > len(r.hashes()) {
					tb.Fatalf("run %d of %d blocks: worker %d has %+v",
						r.id, len(r.hashes()), g.worker, e)
				}
			}
		}
		if r.dead.Load() || passing == 0 || passing != r.predicted.segments {
			tb.Fatalf("run %d is linked, dead %t, and has %d segments, counts %d",
				r.id, r.dead.Load(), passing, r.predicted.segments)
		}
	})
	if runs != t.runs.Load() || blocks != t.blocks.Load() || bytes != t.bytes.Load() {
		tb.Fatalf("%d runs of %d blocks and %d bytes, counted are %d, %d and %d",
			runs, blocks, bytes, t.runs.Load(), t.blocks.Load(), t.bytes.Load())
	}
}

// FuzzPredictAgainstNaive runs any history of predictions that are made, confirmed, extended
// and forgotten on the index and on a list.
func FuzzPredictAgainstNaive(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomBytes(seed, 600))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		newPredictHistory(t, in[:min(len(in), 4096)]).run()
	})
}

func TestRandomPredictions(t *testing.T) {
	for seed := range uint64(200) {
		newPredictHistory(t, randomBytes(2000+seed, 1500)).run()
	}
}

// TestPredictionsStayApart from held blocks, from other scopes, and in Stats.
func TestPredictionsStayApart(t *testing.T) {
	x := New(Config{Seed: 1})
	w, key := x.AddWorker(), DomainKey{Model: "m", BlockSize: 16}
	d, s := x.Domain(key), x.Scope(key)
	before := x.Stats()
	var p Prediction
	x.Predict(&p, w, s, chain(1, 2, 3))
	after := x.Stats()
	if after.Predictions != 1 || after.PredictedBlocks != 3 || after.Bytes <= before.Bytes {
		t.Errorf("Stats() = %+v with a prediction, %+v before", after, before)
	}
	if after.Entries+after.Runs+after.Blocks+after.Holds > 0 {
		t.Errorf("Stats() = %+v: a prediction counts as held", after)
	}
	if got := x.Match(nil, d, chain(1, 2, 3)); len(got) > 0 {
		t.Errorf("Match finds a prediction: %v", got)
	}
	mustStore(t, x, Store{Worker: w, Domain: d, Engine: []uint64{7, 8}, Blocks: chain(4, 5)})
	if got := x.MatchPredicted(nil, s, chain(4, 5)); len(got) > 0 {
		t.Errorf("MatchPredicted finds held blocks: %v", got)
	}
	others := []DomainKey{
		{},
		{Model: "m"},
		{Model: "m", BlockSize: 32},
		{BlockSize: 16, LoRA: "m"},
		{BlockSize: 16, Salt: "m"},
		{Model: "m", BlockSize: 16, Bigram: true},
		{Model: "m", BlockSize: 16, Salt: "x"},
		{Model: "m", BlockSize: 16, LoRA: "x"},
	}
	for _, k := range others {
		if got := x.MatchPredicted(nil, x.Scope(k), chain(1, 2, 3)); len(got) > 0 {
			t.Errorf("MatchPredicted finds %v in the scope of %+v", got, k)
		}
	}
	x.Clear(w)
	if got := x.MatchPredicted(nil, s, chain(1, 2, 3)); len(got) != 1 || got[0] != (Overlap{Worker: w, Blocks: 3}) {
		t.Errorf("MatchPredicted = %v after the worker's blocks were cleared", got)
	}
	checkIndex(t, x)
}

// TestPredictionsAreBounded predicts beyond the memory bound: only leading blocks are predicted
// then.
func TestPredictionsAreBounded(t *testing.T) {
	x := New(Config{Seed: 1})
	w := x.AddWorker()
	var all []*Prediction
	for i := range 100 {
		p := new(Prediction)
		all = append(all, p)
		c, _ := sequence(uint64(i), maxRun/2)
		x.Predict(p, w, 0, c)
		p.Extend(chain(1, 2, 3))
	}
	if got := x.predictions.bytes.Load(); got > maxPredictedBytes || got < maxPredictedBytes/2 {
		t.Errorf("predictions take %d bytes, want %d at most and most of that",
			got, maxPredictedBytes)
	}
	c, _ := sequence(99, 10)
	if got := x.MatchPredicted(nil, 0, c); len(got) > 0 {
		t.Errorf("MatchPredicted = %v of a prediction without room", got)
	}
	if got := x.MatchPredicted(nil, 0, chain(1, 2, 3)); len(got) > 0 {
		t.Errorf("MatchPredicted = %v, want no extension", got)
	}
	checkPredictions(t, x)
	for _, p := range all {
		p.Forget()
	}
	x.Predict(all[0], w, 0, c)
	if got := x.MatchPredicted(nil, 0, c); len(got) != 1 || got[0].Blocks != 10 {
		t.Errorf("MatchPredicted = %v when there is room again", got)
	}
}

// TestPredictBesideLookups has goroutines predict, confirm, extend and forget few chains beside
// look- ups. A constant prediction must always be found; for other workers, never more than was
// predicted at any time.
func TestPredictBesideLookups(t *testing.T) {
	const writers = 4
	x := New(Config{Seed: 1, Stripes: 2})
	c, e := sequence(0, chainLen)
	for range writers + 1 {
		x.AddWorker()
	}
	var idle Prediction
	x.Predict(&idle, writers, 0, c[:chainFork])
	idle.Confirm()
	var busy, lookers sync.WaitGroup
	for i := range Worker(writers) {
		busy.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			made := make([]Prediction, 3)
			for range rounds {
				p, n := &made[r.IntN(len(made))], 1+r.IntN(60)
				other, _ := sequence(1+r.Uint64N(3), 20)
				x.Predict(p, i, 0, append(c[:n:n], other[:r.IntN(20)]...))
				if r.IntN(2) > 0 {
					p.Confirm()
				}
				p.Extend(c[n:min(n+10, chainLen)])
				mayStore(x, i, TierGPU, -1, e[:n], c[:n])
			}
			for i := range made {
				made[i].Forget()
			}
		})
	}
	var done atomic.Bool
	for range 2 {
		lookers.Go(func() {
			var buf []Overlap
			for !done.Load() {
				buf = x.MatchPredicted(buf[:0], 0, c)
				checkPredictedAnswer(t, buf, writers)
			}
		})
	}
	busy.Wait()
	done.Store(true)
	lookers.Wait()
	if got := x.MatchPredicted(nil, 0, c); len(got) != 1 || got[0].Worker != writers {
		t.Errorf("MatchPredicted = %v after Forget of all but one", got)
	}
	checkPredictions(t, x)
	checkIndex(t, x)
}

// TestPredictionsAreSeen has goroutines predict the same few chains, whose runs come and go:
// each must find its own at once.
func TestPredictionsAreSeen(t *testing.T) {
	x := New(Config{Seed: 1})
	var all sync.WaitGroup
	for w := range Worker(4) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			var p Prediction
			var buf []Overlap
			for range 5 * rounds {
				c := chain(1, Hash(r.IntN(2)), Hash(r.IntN(2)))[r.IntN(2):]
				x.Predict(&p, w, 0, c)
				buf = x.MatchPredicted(buf[:0], 0, c)
				if !slices.Contains(buf, Overlap{Worker: w, Blocks: int32(len(c))}) {
					t.Errorf("MatchPredicted(%v) = %v, want all of worker %d", c, buf, w)
					return
				}
				p.Forget()
			}
		})
	}
	all.Wait()
	checkPredictions(t, x)
}

// TestMatchPredictedWhileSlotsChange moves a worker from the first slot of a run to the last
// while look-ups read the slots between.
func TestMatchPredictedWhileSlotsChange(t *testing.T) {
	x := New(Config{Seed: 1})
	c := chain(1)
	predictions := make([]Prediction, 2000)
	for i := range predictions {
		x.Predict(&predictions[i], Worker(i), 0, c)
	}
	w, last := Worker(len(predictions)), Worker(len(predictions)-1)
	var done atomic.Bool
	var lookers sync.WaitGroup
	lookers.Go(func() {
		var buf []Overlap
		seen := make([]int, w+1)
		for round := 1; !done.Load(); round++ {
			buf = x.MatchPredicted(buf[:0], 0, c)
			for _, o := range buf {
				if seen[o.Worker] == round {
					t.Errorf("worker %d is answered twice", o.Worker)
					return
				}
				seen[o.Worker] = round
			}
		}
	})
	predictions[0].Forget()
	var p Prediction
	var buf []Overlap
	for range rounds / 2 {
		x.Predict(&p, w, 0, c)                // takes the first slot
		buf = x.MatchPredicted(buf[:0], 0, c) // takes as long as the other look-ups up to here
		predictions[last].Forget()
		p.Forget()
		x.Predict(&p, w, 0, c) // takes the last one
		buf = x.MatchPredicted(buf[:0], 0, c)
		p.Forget()
		x.Predict(&predictions[last], last, 0, c)
	}
	done.Store(true)
	lookers.Wait()
	checkPredictions(t, x)
}

func checkPredictedAnswer(t *testing.T, got []Overlap, idle Worker) {
	t.Helper()
	found := false
	for i, o := range got {
		if slices.ContainsFunc(got[:i], func(p Overlap) bool { return p.Worker == o.Worker }) {
			t.Errorf("worker %d is answered twice: %v", o.Worker, got)
		}
		if o.Worker == idle {
			found = o.Blocks == chainFork && o.GPU == chainFork
		} else if o.GPU > o.Blocks || o.Blocks > 70 {
			t.Errorf("%+v was never so", o)
		}
	}
	if !found {
		t.Errorf("MatchPredicted = %v, want all of worker %d", got, idle)
	}
}
