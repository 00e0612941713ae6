package sim

import (
	"context"
	"strings"
	"sync"
	"time"
)

// publishEvery is after how many decode steps SGLang publishes what has gathered
// meanwhile (its decode_log_interval).
const publishEvery = 40

// rank is one data-parallel rank: a scheduler with its own cache, queue and
// sockets. Everything below mu belongs to the goroutine in run.
type rank struct {
	id     int
	cfg    *Config
	faults *Faults
	events publisher // nil: none
	loads  publisher // nil: none
	wake   chan struct{}

	inboxMu sync.Mutex
	inbox   []func()

	snapMu sync.Mutex
	snap   snapshot

	cache   *cache
	pace    *pace
	waiting []*request
	running []*request
	chunked *request   // its prefill goes on with the next batch
	legs    []*request // of pairs, until the prefill's are answered and the decode's run
	stalled []*request // by a fault
	dirty   []*request // have tokens their handlers have not been told of
	told    time.Time  // when dirty was last emptied

	side     side
	linkFree time.Duration // simulated: when the link to the decode workers is idle

	private int    // pages held by requests outside the tree
	owed    int    // pages promised to admitted requests and not yet allotted
	steps   int    // decode steps
	batches uint64 // of events that were published
	count   counters
	sent    sentLoad
}

func newRank(id int, cfg *Config, f *Faults, events, loads publisher) *rank {
	k := &rank{
		id: id, cfg: cfg, faults: f, events: events, loads: loads,
		wake: make(chan struct{}, 1),
		pace: newPace(cfg.TimeScale),
	}
	k.cache = newCache(cfg.PageSize, &recorder{off: events == nil || cfg.NoCache, page: cfg.PageSize})
	return k
}

// do queues f for the rank's goroutine.
func (k *rank) do(f func()) {
	k.inboxMu.Lock()
	k.inbox = append(k.inbox, f)
	k.inboxMu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// drain runs what do has queued.
func (k *rank) drain() {
	k.inboxMu.Lock()
	todo := k.inbox
	k.inbox = nil
	k.inboxMu.Unlock()
	for _, f := range todo {
		f()
	}
}

// run schedules batches until ctx ends.
func (k *rank) run(ctx context.Context) {
	if !k.cacheless() {
		k.cache.changes.cleared() // SGLang's sequence 0
	}
	k.publish()
	for ctx.Err() == nil {
		if !k.standBy(ctx) {
			return
		}
		k.drain()
		k.startLegs()
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
		k.observe(false)
	}
}

// idle publishes what is left and waits for work.
func (k *rank) idle(ctx context.Context) {
	k.tell()
	k.publish()
	k.observe(true)
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
		r.expected = k.cache.peek(r.space, r.prompt[:r.findable()])
		switch {
		case r.stalled:
			k.stalled = append(k.stalled, r)
		case r.leg == nil:
			k.waiting = append(k.waiting, r)
		default:
			k.beginLeg(r)
		}
	})
}

// abort ends every request whose id begins with prefix, or all of them.
func (k *rank) abort(prefix string, all bool) {
	k.do(func() {
		hit := func(r *request) bool { return all || strings.HasPrefix(r.id, prefix) }
		k.stalled = k.dismiss(k.stalled, hit)
		k.abortLegs(hit)
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

// cacheless says that the rank has no prefix cache: SGLang's decode workers have none
// unless they are told to.
func (k *rank) cacheless() bool { return k.cfg.Mode == ModeDecode && !k.cfg.DecodeCache }

// flush empties the cache if nothing runs or waits; done gets whether it did.
func (k *rank) flush(done chan<- bool) {
	k.do(func() {
		idle := len(k.waiting)+len(k.running)+len(k.legs) == 0 && k.chunked == nil
		if idle {
			k.cache.clear()
		}
		done <- idle
	})
}
