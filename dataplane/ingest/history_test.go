package ingest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

// engine is the true cache of a rank: the oracle. Its events leave it through a publisher that
// may lose them.
type engine struct {
	rng     *rand.Rand
	p       *publisher
	prompts [][]uint32
	names   [][]uint64
	cached  map[uint64]bool // by name, which says all before the block too
	gpu     map[uint64]bool // the rest is in host memory

	restarted bool   // and perhaps unnoticed
	known     uint64 // restarts that the stream knew of then
}

func newEngine(rng *rand.Rand, p *publisher) *engine {
	e := &engine{rng: rng, p: p, cached: map[uint64]bool{}, gpu: map[uint64]bool{}}
	for i := range 8 {
		tokens := prompt(uint32(i/2), 10) // two prompts each share their beginning
		for at := (i%2)*page*4 + page; i%2 == 1 && at < len(tokens); at++ {
			tokens[at] += 1 << 30
		}
		e.prompts = append(e.prompts, tokens)
		e.names = append(e.names, sglangHashes(tokens, page, ""))
	}
	return e
}

// held is the oracle's overlap of a prompt.
func (e *engine) held(i int) int {
	for n, name := range e.names[i] {
		if !e.cached[name] {
			return n
		}
	}
	return len(e.names[i])
}

// act does one thing that an engine does and returns its events.
func (e *engine) act() []kvevent.Event {
	i := e.rng.IntN(len(e.prompts))
	tokens, names := e.prompts[i], e.names[i]
	switch e.rng.IntN(10) {
	case 0: // any block, as a tiered cache does
		return e.evict(tokens, names, e.rng.IntN(len(names)))
	case 1, 2, 3: // from the end, as an LRU does
		for at, name := range slices.Backward(names) {
			if e.cached[name] {
				return e.evict(tokens, names, at)
			}
		}
		return nil
	case 4: // copied to host memory
		at := e.held(i) - 1
		if at < 0 || !e.gpu[names[at]] {
			return nil
		}
		e.gpu[names[at]] = false
		up, down := store(tokens, at, at+1), remove(tokens, at, at+1)
		up.Medium = kvevent.MediumCPU
		return []kvevent.Event{up, down}
	default:
		return e.compute(i)
	}
}

// evict takes one block out of the tier where it is.
func (e *engine) evict(tokens []uint32, names []uint64, at int) []kvevent.Event {
	if !e.cached[names[at]] {
		return nil
	}
	ev := remove(tokens, at, at+1)
	if !e.gpu[names[at]] {
		ev.Medium = kvevent.MediumCPU
	}
	delete(e.cached, names[at])
	delete(e.gpu, names[at])
	return []kvevent.Event{ev}
}

// compute caches a prompt up to some block: the missing blocks, in one event for each stretch.
func (e *engine) compute(i int) (events []kvevent.Event) {
	names, end := e.names[i], 1+e.rng.IntN(len(e.names[i]))
	for from := 0; from < end; from++ {
		if e.cached[names[from]] {
			continue
		}
		to := from
		for ; to < end && !e.cached[names[to]]; to++ {
			e.cached[names[to]], e.gpu[names[to]] = true, true
		}
		events = append(events, store(e.prompts[i], from, to))
		from = to
	}
	return events
}

func (e *engine) clear() {
	clear(e.cached)
	clear(e.gpu)
}

// restart is a crash: unpublished events are lost.
func (e *engine) restart() {
	e.clear()
	e.p.restart()
}

// history is one run: how much the network and the engine do wrong.
type history struct {
	name     string
	keep     int // batches for replay; 0 is all
	noReplay bool
	drop     int     // one in so many messages does not come; 0 is none
	restart  int     // one in so many steps
	silent   int     // one in so many steps the replay stops or begins to answer
	skip     int     // one in so many messages is lost for replays too
	hwm      int     // messages that wait for a subscriber; 0 is no bound
	faulty   []fault // of replays, until the end of the history
	breaks   int     // one in so many steps the connection breaks; a restart always breaks it, then
	holdMax  int     // bytes of messages that may wait for a replay
	exact    bool    // at rest the index must equal the cache
}

// TestHistories plays random histories. At rest the index equals the cache wherever the events
// could be had, and never has more.
func TestHistories(t *testing.T) {
	tests := []history{
		{name: "nothing goes wrong", exact: true},
		{name: "messages are lost", drop: 5, exact: true},
		{name: "nearly all messages are lost", drop: 1, exact: true},
		{name: "the worker restarts", restart: 30, exact: true},
		{name: "messages are lost and the worker restarts", drop: 4, restart: 30, exact: true},
		{name: "replays stop answering for a while", drop: 4, restart: 60, silent: 20, exact: true},
		{name: "a short queue in the rank", drop: 4, restart: 60, hwm: 2, exact: true},
		{name: "a short replay buffer", keep: 6, drop: 4, restart: 60, silent: 50},
		{name: "messages are lost for good", skip: 20, drop: 6, restart: 60},
		{name: "no replay", noReplay: true, drop: 6, restart: 60},
		{name: "silent replays", drop: 6, restart: 40, breaks: 30, faulty: []fault{whole, silent}, exact: true},
		{name: "slow replays", drop: 6, restart: 40, breaks: 30, faulty: []fault{whole, slow}, exact: true},
		{name: "half replays", drop: 6, restart: 40, breaks: 30, faulty: []fault{whole, half}, exact: true},
		{name: "replays with holes", drop: 6, restart: 40, breaks: 30, faulty: []fault{whole, holed}, exact: true},
		{name: "replays with holes always", drop: 6, restart: 40, faulty: []fault{holed}, exact: true},
		{name: "replays of another process", drop: 6, restart: 40, faulty: []fault{whole, whole, foreign}, exact: true},
		{name: "replays with all faults", drop: 6, restart: 40, breaks: 30, faulty: []fault{whole, silent, slow, half, holed, refused}, exact: true},
		{name: "hardly any replay answers", drop: 8, restart: 40, breaks: 30, faulty: []fault{silent, silent, silent, half, whole}, exact: true},
		{name: "no replay, and the connection breaks", noReplay: true, drop: 6, restart: 40, breaks: 20},
		{name: "no room for messages that wait", holdMax: 300, drop: 6, restart: 40, breaks: 30, faulty: []fault{whole, slow, silent}, exact: true},
	}
	for _, tt := range tests {
		for seed := range uint64(histories) {
			t.Run(fmt.Sprintf("%s/seed=%d", tt.name, seed), func(t *testing.T) {
				inWorld(t, ingest.Config{HoldBytes: tt.holdMax}, 1, func(w *world) { tt.play(w, seed) })
			})
		}
	}
}

func (h *history) play(w *world, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	p := w.pubs[0]
	p.keep, p.hwm = h.keep, h.hwm
	if h.noReplay {
		w.info.Events.Replays = nil
	}
	e := newEngine(rng, p)
	if len(h.faulty) > 0 {
		other := newPublisher()
		for range 50 {
			other.publish(true, store(prompt(99, 8), 0, 4))
		}
		p.others = other.kept
		by := rand.New(rand.NewPCG(seed, 8)) // apart, as replays and steps do not wait for each other
		p.fault = func() fault { return h.faulty[by.IntN(len(h.faulty))] }
	}
	for range rng.IntN(20) { // before anyone listened
		p.publish(true, e.act()...)
	}
	w.up()
	for range 150 {
		h.step(w, e, rng)
	}
	p.with(func() { p.broken, p.fault = false, nil })
	if h.noReplay || h.skip > 0 { // there only a next message shows that the last one was lost
		synctest.Wait()
		p.publish(!h.mistaken(w, e))
		p.publish(true)
	}
	w.after(20 * time.Minute)
	for i, tokens := range e.prompts {
		want := e.held(i)
		if h.exact {
			w.wantHeld(want, tokens, fmt.Sprintf("prompt %d, by an engine that holds %d", i, want))
			require.Equal(w.t, want, w.credited(tokens), "blocks credited of prompt %d", i)
			continue
		}
		require.LessOrEqual(w.t, w.held(0, plain, tokens), want, "blocks held of prompt %d", i)
	}
}

// step publishes something, or has something go wrong.
func (h *history) step(w *world, e *engine, rng *rand.Rand) {
	in := func(n int) bool { return n > 0 && rng.IntN(n) == 0 }
	if in(h.silent) {
		e.p.with(func() { e.p.broken = !e.p.broken })
	}
	if rng.IntN(3) == 0 {
		w.after(time.Duration(rng.IntN(8000)) * time.Millisecond)
	}
	events := e.act()
	switch {
	case in(h.restart):
		w.after(time.Second) // it takes a while
		e.restart()
		e.restarted, e.known = true, w.stats().Restarts.Load()
		events = []kvevent.Event{cleared}
		if h.breaks > 0 {
			h.broke(w, e, rng)
		}
	case in(h.breaks):
		e.p.publish(!h.mistaken(w, e), events...)
		h.broke(w, e, rng)
		return
	case in(50):
		e.clear()
		events = []kvevent.Event{cleared}
	}
	lost := in(h.drop) || h.mistaken(w, e)
	if in(h.skip) {
		e.p.with(func() { e.p.seq++ })
		return
	}
	e.p.publish(!lost, events...)
}

// broke breaks the connection: blocks credited since must be there, for any replays.
func (h *history) broke(w *world, e *engine, rng *rand.Rand) {
	e.p.reconnect()
	for range 20 {
		synctest.Wait()
		for i, tokens := range e.prompts {
			require.LessOrEqual(w.t, w.credited(tokens), e.held(i), "blocks credited of prompt %d behind a lost connection", i)
		}
		w.after(time.Duration(rng.IntN(500)) * time.Millisecond)
	}
}

// mistaken reports the one case that numbers cannot reveal: a new process with all messages lost
// up to just the expected number. The registry detects it by the probe that failed meanwhile.
func (*history) mistaken(w *world, e *engine) bool {
	e.restarted = e.restarted && w.stats().Restarts.Load() == e.known
	return e.restarted && e.p.seq == w.stats().Sequence.Load()+1
}
