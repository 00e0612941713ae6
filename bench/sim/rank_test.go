package sim

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

// tape is a publisher that stores its payloads.
type tape struct {
	sent    []kvevent.Batch
	skipped int
	unsent  int
}

func (p *tape) Publish(payload []byte) uint64 {
	var b kvevent.Batch
	if err := b.Decode(slices.Clone(payload)); err == nil {
		p.sent = append(p.sent, b)
	}
	return 0
}

func (p *tape) PublishDropped([]byte) uint64 { p.unsent++; return 0 }
func (p *tape) Skip() uint64                 { p.skipped++; return 0 }

// plain is a service with times that are easy to add up.
func plain() Service {
	return Service{
		PrefillTokensPerSecond: 1000, PrefillBase: time.Millisecond, ChunkedPrefill: 64,
		DecodeBase: 10 * time.Millisecond, DecodePerRequest: 1, DecodePerToken: 1,
	}
}

// bubble holds the objects of a test in a synctest bubble.
type bubble struct {
	t      *testing.T
	k      *rank
	events *tape
}

// inBubble runs f with a rank on the fake clock of a synctest bubble.
func inBubble(t *testing.T, cfg Config, f func(b bubble)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		cfg = cfg.withDefaults()
		events := &tape{}
		k := newRank(0, &cfg, newFaults(), events, nil)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); k.run(ctx) }()
		synctest.Wait()
		f(bubble{t, k, events})
		cancel()
		<-done
	})
}

func newTestRequest(prompt []uint32, answer int) *request {
	r := &request{id: newID(), prompt: prompt, budget: answer, stop: stopRules{ignoreEOS: true}, logFrom: len(prompt), wake: make(chan struct{}, 1)}
	r.plan()
	return r
}

// finishAll waits for requests and returns when the last one ended.
func finishAll(reqs ...*request) {
	for _, r := range reqs {
		for r.current().reason.kind == "" {
			<-r.wake
		}
	}
}

func TestCachedPrefix(t *testing.T) {
	tests := []struct {
		prompt, answer, next int // tokens of a prompt, its answer, and of a second prompt that begins with both
		cached               int
	}{
		{prompt: 16, answer: 1, next: 16, cached: 0}, // one token is always computed
		{prompt: 17, answer: 1, next: 17, cached: 16},
		{prompt: 32, answer: 1, next: 32, cached: 16},
		{prompt: 10, answer: 7, next: 30, cached: 16}, // floor((10+7-1)/16) = 1 page
		{prompt: 10, answer: 6, next: 30, cached: 0},
		{prompt: 40, answer: 9, next: 60, cached: 48},
	}
	for _, x := range tests {
		cfg := Config{PageSize: 16, CachePages: 100, Service: plain()}
		inBubble(t, cfg, func(b bubble) {
			t, k := b.t, b.k
			first := newTestRequest(sequence(0, x.prompt), x.answer)
			k.submit(first)
			finishAll(first)
			prompt := append(slices.Clone(first.prompt), first.current().out...)
			for len(prompt) < x.next {
				prompt = append(prompt, 7)
			}
			second := newTestRequest(prompt[:x.next], 1)
			k.submit(second)
			finishAll(second)
			if got := second.current().cached; got != x.cached {
				t.Errorf("%+v: cached %d", x, got)
			}
		})
	}
}

func TestEventsAreTheCache(t *testing.T) {
	cfg := Config{PageSize: 4, CachePages: 40, MaxRunning: 4, Service: plain()}
	inBubble(t, cfg, func(b bubble) {
		t, k, events := b.t, b.k, b.events
		var reqs []*request
		for i := range uint32(30) {
			r := newTestRequest(sequence(i%5*100, 20+int(i)), 5+int(i)%50)
			reqs = append(reqs, r)
			k.submit(r)
		}
		finishAll(reqs...)
		synctest.Wait() // the rank is idle and has published
		blocks := replay(t, events.sent)
		if len(blocks) != k.pool.cache.pages {
			t.Errorf("events tell of %d blocks, the cache has %d", len(blocks), k.pool.cache.pages)
		}
		if k.pool.private != 0 || k.pool.owed != 0 || k.pool.cache.locked != 0 {
			t.Errorf("left private=%d owed=%d locked=%d pages", k.pool.private, k.pool.owed, k.pool.cache.locked)
		}
		if k.pool.cache.evicted == 0 {
			t.Error("nothing was evicted: the test does not test eviction")
		}
		if k.pool.free() < 0 {
			t.Errorf("%d pages free", k.pool.free())
		}
	})
}

// replay applies batches as a router would and returns the known blocks.
func replay(t *testing.T, batches []kvevent.Batch) map[uint64]bool {
	t.Helper()
	blocks := make(map[uint64]bool)
	for _, b := range batches {
		for _, e := range b.Events {
			switch e.Kind {
			case kvevent.Cleared:
				clear(blocks)
			case kvevent.Stored:
				if e.HasParent && !blocks[e.Parent] {
					t.Errorf("store below unknown parent %d", e.Parent)
				}
				for _, h := range e.Hashes {
					if blocks[h] {
						t.Errorf("block %d stored twice", h)
					}
					blocks[h] = true
				}
			case kvevent.Removed:
				for _, h := range e.Hashes {
					if !blocks[h] {
						t.Errorf("unknown block %d removed", h)
					}
					delete(blocks, h)
				}
			}
		}
	}
	return blocks
}

func TestPublishing(t *testing.T) {
	cfg := Config{PageSize: 4, CachePages: 1000, Service: plain()}
	inBubble(t, cfg, func(b bubble) {
		t, k, events := b.t, b.k, b.events
		long := newTestRequest(sequence(0, 8), 100)
		short := newTestRequest(sequence(50, 8), 20)
		k.submit(long)
		k.submit(short)
		finishAll(short)
		// Cleared at the start, then the prefill batch; the short answer's pages
		// wait for decode step 40.
		if n := len(events.sent); n != 2 || events.sent[0].Events[0].Kind != kvevent.Cleared || len(events.sent[1].Events) != 2 {
			t.Fatalf("published %+v", events.sent)
		}
		finishAll(long)
		synctest.Wait()
		if n := len(events.sent); n != 4 {
			t.Errorf("%d batches, want 4: one more at step 40 and one when idle", n)
		}
	})
}

func TestQueueing(t *testing.T) {
	tests := map[string]Config{
		"running set": {PageSize: 16, CachePages: 1000, MaxRunning: 2, Service: plain()},
		"KV pool":     {PageSize: 16, CachePages: 8, MaxRunning: 64, Service: plain()},
	}
	for name, cfg := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, cfg, func(b bubble) {
				t, k := b.t, b.k
				var reqs []*request
				for i := range uint32(4) {
					reqs = append(reqs, newTestRequest(sequence(100*i, 40), 20)) // 4 pages each
					k.submit(reqs[i])
				}
				time.Sleep(150 * time.Millisecond) // on the bubble's clock: both prefills are over
				if s := k.report.snapshot(); s.load.Running != 2 || s.load.Waiting != 2 {
					t.Errorf("%d run and %d wait, want 2 and 2", s.load.Running, s.load.Waiting)
				}
				finishAll(reqs...)
				if a, b := reqs[0].times.finished, reqs[2].times.first; b.Before(a) {
					t.Error("the third began before the first was done")
				}
			})
		})
	}
}

func TestAbortAndFlush(t *testing.T) {
	cfg := Config{PageSize: 4, CachePages: 100, MaxRunning: 1, Service: plain()}
	inBubble(t, cfg, func(b bubble) {
		t, k, events := b.t, b.k, b.events
		running, waiting, other := newTestRequest(sequence(0, 8), 300), newTestRequest(sequence(0, 8), 5), newTestRequest(sequence(0, 8), 5)
		running.id, waiting.id, other.id = "a1", "a12", "b"
		k.submit(running)
		k.submit(waiting)
		k.submit(other)
		time.Sleep(100 * time.Millisecond)
		done := make(chan bool, 1)
		if k.flush(done); <-done {
			t.Error("flushed a busy cache")
		}
		k.abort("a1", false)
		finishAll(running, waiting, other)
		for r, want := range map[*request]string{running: "abort", waiting: "abort", other: "length"} {
			if got := r.current().reason.kind; got != want {
				t.Errorf("%s ended for %q, want %q", r.id, got, want)
			}
		}
		if k.flush(done); !<-done {
			t.Error("did not flush an idle cache")
		}
		synctest.Wait()
		if n := len(replay(t, events.sent)); n != 0 || k.pool.cache.pages != 0 || k.pool.owed != 0 || k.pool.private != 0 {
			t.Errorf("after the flush: %d blocks told, %d pages, owed %d, private %d", n, k.pool.cache.pages, k.pool.owed, k.pool.private)
		}
	})
}

func TestDroppedEvents(t *testing.T) {
	cfg := Config{PageSize: 4, CachePages: 100, Service: plain()}
	inBubble(t, cfg, func(b bubble) {
		t, k, events := b.t, b.k, b.events
		for i, lost := range []bool{false, true} {
			k.faults.set(func(s *faultState) { s.drops, s.lost = 1, lost })
			r := newTestRequest(sequence(uint32(i*100), 8), 1)
			k.submit(r)
			finishAll(r)
			synctest.Wait()
		}
		if events.unsent != 1 || events.skipped != 1 || len(events.sent) != 1 {
			t.Errorf("unsent %d, skipped %d, sent %d, want 1 each", events.unsent, events.skipped, len(events.sent))
		}
	})
}

func TestHangAndSlow(t *testing.T) {
	cfg := Config{PageSize: 4, CachePages: 100, Service: plain()}
	inBubble(t, cfg, func(b bubble) {
		t, k := b.t, b.k
		k.faults.Hang()
		r := newTestRequest(sequence(0, 9), 1) // 10 ms
		start := time.Now()
		k.submit(r)
		time.Sleep(time.Second)
		k.faults.Unhang()
		finishAll(r)
		if got := time.Since(start); got < time.Second {
			t.Errorf("a hanging rank answered after %v", got)
		}
		again := newTestRequest(sequence(20, 9), 101)
		start = time.Now()
		k.submit(again)
		time.Sleep(500 * time.Millisecond)
		k.faults.Hang()
		time.Sleep(10 * time.Second)
		k.faults.Unhang()
		finishAll(again)
		// A second of work, 10 s of hanging, which are not made up for.
		if got := time.Since(start); got < 10900*time.Millisecond || got > 11100*time.Millisecond {
			t.Errorf("with a hang of 10s in between took %v, want 11s", got)
		}
		k.faults.set(func(s *faultState) { s.factor = 100 })
		start = time.Now()
		r = newTestRequest(sequence(50, 9), 1)
		k.submit(r)
		finishAll(r)
		if got := time.Since(start); got < 999*time.Millisecond {
			t.Errorf("a slow rank took %v, want 1s", got)
		}
	})
}
