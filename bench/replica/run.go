package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/peers"
)

// Config is the size of a measurement.
type Config struct {
	Routers, Workers int
	Rate             float64       // requests a second and router
	For              time.Duration // of each of the two halves, with and without sharing
}

// Result is the cost of sharing.
type Result struct {
	Routers  int     `json:"routers"`
	Workers  int     `json:"workers"`
	Rate     float64 `json:"rate"`     // requests a second and router, as asked for
	Requests float64 `json:"requests"` // a second, of all routers, as chosen for
	Messages float64 `json:"messages"` // per second, of all routers
	Heard    float64 `json:"heard"`    // messages that all routers receive a second
	Bytes    float64 `json:"bytes"`    // a second, published
	CPU      float64 `json:"cpu"`      // seconds a second, of all routers and NATS, with sharing
	Alone    float64 `json:"alone"`    // the same with sharing off: choices and the requests
	Load     float64 `json:"load"`     // of the machine, when it ended
}

// Sharing is the CPU that sharing costs, in seconds a second of one router.
func (r *Result) Sharing() float64 { return (r.CPU - r.Alone) / float64(r.Routers) }

// bus counts the messages over a cluster's NATS.
type bus struct {
	*cluster.Cluster
	messages, bytes *atomic.Uint64
}

// Publish implements replica.Bus.
func (b bus) Publish(subject string, data []byte) error {
	b.messages.Add(1)
	b.bytes.Add(uint64(len(data)))
	return b.Cluster.Publish(subject, data) //nolint:wrapcheck // the cluster's own words
}

// Run measures one setting.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if cfg.Routers < 1 || cfg.Workers < 1 || !(cfg.Rate > 0) || cfg.For <= 0 {
		return nil, fmt.Errorf("cannot measure %d routers, %d workers, %v requests a second for %v", cfg.Routers, cfg.Workers, cfg.Rate, cfg.For)
	}
	m := &measurement{cfg: cfg}
	defer m.close()
	for range cfg.Routers {
		f, err := newFleet(ctx, cfg.Workers)
		m.fleets = append(m.fleets, f)
		if err != nil {
			return nil, err
		}
	}
	r := &Result{Routers: cfg.Routers, Workers: cfg.Workers, Rate: cfg.Rate}
	_, r.Alone = m.play(ctx)
	if err := m.share(ctx); err != nil {
		return nil, err
	}
	messages, bytes := m.messages.Load(), m.bytes.Load()
	requests, cpu := m.play(ctx)
	span := cfg.For.Seconds()
	r.Requests, r.CPU = requests/span, cpu
	r.Messages, r.Bytes = float64(m.messages.Load()-messages)/span, float64(m.bytes.Load()-bytes)/span
	r.Heard = r.Messages * float64(cfg.Routers-1)
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		r.Load = float64(info.Loads[0]) / 65536
	}
	return r, ctx.Err()
}

// measurement is one setting while it is measured.
type measurement struct {
	cfg      Config
	fleets   []*fleet
	clusters []*cluster.Cluster
	groups   []*peers.Group
	messages atomic.Uint64
	bytes    atomic.Uint64
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// share lets the routers know each other.
func (m *measurement) share(ctx context.Context) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	m.stop = stop
	log := slog.New(slog.DiscardHandler)
	for i, f := range m.fleets {
		cfg := cluster.Config{Log: log}
		if i > 0 {
			cfg.URLs = []string{m.clusters[0].URL()}
		}
		c, err := cluster.Open(ctx, cfg)
		if err != nil {
			return fmt.Errorf("cannot open the cluster: %w", err)
		}
		m.clusters = append(m.clusters, c)
		g := peers.New(peers.Config{ID: c.Instance(), Bus: bus{c, &m.messages, &m.bytes}, Registry: f.registry, Predictions: &f.router.Shared, Log: log})
		m.groups = append(m.groups, g)
		f.router.Peers = g
		m.running.Go(func() { _ = g.Run(running) })
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for !m.together() {
		select {
		case <-ctx.Done():
			return errors.Join(errors.New("cannot go on: the routers do not hear each other"), ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

func (m *measurement) together() bool {
	for _, g := range m.groups {
		if len(g.Status().Peers) < len(m.groups)-1 {
			return false
		}
	}
	return true
}

// Times of a request: until its first byte, and from there to its end.
const (
	firstByte = 100 * time.Millisecond
	answer    = 400 * time.Millisecond
)

// play sends requests at the rate, and returns how many and the CPU seconds a second.
func (m *measurement) play(ctx context.Context) (requests, cpu float64) {
	var count atomic.Uint64
	var flying sync.WaitGroup
	before := cpuSeconds()
	start := time.Now()
	for _, f := range m.fleets {
		flying.Go(func() {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			// Due requests are sent, however late: a busy machine sends no fewer.
			for n, all := 0.0, m.cfg.Rate*m.cfg.For.Seconds(); n < all && ctx.Err() == nil; <-tick.C {
				for due := min(m.cfg.Rate*time.Since(start).Seconds(), all); n < due; n++ {
					ids := f.prompts[int(n)%len(f.prompts)]
					count.Add(1)
					flying.Go(func() { f.request(ids) })
				}
			}
		})
	}
	flying.Wait()
	return float64(count.Load()), (cpuSeconds() - before) / time.Since(start).Seconds()
}

// scratches are pooled, as the server pools its own.
var scratches = sync.Pool{New: func() any { return new(routing.Scratch) }}

// request chooses and counts.
func (f *fleet) request(ids []uint32) {
	s := scratches.Get().(*routing.Scratch)
	p := routing.Prompt{Model: model, Tokens: ids, Exact: true, DP: -1}
	d, err := f.router.Pick(s, &p, nil)
	if err != nil {
		scratches.Put(s)
		return
	}
	lease := d.Rank.Load.Begin(d.Uncached())
	flight := f.router.Dispatch(s, &p, &d)
	scratches.Put(s)
	time.Sleep(firstByte)
	lease.FirstByte()
	flight.Prefilled()
	time.Sleep(answer)
	lease.End()
	f.router.Withdraw(flight)
}

func cpuSeconds() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) * 1e-9
}

func (m *measurement) close() {
	if m.stop != nil {
		m.stop()
	}
	m.running.Wait()
	for i := range m.clusters {
		_ = m.clusters[len(m.clusters)-1-i].Close()
	}
	for _, f := range m.fleets {
		f.close()
	}
}
