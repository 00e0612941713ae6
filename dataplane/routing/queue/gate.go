package queue

import (
	"cmp"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrGone is a client that left while its request waited.
	ErrGone = errors.New("queue: the client has gone")
	// ErrClosed is a gate that was closed while requests waited.
	ErrClosed = errors.New("queue: closed")
)

// Rank is a rank as the gate sees it.
type Rank struct {
	Key  any // comparable
	DP   int // its data-parallel number
	Room int // requests that it can take now; 0 or less: it is full
	Held int // requests that it has
}

// Config holds the gate's settings; zero fields take the defaults.
type Config struct {
	Max     int           // waiting requests of each model; default 8192
	Timeout time.Duration // of a request that names none; default 10 s
	MaxAge  time.Duration // see Rules; default a sixteenth of Timeout
	FIFO    bool          // see Rules
	// Ranks appends the ranks that serve a model, full ones too. The gate calls it under its
	// lock; it must not block.
	Ranks func(dst []Rank, model string) []Rank
}

const (
	defaultMax     = 8192             // a decision among so many takes a tenth of a millisecond
	defaultTimeout = 10 * time.Second // people who wait for a first token leave about then
	ageShare       = 16               // of Timeout: overdue requests have time for their turn
	// standShare of Timeout is the wait from which the queue is long. Newest first, the queue is
	// kept as short.
	standShare = 5
	// tickEvery is the time between looks at workers that came, went or can take more.
	tickEvery = 100 * time.Millisecond
	// idleTicks without a full moment end the watch over a model. Without them a model at the
	// edge of being full would forget many times a second which branches its ranks are in.
	idleTicks = 10
)

// Gate admits requests while a rank has room, and makes them wait otherwise.
type Gate struct {
	cfg     Config
	start   time.Time
	engaged atomic.Bool // the ranks of a model are full, or were a second ago

	mu       sync.Mutex
	closed   bool                   // guarded by mu, as is all below
	models   map[string]*modelQueue // of models with full ranks, now or a second ago
	tick     *time.Timer            // runs while there are models
	ranks    []Rank                 // scratch
	waiters  []*Waiter              // scratch
	finished Stats                  // counters only
}

// modelQueue is the queue of one model.
type modelQueue struct {
	model    string
	order    *Order
	reserved map[any]int // by rank: permits that are not used yet
	drain    drain
	held     int           // requests that the ranks have
	short    time.Duration // when the queue was last short
	excess   time.Duration // newest first: when a request was last refused
	idle     int           // ticks with room and without a waiting request
}

// New returns a gate. Close it.
func New(cfg Config) *Gate {
	cfg.Max = cmp.Or(cfg.Max, defaultMax)
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	cfg.MaxAge = cmp.Or(cfg.MaxAge, cfg.Timeout/ageShare)
	return &Gate{cfg: cfg, start: time.Now(), models: make(map[string]*modelQueue)}
}

// Timeout returns the longest wait of a request that names none.
func (g *Gate) Timeout() time.Duration { return g.cfg.Timeout }

// Engaged reports whether requests have to Enter. It costs one atomic load.
func (g *Gate) Engaged() bool { return g.engaged.Load() }

// Full notes that a rank of a model has no room left. The gate becomes engaged when no rank
// has.
func (g *Gate) Full(model string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.models[model] != nil {
		return
	}
	g.ranks = g.cfg.Ranks(g.ranks[:0], model)
	for _, r := range g.ranks {
		if r.Room > 0 {
			return
		}
	}
	if len(g.ranks) == 0 {
		return
	}
	rules := Rules{Max: g.cfg.Max, MaxAge: g.cfg.MaxAge, Patient: g.cfg.Timeout, FIFO: g.cfg.FIFO}
	g.models[model] = &modelQueue{
		model: model, order: NewOrder(rules), reserved: make(map[any]int), short: g.now(),
	}
	g.engaged.Store(true)
	if g.tick == nil {
		g.tick = time.AfterFunc(tickEvery, g.look)
	}
}

// Freed notes the end of a request. It may be left out while the gate is not engaged.
func (g *Gate) Freed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, q := range g.models {
		g.admitLocked(q)
	}
}

// Enter returns when a request for model may be sent: at once while its ranks have room. The
// wait ends early when gone is closed or has a value. The permit must be used or released.
func (g *Gate) Enter(gone <-chan struct{}, model string, w *Waiter) (Permit, error) {
	w.Patience = cmp.Or(w.Patience, g.cfg.Timeout)
	permit, wait, err := g.enter(model, w)
	if !wait {
		return permit, err
	}
	timer := time.NewTimer(w.Patience)
	defer timer.Stop()
	began := time.Now()
	select {
	case <-w.done:
	case <-gone:
		return g.leave(permit, w, leftGone, time.Since(began))
	case <-timer.C:
		return g.leave(permit, w, leftLate, time.Since(began))
	}
	return g.result(permit, w, time.Since(began))
}

// enter gives a permit or queues w.
func (g *Gate) enter(model string, w *Waiter) (permit Permit, wait bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.models[model]
	if q == nil {
		return Permit{}, false, nil
	}
	permit = Permit{gate: g, queue: q, branch: w.Branch}
	if g.closed {
		return Permit{}, false, ErrClosed
	}
	g.findRanksLocked(q)
	if q.order.Len() == 0 {
		best := roomiest(g.ranks, w.DP)
		if best == nil {
			return Permit{}, false, nil // no such rank: the choice returns the error
		}
		if best.Room > 0 {
			q.reserved[best.Key]++
			permit.rank = best.Key
			return permit, false, nil
		}
	}
	now := g.now()
	if !g.fitLocked(q, w, now) {
		g.finished.RefusedPredicted++
		return Permit{}, false, q.refusal(ReasonPredicted, now)
	}
	w.rank, w.out, w.done = nil, waiting, make(chan struct{}, 1)
	out, ok := q.order.Push(w, now)
	if !ok {
		g.finished.RefusedFull++
		return Permit{}, false, q.refusal(ReasonFull, now)
	}
	if out != nil {
		out.end(leftDisplaced)
	}
	if !q.drain.waiting {
		q.drain.run(true, now)
	}
	g.admitLocked(q)
	g.trimLocked(q, now)
	return permit, true, nil
}

// fitLocked reports whether a new request will have its turn before its deadline, and makes room
// for it where its client has more right to it than another one.
func (g *Gate) fitLocked(q *modelQueue, w *Waiter, now time.Duration) bool {
	g.watchLocked(q, now)
	if !q.drain.known(q.held) || float64(q.order.Ahead(w)) <= q.drain.rate(now)*w.Patience.Seconds() {
		return true
	}
	if w.Patience <= g.cfg.Timeout && q.stands(now, g.cfg.Timeout) {
		q.newestFirst(now)
	}
	if q.order.goesFirst(w) {
		return true
	}
	out := q.order.Victim(w, true)
	if out == nil {
		return false
	}
	q.order.Remove(out)
	out.end(leftDisplaced)
	return true
}

// shortLocked returns the number of requests in a queue that is short.
func (g *Gate) shortLocked(q *modelQueue, now time.Duration) int {
	return int(q.drain.rate(now) * (g.cfg.Timeout / standShare).Seconds())
}

// watchLocked notes whether the queue is short now.
func (g *Gate) watchLocked(q *modelQueue, now time.Duration) {
	urgent := q.order.Urgent()
	if urgent == 0 && now-q.excess >= g.cfg.Timeout {
		q.order.NewestFirst(false)
	}
	if urgent == 0 || q.drain.known(q.held) && urgent <= g.shortLocked(q, now) {
		q.short = now
	}
}

// stands reports whether the overload lasts: the queue has been long for the time of a deadline.
// A burst whose requests can all be answered in time is over by then.
func (q *modelQueue) stands(now, deadline time.Duration) bool { return now-q.short >= deadline }

// newestFirst has the newest request go first. From then on an empty queue does not end the
// overload, since a batch of answers that end together may empty it: the queue must also have had
// no request in excess for some time.
func (q *modelQueue) newestFirst(now time.Duration) {
	q.order.NewestFirst(true)
	q.excess = now
}

// trimLocked keeps the queue short while the newest request goes first. The oldest ones are
// refused: by their deadlines, more would have come and gone before them.
func (g *Gate) trimLocked(q *modelQueue, now time.Duration) {
	if !q.order.newest || !q.drain.known(q.held) {
		return
	}
	for most := max(g.shortLocked(q, now), 1); q.order.Urgent() > most; {
		out := q.order.Stale()
		q.order.Remove(out)
		out.end(leftPredicted)
		q.excess = now
	}
}

func (g *Gate) now() time.Duration { return time.Since(g.start) }

// findRanksLocked fills g.ranks with the model's ranks, less the reserved room.
func (g *Gate) findRanksLocked(q *modelQueue) {
	g.ranks = g.cfg.Ranks(g.ranks[:0], q.model)
	q.held = 0
	for i := range g.ranks {
		g.ranks[i].Room -= q.reserved[g.ranks[i].Key]
		q.held += g.ranks[i].Held
	}
}

// roomiest returns the rank with the most room; nil: there is none for dp.
func roomiest(ranks []Rank, dp int) (best *Rank) {
	for i := range ranks {
		if r := &ranks[i]; (dp == AnyDP || dp == r.DP) && (best == nil || r.Room > best.Room) {
			best = r
		}
	}
	return best
}

// admitLocked gives the free room to the first requests.
func (g *Gate) admitLocked(q *modelQueue) {
	if q.order.Len() == 0 {
		return
	}
	now := g.now()
	defer g.leftLocked(q, now)
	g.findRanksLocked(q)
	for len(g.ranks) > 0 {
		r := roomiest(g.ranks, AnyDP)
		if r.Room <= 0 {
			return
		}
		w := q.order.Pop(r.Key, r.DP, now)
		if w == nil { // the waiting requests are for other ranks
			*r = g.ranks[len(g.ranks)-1]
			g.ranks = g.ranks[:len(g.ranks)-1]
			continue
		}
		r.Room--
		q.reserved[r.Key]++
		q.drain.add(now)
		w.rank = r.Key
		w.end(admitted)
	}
}

// leftLocked notes that requests have left the queue.
func (g *Gate) leftLocked(q *modelQueue, now time.Duration) {
	if q.order.Len() == 0 {
		q.drain.run(false, now)
	}
	g.watchLocked(q, now)
}

// look finds changes that no call reports, every tickEvery.
func (g *Gate) look() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for model, q := range g.models {
		g.admitLocked(q)
		g.findRanksLocked(q)
		g.admitStrandedLocked(q)
		g.leftLocked(q, g.now())
		q.order.KeepRanks(func(key any) bool {
			for _, r := range g.ranks {
				if r.Key == key {
					return true
				}
			}
			return false
		})
		best := roomiest(g.ranks, AnyDP)
		if q.idle++; q.order.Len() > 0 || best != nil && best.Room <= 0 {
			q.idle = 0
		}
		if q.idle > idleTicks {
			delete(g.models, model)
		}
	}
	if len(g.models) == 0 {
		g.engaged.Store(false)
		g.tick = nil
		return
	}
	g.tick.Reset(tickEvery)
}

// admitStrandedLocked admits requests for ranks that are gone: the choice returns their error.
func (g *Gate) admitStrandedLocked(q *modelQueue) {
	g.waiters = q.order.All(g.waiters[:0])
	for _, w := range g.waiters {
		if roomiest(g.ranks, w.DP) == nil {
			q.order.Remove(w)
			w.end(admitted)
		}
	}
	clear(g.waiters)
}

// Close refuses all waiting requests.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.closed = true
	for _, q := range g.models {
		for _, w := range q.order.All(nil) {
			q.order.Remove(w)
			w.end(leftClosed)
		}
	}
	clear(g.models)
	g.engaged.Store(false)
	if g.tick != nil {
		g.tick.Stop()
		g.tick = nil
	}
}
