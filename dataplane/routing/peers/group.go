package peers

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// Bus carries messages between routers, at most once and in no order. Package cluster has one.
type Bus interface {
	// Publish sends data to all subscribers. It does not wait for them and keeps no part of
	// data.
	Publish(subject string, data []byte) error
	// Subscribe calls f with each message. f keeps no part of data.
	Subscribe(subject string, f func(data []byte)) (stop func(), err error)
}

// Chooser makes choices for other routers: routing.Router.
type Chooser interface {
	ChooseFor(s *routing.Scratch, a *routing.PeerRequest) (routing.Decision, error)
}

// Predictions keeps the prompts of all routers that no event tells of yet:
// routing.SharedPredictions.
type Predictions interface {
	Add(now time.Time, id routing.PromptID, rank uint64, tokens int, fingerprints []uint32, sent bool)
	Sent(now time.Time, id routing.PromptID)
	Done(now time.Time, id routing.PromptID)
	Forget(router uint64)
	Own(now time.Time, f func(number, rank uint64, tokens int, fingerprints []uint32))
}

// Config holds the settings of a Group. Zero durations take their defaults.
type Config struct {
	ID          string // of this router, unique
	Bus         Bus
	Registry    *worker.Registry
	Chooser     Chooser
	Predictions Predictions // of the same router; nil: each choice ignores prompts of other routers
	// Every is the time between two messages of changes; default 5 ms. It grows in proportion
	// with more than four routers.
	Every time.Duration
	// Whole is the time between two messages of all load, which are heartbeats; default 500 ms.
	Whole time.Duration
	// Silence is the time after which a silent router is forgotten; default 2 s.
	Silence time.Duration
	// Deadline bounds the wait of a request for the leader's reply; default 20 ms: most take
	// less than one, and the first token of an idle worker as long.
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
	if c.Predictions == nil {
		c.Predictions = noPredictions{}
	}
}

// Subjects of the bus. Requests and replies go to one router each.
const (
	subjectLoad    = "replica.state"
	subjectRequest = "replica.ask."
	subjectReply   = "replica.answer."
)

// Group makes this router choose as one with the others.
type Group struct {
	cfg       *Config
	leader    *leadership
	loads     *loads
	requests  requests
	responder responder
	count     *counters
}

var _ routing.Peers = (*Group)(nil)

// counters are read by Status and by metrics.
type counters struct {
	published, publishedBytes, failed atomic.Uint64 // messages of load
	received, malformed, lost, stale  atomic.Uint64
	asked, answered, late, refused    atomic.Uint64 // own requests
	alone                             atomic.Uint64 // own choices during a pause
	judged                            atomic.Uint64 // choices for others
	told                              atomic.Uint64 // own prompts that the leader was told of
	forgotten                         atomic.Uint64 // silent routers
}

// noPredictions keeps no prompts.
type noPredictions struct{}

func (noPredictions) Add(time.Time, routing.PromptID, uint64, int, []uint32, bool) {}
func (noPredictions) Sent(time.Time, routing.PromptID)                             {}
func (noPredictions) Done(time.Time, routing.PromptID)                             {}
func (noPredictions) Forget(uint64)                                                {}
func (noPredictions) Own(time.Time, func(number, rank uint64, tokens int, fingerprints []uint32)) {
}

// New returns a group without peers. Run must follow.
func New(cfg Config) *Group {
	cfg.setDefaults()
	count, leader := &counters{}, &leadership{started: time.Now().UnixMicro(), id: cfg.ID, wake: make(chan struct{}, 1)}
	leader.pause.next.Store(int64(firstPause))
	l := &loads{cfg: &cfg, leader: leader, count: count, peers: make(map[string]*peer)}
	return &Group{
		cfg: &cfg, leader: leader, loads: l, count: count,
		requests:  requests{waiting: make(map[uint64]*waiter)},
		responder: responder{cfg: &cfg, loads: l, count: count},
	}
}

// Run publishes the load of this router until ctx ends, and listens to the others.
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
	}{{subjectLoad, g.loads.onMessage}, {subjectRequest + g.cfg.ID, g.responder.onMessage}, {subjectReply + g.cfg.ID, g.onReply}}
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
			p.publish(time.Now(), true)
			g.loads.forgetAll()
			return nil
		case <-g.leader.wake:
			p.changed = time.Now()
			timer.Reset(g.every()) // requests about to be sent are counted by then
		case now := <-timer.C:
			timer.Reset(p.tick(now))
		}
	}
}

// every is the time between two messages of changes: with many routers each publishes less
// often, so that each receives no more.
func (g *Group) every() time.Duration {
	return g.cfg.Every * time.Duration(max(1, (g.loads.size()+1+3)/4))
}
