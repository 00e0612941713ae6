package radix_test

import (
	"bufio"
	"encoding/json"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/radix"
)

// A workload is what workers publish and what routers ask while a trace of requests is served: shared/index-peers/src/bin/gen.rs in
// Go, so that the numbers stand beside the peers'. Each worker has an LRU of blocks that gives the tail of a request up first.
type workload struct {
	workers int
	blocks  [][]radix.Hash // by request: prompt, then decoded blocks
	engine  [][]uint64     // by request: a chained hash, equal on all workers
	prompt  []int          // blocks of the prompt
	ops     []op
	warm    int     // ops before the look-ups of tests
	tests   []truth // of the state at warm
	applied int     // blocks stored and removed
	pairs   int     // (worker, block) held at warm
}

// op stores or removes blocks start to end of a request; a removal goes from the end to the start.
type op struct {
	remove     bool
	worker     int
	req        int
	start, end int
}

// truth is the sum over the workers of depth x (2 x worker + 1) that a look-up of a request's prompt must give.
type truth struct {
	req int
	sum uint64
}

// request is a line of a Mooncake trace: a prompt as ids of 512 tokens.
type request struct {
	Timestamp    float64  `json:"timestamp"`
	InputLength  int      `json:"input_length"`
	OutputLength int      `json:"output_length"`
	HashIDs      []uint64 `json:"hash_ids"`
}

const (
	workloadWorkers = 64
	idBlocks        = 32 // of 16 tokens, in an id of 512
	workerBlocks    = 16384
)

// conversation imitates the Mooncake conversation trace: sessions behind one common first id, a turn adds to the prompt before it.
// WARMPATH_TRACE names a file to take instead.
func conversation(tb testing.TB) *workload {
	tb.Helper()
	if name := os.Getenv("WARMPATH_TRACE"); name != "" {
		return newWorkload(readTrace(tb, name), false)
	}
	r := rand.New(rand.NewPCG(1, 1))
	next := uint64(1)
	var sessions [][]uint64
	trace := make([]request, 8000)
	for i := range trace {
		ids := []uint64{0}
		s := len(sessions) - 1 - int(min(r.ExpFloat64()*300, float64(len(sessions)-1)))
		turn := len(sessions) > 0 && r.Float64() < 0.6 && len(sessions[s]) < 200 // the context window
		if turn {
			ids = sessions[s]
		}
		// Half of the trace's prompts are below 7 K tokens, a tenth above 30 K.
		for range 1 + int(min(math.Exp(1.5+1.1*r.NormFloat64()), 45)) {
			ids = append(slices.Clip(ids), next)
			next++
		}
		if turn {
			sessions[s] = ids
		} else {
			sessions = append(sessions, ids)
		}
		trace[i] = request{float64(i) * 300, len(ids)*512 - r.IntN(512), 30 + r.IntN(600), ids}
	}
	return newWorkload(trace, false)
}

// sharedPrompts imitates make_shared_trace.py: 40 system prompts of 20 to 60 ids by Zipf, turns on top, random routing.
func sharedPrompts(testing.TB) *workload {
	r := rand.New(rand.NewPCG(7, 7))
	next := uint64(0)
	fresh := func(ids []uint64, n int) []uint64 {
		ids = slices.Clip(ids)
		for range n {
			ids = append(ids, next)
			next++
		}
		return ids
	}
	prompts, weights, total := make([][]uint64, 40), make([]float64, 40), 0.0
	for i := range prompts {
		prompts[i] = fresh(nil, 20+r.IntN(41))
		weights[i] = 1 / math.Pow(float64(i+1), 0.9)
		total += weights[i]
	}
	var sessions [][]uint64
	trace := make([]request, 6000)
	for i := range trace {
		var ids []uint64
		if len(sessions) > 0 && r.IntN(2) == 0 {
			s := len(sessions) - 1 - r.IntN(min(len(sessions), 400))
			ids = fresh(sessions[s], 1+r.IntN(3))
			sessions[s] = ids
		} else {
			p, v := 0, r.Float64()*total
			for ; p < len(prompts)-1 && v > weights[p]; p++ {
				v -= weights[p]
			}
			ids = fresh(prompts[p], 1+r.IntN(6))
			sessions = append(sessions, ids)
		}
		trace[i] = request{float64(i) * 100, len(ids) * 512, 30 + r.IntN(371), ids}
	}
	return newWorkload(trace, true)
}

func readTrace(tb testing.TB, name string) (trace []request) {
	tb.Helper()
	f, err := os.Open(name)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			tb.Fatal(err)
		}
		trace = append(trace, r)
	}
	return trace
}

// mix is the finalizer of splitmix64.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func newWorkload(trace []request, randomly bool) *workload {
	w := &workload{workers: workloadWorkers}
	for i, r := range trace {
		n := min(len(r.HashIDs)*idBlocks, max(r.InputLength/16, 1))
		all := n + r.OutputLength/16
		blocks, engine := make([]radix.Hash, all), make([]uint64, all)
		seq := uint64(0)
		for j := range all {
			v := 0xdec0de<<40 + uint64(i)<<20 + uint64(j-n)
			if j < n {
				v = r.HashIDs[j/idBlocks]<<20 + uint64(j%idBlocks) + 0x123456789abc
			}
			blocks[j] = radix.Hash(mix(v))
			hi, lo := bits.Mul64(seq^0x9e3779b97f4a7c15, mix(v)|1)
			seq = mix(hi ^ lo ^ mix(v))
			engine[j] = seq
		}
		w.blocks, w.engine, w.prompt = append(w.blocks, blocks), append(w.engine, engine), append(w.prompt, n)
	}
	w.serve(trace, randomly)
	return w
}

// lruEntry is a block in a worker's LRU, a ring through entry 0.
type lruEntry struct {
	req, pos   int
	prev, next int32
}

type lru struct {
	at   map[uint64]int32
	ring []lruEntry
	free []int32
}

func (l *lru) unlink(i int32) {
	e := &l.ring[i]
	l.ring[e.prev].next, l.ring[e.next].prev = e.next, e.prev
}

// touch makes a block the latest; it reports whether it is new.
func (l *lru) touch(req, pos int, name uint64) bool {
	i, known := l.at[name]
	switch {
	case known:
		l.unlink(i)
	case len(l.free) > 0:
		i = l.free[len(l.free)-1]
		l.free = l.free[:len(l.free)-1]
		l.ring[i] = lruEntry{req: req, pos: pos}
	default:
		i = int32(len(l.ring))
		l.ring = append(l.ring, lruEntry{req: req, pos: pos})
	}
	l.at[name] = i
	head := l.ring[0].next
	l.ring[i].prev, l.ring[i].next = 0, head
	l.ring[head].prev, l.ring[0].next = i, i
	return !known
}

// serve routes the trace and notes what the workers publish.
func (w *workload) serve(trace []request, randomly bool) {
	caches := make([]lru, w.workers)
	for i := range caches {
		caches[i] = lru{at: map[uint64]int32{}, ring: make([]lruEntry, 1)}
	}
	holders := map[uint64]uint64{} // engine hash to a bit a worker
	queue := make([]float64, w.workers)
	total := 0
	for _, b := range w.blocks {
		total += len(b)
	}
	rate := float64(total) * 0.6 / (trace[len(trace)-1].Timestamp - trace[0].Timestamp) / float64(w.workers) / 0.7
	last, warm := 0.0, len(trace)*7/10
	r := rand.New(rand.NewPCG(3, 3))
	for req := range trace {
		if req == warm {
			w.take(req, caches, holders)
		}
		depth := depths(holders, w.engine[req][:w.prompt[req]])
		pick, best := 0, math.MaxFloat64
		first := r.IntN(w.workers)
		for i := range w.workers {
			j := (i + first) % w.workers
			queue[j] = max(queue[j]-rate*(trace[req].Timestamp-last), 0)
			if c := float64(w.prompt[req]-depth[j]) + queue[j]; c < best {
				best, pick = c, j
			}
		}
		last = trace[req].Timestamp
		if randomly {
			pick = first
		}
		queue[pick] += float64(w.prompt[req] - depth[pick])
		w.serveOne(req, pick, depth[pick], &caches[pick], holders)
	}
}

// serveOne evicts for a request, whose first known blocks are there, and stores the rest: the prompt at once, decoded blocks one by one.
func (w *workload) serveOne(req, worker, known int, l *lru, holders map[uint64]uint64) {
	names := w.engine[req]
	for i := known - 1; i >= 0; i-- {
		l.touch(req, i, names[i])
	}
	begin := len(w.ops)
	for range len(l.at) + len(names) - known - workerBlocks {
		i := l.ring[0].prev
		e := l.ring[i]
		l.unlink(i)
		name := w.engine[e.req][e.pos]
		delete(l.at, name)
		l.free = append(l.free, i)
		if holders[name] &^= 1 << worker; holders[name] == 0 {
			delete(holders, name)
		}
		w.applied++
		if o := &w.ops[max(len(w.ops)-1, 0)]; len(w.ops) > begin && o.req == e.req && o.start == e.pos+1 {
			o.start--
			continue
		}
		w.ops = append(w.ops, op{true, worker, e.req, e.pos, e.pos + 1})
	}
	n := w.prompt[req]
	if known < n {
		w.ops = append(w.ops, op{false, worker, req, known, n})
	}
	for i := max(n, known); i < len(names); i++ {
		w.ops = append(w.ops, op{false, worker, req, i, i + 1})
	}
	w.applied += len(names) - known
	for i, name := range slices.Backward(names) {
		l.touch(req, i, name)
		holders[name] |= 1 << worker
	}
}

// take notes the state before a request, and the right answers for 3,000 look-ups around it.
func (w *workload) take(req int, caches []lru, holders map[uint64]uint64) {
	w.warm = len(w.ops)
	for i := range caches {
		w.pairs += len(caches[i].at)
	}
	for k := range 1500 {
		for _, t := range []int{req - 1 - k, req + k} {
			if t < 0 || t >= len(w.engine) {
				continue
			}
			sum := uint64(0)
			for j, d := range depths(holders, w.engine[t][:w.prompt[t]]) {
				sum += uint64(d) * uint64(2*j+1)
			}
			w.tests = append(w.tests, truth{t, sum})
		}
	}
}

// depths returns how many leading blocks each worker holds.
func depths(holders map[uint64]uint64, names []uint64) (depth [workloadWorkers]int) {
	alive := ^uint64(0)
	for i, name := range names {
		have := holders[name]
		for gone := alive &^ have; gone != 0; gone &= gone - 1 {
			depth[bits.TrailingZeros64(gone)] = i
		}
		if alive &= have; alive == 0 {
			return depth
		}
	}
	for ; alive != 0; alive &= alive - 1 {
		depth[bits.TrailingZeros64(alive)] = len(names)
	}
	return depth
}
