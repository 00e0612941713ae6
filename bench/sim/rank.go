package sim

import (
	"context"
	"strings"
	"time"

	"github.com/warmpath/warmpath/zmq/kvevent"
)

// publishEvery is after how many decode steps SGLang publishes what has gathered
// meanwhile (its decode_log_interval).
const publishEvery = 40

// rank is one data-parallel rank: a scheduler with its own cache, queue and sockets. Its fields
// belong to the goroutine of run, except the mailbox and the report, which have locks of their own.
type rank struct {
	mailbox
	id     int
	cfg    *Config
	faults *Faults
	events publisher // nil if the worker publishes none.
	pool   kvPool
	pace   *pace
	legs   *legScheduler
	report *loadReport

	waiting []*request
	running []*request
	chunked *request   // Its prefill goes on with the next batch.
	stalled []*request // By a fault.
	dirty   []*request // Have tokens that their handlers have not been told of.
	told    time.Time  // When dirty was last emptied.

	steps   int    // Decode steps.
	batches uint64 // Event batches published.
	count   counters
}

func newRank(id int, cfg *Config, f *Faults, events, loads publisher) *rank {
	k := &rank{mailbox: newMailbox(), id: id, cfg: cfg, faults: f, events: events, pace: newPace(cfg.TimeScale)}
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

// idle publishes what is left and waits for work.
func (k *rank) idle(ctx context.Context) {
	k.tell()
	k.publish()
	k.report.observe(true)
	heartbeat := time.NewTimer(loadHeartbeat)
	defer heartbeat.Stop()
	select {
	case <-k.wake:
	case <-heartbeat.C:
	case <-ctx.Done():
	}
	k.pace.catchUp()
}

// spend lets d of simulated time pass.
func (k *rank) spend(ctx context.Context, d time.Duration) bool {
	k.pace.now += time.Duration(float64(d) * k.faults.slowdown())
	if time.Since(k.told) >= minSleep {
		k.tell()
	}
	return k.pace.pause(ctx, k.tell) && k.standBy(ctx)
}

// standBy holds the rank while its worker hangs. Afterwards it goes on at its own
// pace: what was missed is not made good in a rush.
func (k *rank) standBy(ctx context.Context) bool {
	if !k.faults.hangs() {
		return ctx.Err() == nil
	}
	ok := k.faults.pass(ctx)
	k.pace.catchUp()
	return ok
}

// tell wakes the handlers that have something new to send.
func (k *rank) tell() {
	for i, r := range k.dirty {
		r.dirty = false
		r.signal()
		k.dirty[i] = nil
	}
	k.dirty = k.dirty[:0]
	k.told = time.Now()
}

// submit queues r.
func (k *rank) submit(r *request) {
	k.do(func() {
		r.arrived = k.pace.now
		r.expected = k.pool.cache.peek(r.space, r.prompt[:r.findable()])
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

// abort ends every request whose id begins with prefix, or all of them.
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

// dismiss aborts the requests of list that hit names and returns the others.
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

// aborted is why a request ends that /abort_request names.
func aborted() finish { return finish{kind: "abort", message: "Aborted"} }

// flush empties the cache if nothing runs or waits; done gets whether it did.
func (k *rank) flush(done chan<- bool) {
	k.do(func() {
		idle := len(k.waiting)+len(k.running)+len(k.legs.list) == 0 && k.chunked == nil
		if idle {
			k.pool.cache.clear()
		}
		done <- idle
	})
}

// publish sends what the cache has recorded since the last time as one batch.
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
