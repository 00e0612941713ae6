package approx_test

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/warmpath/warmpath/radix/approx"
)

// history runs encoded ops on a tree and on the naive one, and compares them after each.
type history struct {
	t       *testing.T
	tree    *approx.Tree
	naive   *naive
	input   []byte
	workers []approx.Worker
	sent    []request
	evicted int64
}

type request struct {
	worker approx.Worker
	chain  string
	since  approx.Tick
}

func (h *history) next() int {
	if len(h.input) == 0 {
		return 0
	}
	b := h.input[0]
	h.input = h.input[1:]
	return int(b)
}

// chain makes prompts that share prefixes: each bit of a byte is the content of four units.
func (h *history) chain() string {
	content, chain := h.next(), make([]byte, h.next()%33)
	for i := range chain {
		chain[i] = byte(content>>(i/4)&1) + 1
	}
	return string(chain)
}

func keysOf(chain string) []approx.Key {
	keys := make([]approx.Key, len(chain))
	for i := range keys {
		keys[i] = approx.Key(chain[i])
	}
	return keys
}

func (h *history) worker() approx.Worker { return h.workers[h.next()%len(h.workers)] }

func (h *history) run() {
	for range 3 {
		h.add(0)
	}
	for step := 0; len(h.input) > 0; step++ {
		what := h.step()
		if err := h.tree.Check(); err != nil {
			h.t.Fatalf("step %d, %s: %v", step, what, err)
		}
		h.compare(step, what)
	}
}

// add adds the first worker that is not there.
func (h *history) add(capacity int) {
	w := approx.Worker(0)
	for h.naive.held[w] != nil {
		w++
	}
	h.tree.AddWorker(w, capacity)
	h.naive.add(w, int64(capacity))
	h.workers = append(h.workers, w)
}

// step makes one op on both and returns its name.
func (h *history) step() string {
	switch op := h.next() % 16; {
	case op < 8:
		w, chain := h.worker(), h.chain()
		since := h.tree.Insert(w, keysOf(chain))
		if want := h.naive.insert(w, chain); since != want {
			h.t.Fatalf("Insert is tick %d, want %d", since, want)
		}
		h.sent = append(h.sent, request{w, chain, since})
		return "insert"
	case op < 13 && len(h.sent) > 0:
		i, actual := h.next()%len(h.sent), h.next()%44-1
		r := h.sent[i]
		h.sent = append(h.sent[:i:i], h.sent[i+1:]...)
		if actual >= 39 {
			h.tree.Withdraw(r.worker, keysOf(r.chain), r.since)
			h.naive.withdraw(r.worker, r.chain, r.since)
			return "withdraw"
		}
		h.tree.Correct(r.worker, keysOf(r.chain), r.since, actual)
		h.naive.correct(r.worker, r.chain, r.since, actual)
		return "correct"
	case op == 13:
		w := h.worker()
		h.tree.Clear(w)
		h.naive.end(w)
		if l := h.naive.held[w]; l != nil {
			l.stale, l.born = 0, h.naive.clock
		}
		return "clear"
	case op == 14:
		w, units := h.worker(), h.next()
		h.tree.AddWorker(w, units)
		h.naive.add(w, int64(units))
		return "restart"
	case op == 15 && h.next()%2 == 0:
		w := h.worker()
		h.tree.RemoveWorker(w)
		h.naive.end(w)
		delete(h.naive.held, w)
		return "remove"
	case len(h.naive.held) < 5:
		h.add(h.next())
		return "add"
	}
	return "nothing"
}

// compare tells the naive tree the number of memory evictions, and compares capacities and
// overlaps.
func (h *history) compare(step int, what string) {
	now := h.tree.Stats().EvictedMemory
	h.naive.evict(now - h.evicted)
	h.evicted = now
	for w, l := range h.naive.held {
		want := approx.WorkerStats{Units: int64(len(l.units)), Capacity: l.capacity}
		if got := h.tree.Worker(w); got != want {
			h.t.Fatalf("step %d, %s: worker %d has %+v, want %+v", step, what, w, got, want)
		}
	}
	// A sixteenth of all contents each time, all at the end.
	for content := range 256 {
		if content%16 != step%16 && len(h.input) > 0 {
			continue
		}
		chain := make([]byte, 32)
		for i := range chain {
			chain[i] = byte(content>>(i/4)&1) + 1
		}
		got := map[approx.Worker]int{}
		for _, o := range h.tree.Match(nil, keysOf(string(chain))) {
			if got[o.Worker] != 0 {
				h.t.Fatalf("step %d, %s: worker %d matches twice", step, what, o.Worker)
			}
			got[o.Worker] = o.Units
		}
		if want := h.naive.match(string(chain)); !maps.Equal(got, want) {
			h.t.Fatalf("step %d, %s: content %08b matches %v, want %v",
				step, what, content, got, want)
		}
	}
}

func replay(t *testing.T, maxBytes int64, input []byte) approx.Stats {
	t.Helper()
	h := &history{t: t, tree: approx.New(approx.Config{Seed: 1}), naive: newNaive(), input: input}
	h.tree.SetMaxBytes(maxBytes + 5*256)
	h.run()
	return h.tree.Stats()
}

func FuzzAgainstNaive(f *testing.F) {
	f.Add(uint16(1000), []byte{0, 0, 255, 32, 0, 1, 254, 32, 8, 0, 0, 8, 0, 3, 13, 0, 14, 1, 5, 15, 0, 1})
	f.Add(uint16(60_000), randomHistory(1, 400))
	f.Fuzz(func(t *testing.T, maxBytes uint16, input []byte) {
		replay(t, int64(maxBytes), input[:min(len(input), 400)])
	})
}

func randomHistory(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, seed))
	input := make([]byte, n)
	for i := range input {
		input[i] = byte(r.Uint32())
	}
	return input
}
