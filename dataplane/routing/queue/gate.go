package queue

import (
	"cmp"
	"errors"
	"slices"
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

// Lane is a rank as the gate sees it.
type Lane struct {
	Key  any // names it; comparable, and cheap to compare
	DP   int // its data-parallel rank
	Room int // requests that it can take now; none or fewer: it is full
}

// Config holds the gate's settings; zero fields take the defaults.
type Config struct {
	Max     int           // waiting requests of each model; default 8192
	Timeout time.Duration // of each waiting request; default 5 min
	MaxAge  time.Duration // see Rules; default a sixteenth of Timeout
	FIFO    bool          // see Rules
	// Lanes appends the ranks that could take requests for a model, those that are full too. It is called under the gate's
	// lock and must not block.
	Lanes func(dst []Lane, model string) []Lane
}

const (
	defaultMax     = 8192            // a decision among so many takes a tenth of a millisecond
	defaultTimeout = 5 * time.Minute // half of what the usual clients wait for an answer
	ageShare       = 16              // of Timeout: overdue requests have time for their turn
	// tickEvery is how soon the gate sees what nobody tells it: a worker that came, went, or can take more.
	tickEvery = 100 * time.Millisecond
	// idleTicks is how long a model stays watched after its last full moment. At the edge of being full it would
	// else forget, many times a second, who was given what.
	idleTicks = 10
)

// Gate lets requests pass while any rank has room, and else makes them wait.
type Gate struct {
	cfg     Config
	start   time.Time
	engaged atomic.Bool // some model's ranks are, or just were, all full

	mu       sync.Mutex
	closed   bool             // guarded by mu, as is all below
	pools    map[string]*pool // by model: those whose ranks are, or just were, all full
	tick     *time.Timer      // runs while there are pools
	lanes    []Lane           // scratch
	finished Stats            // what no pool counts
}

// pool is the queue of one model.
type pool struct {
	model string
	order *Order
	held  map[any]int // places given for a lane and not used yet
	drain drain
	idle  int // ticks without anybody waiting and with room
}

// New returns a gate. Close it.
func New(cfg Config) *Gate {
	cfg.Max = cmp.Or(cfg.Max, defaultMax)
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	cfg.MaxAge = cmp.Or(cfg.MaxAge, cfg.Timeout/ageShare)
	return &Gate{cfg: cfg, start: time.Now(), pools: make(map[string]*pool)}
}

// Engaged reports whether requests have to Enter. It costs one atomic load.
func (g *Gate) Engaged() bool { return g.engaged.Load() }

// Full tells that a rank for model has no room left: when none has, the gate becomes engaged.
func (g *Gate) Full(model string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.pools[model] != nil {
		return
	}
	g.lanes = g.cfg.Lanes(g.lanes[:0], model)
	for _, l := range g.lanes {
		if l.Room > 0 {
			return
		}
	}
	if len(g.lanes) == 0 {
		return
	}
	rules := Rules{Max: g.cfg.Max, MaxAge: g.cfg.MaxAge, FIFO: g.cfg.FIFO}
	g.pools[model] = &pool{model: model, order: NewOrder(rules), held: make(map[any]int)}
	g.engaged.Store(true)
	if g.tick == nil {
		g.tick = time.AfterFunc(tickEvery, g.look)
	}
}

// Freed tells that a request has ended. It need not be called while the gate is not engaged.
func (g *Gate) Freed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.pools {
		g.wakeLocked(p)
	}
}

// Enter returns when a request for model may be sent: at once while its ranks have room. gone ends the wait when it
// is closed or has a value. The place must be told what became of it.
func (g *Gate) Enter(gone <-chan struct{}, model string, w *Waiter) (Place, error) {
	place, wait, err := g.enter(model, w)
	if !wait {
		return place, err
	}
	timer := time.NewTimer(g.cfg.Timeout)
	defer timer.Stop()
	began := time.Now()
	select {
	case <-w.done:
	case <-gone:
		return g.leave(place, w, leftGone, time.Since(began))
	case <-timer.C:
		return g.leave(place, w, leftLate, time.Since(began))
	}
	return g.result(place, w, time.Since(began))
}

// enter gives a place or queues w.
func (g *Gate) enter(model string, w *Waiter) (place Place, wait bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.pools[model]
	if p == nil {
		return Place{}, false, nil
	}
	place = Place{g: g, pool: p, branch: w.Branch}
	if g.closed {
		return Place{}, false, ErrClosed
	}
	g.lanesLocked(p)
	if p.order.Len() == 0 {
		best := roomiest(g.lanes, w.DP)
		if best == nil {
			return Place{}, false, nil // nobody could ever take it: Pick says why
		}
		if best.Room > 0 {
			p.held[best.Key]++
			place.lane = best.Key
			return place, false, nil
		}
	}
	w.lane, w.out, w.done = nil, waiting, make(chan struct{}, 1)
	now := g.now()
	out, ok := p.order.Push(w, now)
	if !ok {
		g.finished.RefusedFull++
		return Place{}, false, p.refusal(ReasonFull, now)
	}
	if out != nil {
		out.end(leftDisplaced)
	}
	g.wakeLocked(p)
	return place, true, nil
}

func (g *Gate) now() time.Duration { return time.Since(g.start) }

// lanesLocked fills g.lanes with the pool's lanes, less the places given.
func (g *Gate) lanesLocked(p *pool) {
	g.lanes = g.cfg.Lanes(g.lanes[:0], p.model)
	for i := range g.lanes {
		g.lanes[i].Room -= p.held[g.lanes[i].Key]
	}
}

// roomiest returns the lane with the most room, nil if there is none for dp.
func roomiest(lanes []Lane, dp int) (best *Lane) {
	for i := range lanes {
		if l := &lanes[i]; (dp == AnyDP || dp == l.DP) && (best == nil || l.Room > best.Room) {
			best = l
		}
	}
	return best
}

// wakeLocked gives the room that there is to those who go first.
func (g *Gate) wakeLocked(p *pool) {
	if p.order.Len() == 0 {
		return
	}
	now := g.now()
	g.lanesLocked(p)
	for len(g.lanes) > 0 {
		l := roomiest(g.lanes, AnyDP)
		if l.Room <= 0 {
			return
		}
		w := p.order.Pop(l.Key, l.DP, now)
		if w == nil { // those who wait are for other ranks
			*l = g.lanes[len(g.lanes)-1]
			g.lanes = g.lanes[:len(g.lanes)-1]
			continue
		}
		l.Room--
		p.held[l.Key]++
		p.drain.add(now)
		w.lane = l.Key
		w.end(passed)
	}
}

// look does every tickEvery what nobody tells the gate to do.
func (g *Gate) look() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for model, p := range g.pools {
		g.wakeLocked(p)
		g.lanesLocked(p)
		p.strand(g.lanes)
		p.order.Retain(func(key any) bool {
			for _, l := range g.lanes {
				if l.Key == key {
					return true
				}
			}
			return false
		})
		best := roomiest(g.lanes, AnyDP)
		if p.idle++; p.order.Len() > 0 || best != nil && best.Room <= 0 {
			p.idle = 0
		}
		if p.idle > idleTicks {
			delete(g.pools, model)
		}
	}
	if len(g.pools) == 0 {
		g.engaged.Store(false)
		g.tick = nil
		return
	}
	g.tick.Reset(tickEvery)
}

// strand lets those pass who wait for ranks that are no more: the router tells them so.
func (p *pool) strand(lanes []Lane) {
	for _, w := range slices.Backward(p.order.waiters) { // which shrinks behind the one looked at
		if roomiest(lanes, w.DP) == nil {
			p.order.Remove(w)
			w.end(passed)
		}
	}
}

// Close refuses everybody who waits.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.closed = true
	for _, p := range g.pools {
		for _, w := range p.order.waiters {
			w.end(leftClosed)
		}
		p.order.waiters = nil
	}
	clear(g.pools)
	g.engaged.Store(false)
	if g.tick != nil {
		g.tick.Stop()
		g.tick = nil
	}
}
