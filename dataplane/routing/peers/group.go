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
	// PublishOwn sends data to all subscribers, in the name of this router's token. It does not
	// wait for them and keeps no part of data.
	PublishOwn(subject string, data []byte) error
	// SubscribeOwn calls f with each message and the name in the token of its sender; "" is one
	// that may use any. f keeps no part of data.
	SubscribeOwn(subject string, f func(owner string, data []byte)) (stop func(), err error)
}

// Predictions keeps the prompts of other routers that no event tells of yet:
// routing.SharedPredictions.
type Predictions interface {
	Add(now time.Time, id routing.PromptID, rank *worker.Rank, fingerprints []uint32)
	Done(now time.Time, id routing.PromptID)
	Forget(router uint64)
}

// Config holds the settings of a Group. Zero durations take their defaults.
type Config struct {
	ID          string // of this router, unique
	Bus         Bus
	Registry    *worker.Registry
	Predictions Predictions
	// Every is the time between two messages of changes; default 5 ms. It grows in proportion
	// with more than four routers.
	Every time.Duration
	// Whole is the time between two messages of all load, which are heartbeats; default 500 ms.
	Whole time.Duration
	// Silence is the time after which a silent router is forgotten; default 2 s.
	Silence time.Duration
	Log     *slog.Logger
}

func (c *Config) setDefaults() {
	c.Every = cmp.Or(c.Every, 5*time.Millisecond)
	c.Whole = cmp.Or(c.Whole, 500*time.Millisecond)
	c.Silence = cmp.Or(c.Silence, 2*time.Second)
	if c.Log == nil {
		c.Log = slog.Default()
	}
}

// subject is that of all messages.
const subject = "replica.state"

// Group lets this router and the others know each other's requests.
type Group struct {
	cfg     *Config
	started int64 // unix microseconds
	pulse   *pulse
	loads   *loads
	news    news
	count   *counters
}

var _ routing.Peers = (*Group)(nil)

// counters are read by Status and by metrics.
type counters struct {
	published, publishedBytes, failed atomic.Uint64
	received, malformed, lost, stale  atomic.Uint64
	forgotten                         atomic.Uint64 // silent routers
}

// New returns a group without peers. Run must follow.
func New(cfg Config) *Group {
	cfg.setDefaults()
	count, p := &counters{}, &pulse{wake: make(chan struct{}, 1)}
	return &Group{
		cfg: &cfg, started: time.Now().UnixMicro(), pulse: p, count: count,
		loads: &loads{cfg: &cfg, pulse: p, count: count, peers: make(map[string]*peer)},
	}
}

// Sending implements routing.Peers.
func (g *Group) Sending() bool {
	g.pulse.stir()
	return g.pulse.others.Load() > 0
}

// Routers implements routing.Peers.
func (g *Group) Routers() int { return max(int(g.pulse.shares.Load()), 1) }

// Tell implements routing.Peers.
func (g *Group) Tell(rank uint64, fingerprints []uint32) uint64 {
	return g.news.add(rank, fingerprints)
}

// Done implements routing.Peers.
func (g *Group) Done(number uint64) {
	g.news.end(number)
	g.pulse.stir()
}

// Run publishes the load of this router until ctx ends, and listens to the others.
func (g *Group) Run(ctx context.Context) error {
	var stop func()
	defer func() {
		if stop != nil {
			stop()
		}
	}()
	p := publisher{g: g}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if stop == nil {
			var err error
			if stop, err = g.cfg.Bus.SubscribeOwn(subject, g.loads.onMessage); err != nil {
				g.cfg.Log.Warn("cannot listen to other routers; trying again", "subject", subject, "error", err)
				stop = nil
			}
		}
		select {
		case <-ctx.Done():
			p.publish(time.Now(), true)
			g.loads.forgetAll()
			return nil
		case <-g.pulse.wake:
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
	return g.cfg.Every * time.Duration((g.pulse.others.Load()+4)/4)
}
