package sim

import (
	"cmp"
	"sync"
	"time"

	"github.com/warmpath/warmpath/zmq/kvevent"
)

const (
	// loadHeartbeat is the interval after which SGLang repeats an unchanged load message.
	loadHeartbeat = time.Second
	// loadSteps is the number of decode steps between changed load messages (SGLang's
	// LOAD_PUBLISH_INTERVAL); each prefill batch sends one.
	loadSteps = 5
	// loadEvery is their least interval: a high time scale must not make thousands a second.
	loadEvery = 2 * time.Millisecond
	// rateWindow is the least window of snapshot.rate.
	rateWindow = 20 * time.Millisecond
)

// counters only grow. Times are on the client's clock.
type counters struct {
	prefilled    int           // Prompt tokens computed.
	prefillBusy  time.Duration // Time spent on them.
	generated    int
	requests     int // finished
	aborted      int // of them
	matchedLast  int // cached and new tokens of the last prefill batch
	computedLast int
}

// finish counts a request that has ended.
func (c *counters) finish(r *request) {
	c.requests++
	if r.reason.kind == "abort" {
		c.aborted++
	}
}

// snapshot is a rank's state for the HTTP handlers.
type snapshot struct {
	load     kvevent.Load
	count    counters
	tree     int           // pages in the prefix cache
	rate     float64       // generated tokens a second, over the last window
	hitRate  float64       // of the last prefill batch
	lag      time.Duration // largest delay behind the schedule
	clock    time.Duration // simulated
	rateMark rateMark
	mode     string
	legs     [legStates]int // by state
	queued   int            // of SGLang's waiting queue alone
	stalled  int            // by a fault
	held     int            // pages locked or private, or promised
	batches  uint64         // of events that were published
	idle     bool           // no work, and all events are published
}

// rateMark is the begin of the window of snapshot.rate.
type rateMark struct {
	at        time.Time
	generated int
}

// lastSentLoad is the last load message.
type lastSentLoad struct {
	load  kvevent.Load
	at    time.Time
	steps int // decode steps before it
}

// loadReport publishes a rank's load and stores a snapshot of it for other goroutines. Only the
// rank's goroutine reports.
type loadReport struct {
	rank  *rank
	loads publisher // nil if the worker publishes none.
	sent  lastSentLoad
	steps int // decode steps at the last observation

	mu   sync.Mutex
	last snapshot // guarded by mu
}

// observePrefill notes the share of the next batch that comes from the cache.
func (o *loadReport) observePrefill(b []batchShare) {
	k := o.rank
	k.count.matchedLast, k.count.computedLast = 0, 0
	for _, p := range b {
		k.count.computedLast += p.tokens
		if p.r.computed == p.r.cached { // Its first share.
			k.count.matchedLast += p.r.cached
		}
	}
	o.observe(false)
}

// observe refreshes the snapshot and sends a load message if one is due.
func (o *loadReport) observe(idle bool) {
	k := o.rank
	now := time.Now()
	l := o.load()
	o.mu.Lock()
	s := &o.last
	s.load, s.count = l, k.count
	s.tree = k.pool.cache.pages
	s.mode, s.legs, s.stalled = k.cfg.disaggregation(), o.legStates(), len(k.stalled)
	s.queued = len(k.waiting) + s.legs[legReceived]
	s.held = k.pool.held()
	s.batches, s.idle = k.batches, idle
	s.lag, s.clock = k.clock.lag, k.clock.now
	s.hitRate = ratio(k.count.matchedLast, k.count.matchedLast+k.count.computedLast)
	if d := now.Sub(s.rateMark.at); d >= rateWindow {
		s.rate = float64(k.count.generated-s.rateMark.generated) / d.Seconds()
		s.rateMark = rateMark{now, k.count.generated}
	}
	o.mu.Unlock()
	o.send(now, l, idle)
}

// send publishes a changed load, when SGLang does.
func (o *loadReport) send(now time.Time, l kvevent.Load, idle bool) {
	since := now.Sub(o.sent.at)
	steps := o.rank.steps
	prefill := steps == o.steps
	due := idle || since >= loadEvery && (prefill || steps-o.sent.steps >= loadSteps)
	o.steps = steps
	changed := due && l != o.sent.load
	if o.loads == nil || !changed && since < loadHeartbeat {
		return
	}
	o.sent = lastSentLoad{l, now, steps}
	o.loads.Publish(kvevent.AppendLoad(nil, &l))
}

// load returns the rank's load now.
func (o *loadReport) load() kvevent.Load {
	k, f := o.rank, o.rank.faults.state()
	l := kvevent.Load{
		Running:           int64(len(k.running)),
		Waiting:           int64(len(k.waiting)),
		Rank:              k.id,
		MaxTotal:          int64(k.cfg.CachePages * k.cfg.PageSize),
		MaxRunning:        int64(k.cfg.MaxRunning),
		PrefillUncached:   int64(k.count.prefilled),
		PrefillBusyMicros: k.count.prefillBusy.Microseconds(),
	}
	l.MaxTotal = int64(float64(l.MaxTotal) * cmp.Or(f.pool, 1))
	if r := k.chunked; r != nil {
		l.Running++
		l.WaitingUncached += int64(len(r.prompt) - r.computed)
	}
	// Locked and private pages are in use; the rest of the tree can be evicted.
	l.Tokens = int64((k.pool.cache.locked + k.pool.private) * k.cfg.PageSize)
	if f.cachedAsUsed {
		l.Tokens = int64((k.cfg.CachePages - k.pool.free()) * k.cfg.PageSize)
	}
	l.TotalTokens = l.Tokens
	for _, r := range k.waiting {
		l.WaitingUncached += int64(len(r.prompt) - r.expected)
		l.TotalTokens += int64(len(r.prompt))
	}
	for _, r := range k.legs.list {
		switch r.leg.state {
		case legComputing, legSending: // In waiting, or in no queue that SGLang counts.
			continue
		case legParked, legMeeting, legReady: // no pages yet
			l.TotalTokens += int64(len(r.prompt))
		}
		l.Waiting++
	}
	return l
}

// legStates counts the rank's legs by state.
func (o *loadReport) legStates() (n [legStates]int) {
	k := o.rank
	for _, r := range k.legs.list {
		n[r.leg.state]++
	}
	return n
}

// snapshot returns a copy of the rank's last snapshot.
func (o *loadReport) snapshot() snapshot {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

// Work is a worker's work in progress; none while it is away.
type Work struct {
	Requests int // Requests being answered.
	Legs     int // Legs of pairs that neither run nor are answered.
	Queued   int // for prefill
	Running  int
	Stalled  int // by a fault
	Pages    int // Pages that requests hold or were promised.
}

// Work returns the work in progress. It may be called while the worker runs.
func (w *Worker) Work() (sum Work) {
	l := w.now.Load()
	if l == nil {
		return sum
	}
	l.http.answers.active.mu.Lock()
	sum.Requests = len(l.http.answers.active.byID)
	l.http.answers.active.mu.Unlock()
	for _, k := range l.ranks {
		s := k.report.snapshot()
		for _, n := range s.legs {
			sum.Legs += n
		}
		sum.Queued += s.queued - s.legs[legReceived]
		sum.Running += int(s.load.Running)
		sum.Stalled += s.stalled
		sum.Pages += s.held
	}
	return sum
}

// Ended returns the number of sequences that have ended at the worker; 0 while it is away.
func (w *Worker) Ended() (n int) {
	if l := w.now.Load(); l != nil {
		for _, k := range l.ranks {
			n += k.report.snapshot().count.requests
		}
	}
	return n
}

// Batches returns the number of event batches that each rank has published, one more than the
// last sequence number, and whether the ranks are idle: all events of earlier answers are
// published. A worker that is away is not idle.
func (w *Worker) Batches() (published []uint64, rest bool) {
	l := w.now.Load()
	if l == nil {
		return nil, false
	}
	rest = true
	for _, k := range l.ranks {
		s := k.report.snapshot()
		published, rest = append(published, s.batches), rest && s.idle
	}
	return published, rest
}

// Rooms returns the bootstrap rooms named by the worker's requests, unordered, and how many
// requests named a used one. A worker remembers about a million.
func (w *Worker) Rooms() (seen []int64, reused int) {
	w.rooms.mu.Lock()
	defer w.rooms.mu.Unlock()
	for room := range w.rooms.seen {
		seen = append(seen, room)
	}
	return seen, w.rooms.reused
}

func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
