package peers

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// Bus carries messages between routers, at most once and in no promised order. package cluster has one.
type Bus interface {
	// Publish sends to all who subscribe. It does not wait for them, and keeps nothing of data.
	Publish(subject string, data []byte) error
	// Subscribe calls f with each message. f keeps nothing of data.
	Subscribe(subject string, f func(data []byte)) (stop func(), err error)
}

// Chooser makes choices for other routers: route.Router.
type Chooser interface {
	Arbitrate(s *routing.Scratch, a *routing.Ask) (routing.Decision, error)
}

// Expected keeps the prompts of all routers that no event tells of yet: route.Expected.
type Expected interface {
	Expect(now time.Time, by routing.Sender, rank uint64, tokens int, marks []uint32, sure bool)
	Sent(now time.Time, by routing.Sender)
	Done(now time.Time, by routing.Sender)
	Forget(router uint64)
	Own(now time.Time, f func(number, rank uint64, tokens int, marks []uint32))
}

// Config says how a Group works. Zero durations take their defaults.
type Config struct {
	ID       string // of this router, unique
	Bus      Bus
	Registry *worker.Registry
	Chooser  Chooser
	Expected Expected // of the same router; nil: equal prompts of one instant are chosen for without each other
	// Every is how long what changes is gathered before it is told; default 5 ms. It is longer with more than four routers, in proportion.
	Every time.Duration
	// Whole is how often all is told; default 500 ms. It is the heartbeat, too.
	Whole time.Duration
	// Silence is after how long a router is forgotten; default 2 s.
	Silence time.Duration
	// Deadline is how long a request waits for another router's answer; default 20 ms: most take less than one, and the first token of an
	// idle worker as long.
	Deadline time.Duration
	Log      *slog.Logger
}

func (c *Config) setDefaults() {
	c.Every = cmp.Or(c.Every, 5*time.Millisecond)
	c.Whole = cmp.Or(c.Whole, 500*time.Millisecond)
	c.Silence = cmp.Or(c.Silence, 2*time.Second)
	c.Deadline = cmp.Or(c.Deadline, 20*time.Millisecond)
	if c.Log == nil {
		c.Log = slog.Default()
	}
}

// Subjects of the bus; answers and questions go to one router each.
const (
	subjectState  = "replica.state"
	subjectAsk    = "replica.ask."
	subjectAnswer = "replica.answer."
)

// Group is what one router knows of the others.
type Group struct {
	cfg     Config
	started int64 // unix microseconds

	chief  atomic.Pointer[peer] // who chooses for this router; nil: it does itself
	some   atomic.Bool          // others are there
	retell atomic.Bool          // the router that chooses has changed: it does not know what is in flight
	idle   atomic.Bool          // Run sleeps until wake or the next heartbeat
	wake   chan struct{}        // capacity 1
	skip   skip
	asks   asks
	count  counters

	mu    sync.Mutex
	peers map[string]*peer // guarded by mu, as is all below
	known ranks
	in    state
	kept  []*entry // of promises that are being taken back

	judging sync.Mutex // one choice for others at a time; Group.mu is taken under it
	scratch routing.Scratch
	asked   question
	reply   []byte
}

var _ routing.Others = (*Group)(nil)

// counters are read by Status and by metrics.
type counters struct {
	published, publishedBytes, failed atomic.Uint64 // messages of states
	received, malformed, lost, stale  atomic.Uint64
	asked, answered, late, refused    atomic.Uint64 // own questions
	alone                             atomic.Uint64 // own choices while the other router was not to be asked
	judged                            atomic.Uint64 // choices for others
	told                              atomic.Uint64 // prompts that were sent without the choice of who chooses for all, and told it
	forgotten                         atomic.Uint64 // routers that fell silent
}

// none is Expected for a group that keeps nothing.
type none struct{}

func (none) Expect(time.Time, routing.Sender, uint64, int, []uint32, bool)        {}
func (none) Sent(time.Time, routing.Sender)                                       {}
func (none) Done(time.Time, routing.Sender)                                       {}
func (none) Forget(uint64)                                                        {}
func (none) Own(time.Time, func(number, rank uint64, tokens int, marks []uint32)) {}

// New returns a group of which nobody is known yet. Run must follow.
func New(cfg Config) *Group {
	cfg.setDefaults()
	if cfg.Expected == nil {
		cfg.Expected = none{}
	}
	g := &Group{cfg: cfg, started: time.Now().UnixMicro(), wake: make(chan struct{}, 1), peers: make(map[string]*peer)}
	g.asks.waiting = make(map[uint64]*waiter)
	g.skip.pause.Store(int64(firstPause))
	return g
}

// Run tells others of this router until ctx ends, and listens to them.
func (g *Group) Run(ctx context.Context) error {
	stops := make([]func(), 0, 3)
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	listen := []struct {
		subject string
		f       func([]byte)
	}{{subjectState, g.onState}, {subjectAsk + g.cfg.ID, g.onAsk}, {subjectAnswer + g.cfg.ID, g.onAnswer}}
	p := publisher{g: g}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		for len(stops) < len(listen) {
			l := listen[len(stops)]
			stop, err := g.cfg.Bus.Subscribe(l.subject, l.f)
			if err != nil {
				g.cfg.Log.Warn("cannot listen to other routers; trying again", "subject", l.subject, "error", err)
				break
			}
			stops = append(stops, stop)
		}
		select {
		case <-ctx.Done():
			p.tell(time.Now(), true)
			g.leave()
			return nil
		case <-g.wake:
			p.changed = time.Now()
			timer.Reset(g.every()) // what is about to be sent is counted by then
		case now := <-timer.C:
			timer.Reset(p.tick(now))
		}
	}
}

// every is the time between two messages: with many routers each tells less often, so that who listens to all hears no more.
func (g *Group) every() time.Duration {
	g.mu.Lock()
	n := len(g.peers)
	g.mu.Unlock()
	return g.cfg.Every * time.Duration(max(1, (n+1+3)/4))
}

// leave forgets all others at the end.
func (g *Group) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for _, p := range g.peers {
		g.forgetLocked(p, now)
	}
	g.electLocked()
}
