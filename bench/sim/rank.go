package sim

import (
	"context"
	"strings"
	"time"

	"github.com/warmpath/warmpath/zmq/kvevent"
)

// publishEvery is the number of decode steps after which SGLang publishes events (its
// decode_log_interval).
const publishEvery = 40

// rank is one data-parallel rank: a scheduler with its own cache, queue and sockets. Its fields
// belong to the goroutine of run, except the mailbox and the report, which have their own
// locks.
type rank struct {
	mailbox
	id     int
	cfg    *Config
	faults *Faults
	events publisher // nil if the worker publishes none.
	pool   kvPool
	clock  *simClock
	legs   *legScheduler
	report *loadReport

	waiting    []*request
	running    []*request
	chunked    *request   // Its prefill goes on with the next batch.
	stalled    []*request // By a fault.
	changed    []*request // Have tokens that their handlers do not know of.
	notifiedAt time.Time  // When changed was last emptied.

	steps   int    // Decode steps.
	batches uint64 // Event batches published.
	count   counters
}

func newRank(id int, cfg *Config, f *Faults, events, loads publisher) *rank {
	k := &rank{mailbox: newMailbox(), id: id, cfg: cfg, faults: f, events: events, clock: newSimClock(cfg.TimeScale)}
	k.pool = kvPool{
		cfg:   cfg,
		cache: newCache(cfg.PageSize, &recorder{off: events == nil || cfg.NoCache, page: cfg.PageSize}),
	}
	k.legs = &legScheduler{rank: k}
	k.report = &loadReport{rank: k, loads: loads}
	return k
}

// run schedules batches until ctx ends.
func (k *rank) run(ctx context.Context) {
	if !k.cfg.cacheless() {
		k.pool.cache.changes.cleared() // SGLang's sequence 0
	}
	k.publish()
	for ctx.Err() == nil {
		if !k.standBy(ctx) {
			return
		}
		k.drain()
		k.legs.start()
		b := k.prefillBatch()
		if len(b) == 0 && len(k.running) == 0 {
			k.idle(ctx)
			continue
		}
		if len(b) > 0 {
			k.runPrefill(ctx, b)
		} else {
			k.runDecode(ctx)
		}
		k.report.observe(false)
	}
}

// idle publishes the remaining events and waits for work.
func (k *rank) idle(ctx context.Context) {
	k.notify()
	k.publish()
	k.report.observe(true)
	heartbeat := time.NewTimer(loadHeartbeat)
	defer heartbeat.Stop()
	select {
	case <-k.wake:
	case <-heartbeat.C:
	case <-ctx.Done():
	}
	k.clock.catchUp()
}

// spend lets d of simulated time pass.
func (k *rank) spend(ctx context.Context, d time.Duration) bool {
	k.clock.now += time.Duration(float64(d) * k.faults.slowdown())
	if time.Since(k.notifiedAt) >= minSleep {
		k.notify()
	}
	return k.clock.pause(ctx, k.notify) && k.standBy(ctx)
}

// standBy waits while the worker hangs. The time lost is not made up for afterwards.
func (k *rank) standBy(ctx context.Context) bool {
	if !k.faults.hangs() {
		return ctx.Err() == nil
	}
	ok := k.faults.awaitUnhang(ctx)
	k.clock.catchUp()
	return ok
}

// notify wakes the handlers of changed requests.
func (k *rank) notify() {
	for i, r := range k.changed {
		r.changed = false
		r.signal()
		k.changed[i] = nil
	}
	k.changed = k.changed[:0]
	k.notifiedAt = time.Now()
}

// submit queues r.
func (k *rank) submit(r *request) {
	k.do(func() {
		r.expected = k.pool.cache.peek(r.domain, r.prompt[:r.findable()])
		switch {
		case r.stalled:
			k.stalled = append(k.stalled, r)
		case r.leg == nil:
			k.waiting = append(k.waiting, r)
		default:
			k.legs.begin(r)
		}
	})
}

// abort ends all requests, or those with the id prefix.
func (k *rank) abort(prefix string, all bool) {
	k.do(func() {
		hit := func(r *request) bool { return all || strings.HasPrefix(r.id, prefix) }
		k.stalled = k.dismiss(k.stalled, hit)
		k.legs.abort(hit)
		k.waiting = k.dismiss(k.waiting, hit)
		k.running = k.dismiss(k.running, hit)
		if k.chunked != nil && hit(k.chunked) {
			k.finish(k.chunked, aborted())
			k.chunked = nil
		}
	})
}

// dismiss aborts the requests of list selected by hit and returns the others.
func (k *rank) dismiss(list []*request, hit func(*request) bool) []*request {
	keep := list[:0]
	for _, r := range list {
		if hit(r) {
			k.finish(r, aborted())
		} else {
			keep = append(keep, r)
		}
	}
	clear(list[len(keep):])
	return keep
}

// aborted is the finish reason of requests that /abort_request names.
func aborted() finishReason { return finishReason{kind: "abort", message: "Aborted"} }

// flush empties the cache of an idle rank; done receives whether it was idle.
func (k *rank) flush(done chan<- bool) {
	k.do(func() {
		idle := len(k.waiting)+len(k.running)+len(k.legs.list) == 0 && k.chunked == nil
		if idle {
			k.pool.cache.clear()
		}
		done <- idle
	})
}

// publish sends the cache's changes since the last call as one batch.
func (k *rank) publish() {
	events := k.pool.cache.changes.take()
	if len(events) == 0 {
		return
	}
	b := kvevent.Batch{Time: unixSeconds(time.Now()), Rank: k.id, HasRank: true, Events: events}
	payload := kvevent.Append(nil, &b, k.cfg.Encoding)
	k.batches++
	switch k.faults.eventFate() {
	case eventSent:
		k.events.Publish(payload)
	case eventUnsent:
		k.events.PublishDropped(payload)
	case eventLost:
		k.events.Skip()
	}
}
