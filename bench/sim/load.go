package sim

import (
	"sync"
	"time"

	"github.com/warmpath/warmpath/zmq/kvevent"
)

const (
	// loadHeartbeat is after how long SGLang repeats an unchanged load message.
	loadHeartbeat = time.Second
	// loadEvery is how often a changing load is sent. SGLang sends each fifth
	// batch, about every 100 ms of decoding; a quicker time scale must not turn
	// that into thousands of messages a second.
	loadEvery = 20 * time.Millisecond
)

// counters only ever grow. Times are as a client's clock would see them.
type counters struct {
	prefilled    int           // prompt tokens computed
	prefillBusy  time.Duration // time spent on them
	generated    int
	prompts      int // prompt tokens of finished requests
	cached       int // of these, found in the cache
	answers      int // generated tokens of finished requests
	requests     int // finished
	aborted      int
	matchedLast  int // cached and new tokens of the last prefill batch
	computedLast int
}

// finish counts a request that has ended.
func (c *counters) finish(r *request) {
	c.requests++
	c.prompts += len(r.prompt)
	c.cached += r.cached
	c.answers += len(r.out)
	if r.reason.kind == "abort" {
		c.aborted++
	}
}

// snapshot is a rank's state as the HTTP side may see it.
type snapshot struct {
	load     kvevent.Load
	count    counters
	active   int           // tokens of running requests
	free     int           // pages nobody holds
	tree     int           // pages in the prefix cache
	evicted  int           // tokens
	rate     float64       // generated tokens a second, over the last window
	hitRate  float64       // of the last prefill batch
	behind   time.Duration // largest delay behind the schedule
	clock    time.Duration // simulated
	rateMark rateMark
	mode     string
	legs     [legStates]int // by state
	queued   int            // of SGLang's waiting queue alone
	stalled  int            // by a fault
	held     int            // pages locked or private, or promised
	batches  uint64         // of events that were published
	rests    bool           // it has nothing to do, and all that it has to tell was published
}

// rateMark is where the window of snapshot.rate began.
type rateMark struct {
	at        time.Time
	generated int
}

// sentLoad is the last load message.
type sentLoad struct {
	load kvevent.Load
	at   time.Time
}

// loadReport publishes a rank's load and stores a snapshot of it for other goroutines. Only the
// rank's goroutine reports.
type loadReport struct {
	rank  *rank
	loads publisher // nil if the worker publishes none.
	sent  sentLoad

	mu   sync.Mutex
	last snapshot // guarded by mu
}

// observePrefill notes what the batch about to run takes from the cache.
func (o *loadReport) observePrefill(b []piece) {
	k := o.rank
	k.count.matchedLast, k.count.computedLast = 0, 0
	for _, p := range b {
		k.count.computedLast += p.tokens
		if p.r.computed == p.r.cached { // its first piece
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
	s.active, s.free, s.tree, s.evicted = int(l.Tokens), k.pool.free(), k.pool.cache.pages, k.pool.cache.evicted*k.cfg.PageSize
	s.mode, s.legs, s.stalled = k.cfg.disaggregation(), o.legStates(), len(k.stalled)
	s.queued = len(k.waiting) + s.legs[legLanded]
	s.held = k.pool.held()
	s.batches, s.rests = k.batches, idle
	s.behind, s.clock = k.pace.lag, k.pace.now
	s.hitRate = ratio(k.count.matchedLast, k.count.matchedLast+k.count.computedLast)
	if d := now.Sub(s.rateMark.at); d >= loadEvery {
		s.rate = float64(k.count.generated-s.rateMark.generated) / d.Seconds()
		s.rateMark = rateMark{now, k.count.generated}
	}
	o.mu.Unlock()
	o.send(now, l, idle)
}

// send publishes l if it is news, not too soon after the one before.
func (o *loadReport) send(now time.Time, l kvevent.Load, idle bool) {
	since := now.Sub(o.sent.at)
	changed := l != o.sent.load && (idle || since >= loadEvery)
	if o.loads == nil || !changed && since < loadHeartbeat {
		return
	}
	o.sent = sentLoad{l, now}
	o.loads.Publish(kvevent.AppendLoad(nil, &l))
}

// load is the rank's load now.
func (o *loadReport) load() kvevent.Load {
	k := o.rank
	l := kvevent.Load{
		Running:           int64(len(k.running)),
		Waiting:           int64(len(k.waiting)),
		Rank:              k.id,
		MaxTotal:          int64(k.cfg.CachePages * k.cfg.PageSize),
		MaxRunning:        int64(k.cfg.MaxRunning),
		PrefillUncached:   int64(k.count.prefilled),
		PrefillBusyMicros: k.count.prefillBusy.Microseconds(),
	}
	if k.chunked != nil {
		l.Running++
	}
	// What is locked or private is in use; the rest of the tree can be evicted.
	l.Tokens = int64((k.pool.cache.locked + k.pool.private) * k.cfg.PageSize)
	if k.faults.hoards.Load() {
		l.Tokens = int64((k.cfg.CachePages - k.pool.free()) * k.cfg.PageSize)
	}
	l.TotalTokens = l.Tokens
	for _, r := range k.waiting {
		l.WaitingUncached += int64(len(r.prompt) - r.expected)
		l.TotalTokens += int64(len(r.prompt))
	}
	for _, r := range k.legs.list {
		switch r.leg.state {
		case legComputing, legSending: // in waiting or in no queue that SGLang counts
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

// Work is what a worker has in hand; of one that is away or idle, nothing.
type Work struct {
	Requests int // that are being answered
	Legs     int // of pairs that neither run nor are answered
	Queued   int // for prefill
	Running  int
	Stalled  int // by a fault
	Pages    int // that requests hold or were promised
}

// Work returns what the worker has in hand. It may be called while it runs.
func (w *Worker) Work() (sum Work) {
	l := w.now.Load()
	if l == nil {
		return sum
	}
	l.http.answers.busy.mu.Lock()
	sum.Requests = len(l.http.answers.busy.byID)
	l.http.answers.busy.mu.Unlock()
	for _, k := range l.ranks {
		s := k.report.snapshot()
		for _, n := range s.legs {
			sum.Legs += n
		}
		sum.Queued += s.queued - s.legs[legLanded]
		sum.Running += int(s.load.Running)
		sum.Stalled += s.stalled
		sum.Pages += s.held
	}
	return sum
}

// Batches returns how many batches of events each rank has published, of which the last has that number less one, and whether
// the ranks rest: they have nothing more to tell of what was answered before. A worker that is away does not rest.
func (w *Worker) Batches() (published []uint64, rest bool) {
	l := w.now.Load()
	if l == nil {
		return nil, false
	}
	rest = true
	for _, k := range l.ranks {
		s := k.report.snapshot()
		published, rest = append(published, s.batches), rest && s.rests
	}
	return published, rest
}

// Rooms returns the bootstrap rooms that the worker's requests have named, in no order,
// and how many named one that was used before. A worker remembers about a million.
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
