package sidecar

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/sidecar/health"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
	"github.com/warmpath/warmpath/nvml"
)

// Node is one sidecar.
type Node struct {
	cfg       Config
	instance  string
	started   time.Time
	listener  net.Listener
	control   string // base URL of the HTTP API as other machines reach it; "" where they do not
	monitor   *nvml.Monitor
	registry  *worker.Registry
	finder    *finder
	announcer *announcer
	ready     chan struct{} // capacity 1: a worker came up or went down
	report    atomic.Pointer[Report]
}

// New checks the configuration and binds the listener. Run must follow, or Close where it cannot.
func New(cfg Config) (*Node, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, instance: cluster.NewInstance(), started: time.Now(), monitor: nvml.New(cfg.NVML),
		announcer: newAnnouncer(cfg.Cluster), ready: make(chan struct{}, 1),
	}
	n.report.Store(&Report{
		Name: cfg.Name, Instance: n.instance, Version: cfg.Version, Started: n.started, Advertise: cfg.Advertise, Driver: DriverReport{State: nvml.StateStarting},
		next: make(chan struct{}),
	})
	n.registry = worker.NewRegistry(worker.Config{
		Interval: cfg.ProbeEvery, LoadEvery: -1, Log: cfg.Log, TLS: cfg.TLS, Dial: cfg.Dial,
	}, kick(n.ready))
	var err error
	if n.finder, err = newFinder(&n.cfg, n.registry); err == nil {
		n.listener, err = net.Listen("tcp", cfg.Listen)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot start the node: %w", err)
	}
	n.control = controlURL(n.listener.Addr(), cfg.Advertise)
	return n, nil
}

// controlURL is where other machines reach a listener.
func controlURL(addr net.Addr, advertise string) string {
	at, ok := addr.(*net.TCPAddr)
	if !ok || (at.IP.IsLoopback() && !tlsconfig.Loopback(advertise)) {
		return ""
	}
	host := at.IP.String()
	if at.IP.IsUnspecified() {
		host = advertise
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(at.Port))
}

// Addr returns where the node's HTTP API listens.
func (n *Node) Addr() string { return n.listener.Addr().String() }

// Report returns what the node knows now; it costs one atomic load.
func (n *Node) Report() *Report { return n.report.Load() }

// Close frees what New bound. Run does it by itself.
func (n *Node) Close() { _ = n.listener.Close() }

// Run works until ctx ends. The cluster is told last that the node is gone.
func (n *Node) Run(ctx context.Context) error {
	defer n.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var g errgroup.Group
	failing := func(f func(context.Context) error) {
		g.Go(func() error {
			defer stop() // the parts end together
			return f(ctx)
		})
	}
	failing(n.monitor.Run)
	failing(n.registry.Run)
	failing(n.serve)
	failing(func(ctx context.Context) error { n.finder.run(ctx); return nil })
	failing(func(ctx context.Context) error {
		j := &judge{
			n: n, tracker: health.NewTracker(n.cfg.Health), xids: map[string]*xidCount{},
			placer: placer{procs: n.finder.procs, own: ownEnvironment()},
		}
		j.run(ctx)
		return nil
	})
	if n.cfg.Cluster != nil {
		failing(func(ctx context.Context) error { n.announcer.run(ctx.Done()); return nil })
	}
	return g.Wait()
}

// infoOf is what a worker says of itself: to its monitor since it was last ready, else when it was found.
func (n *Node) infoOf(f *Found) *worker.Info {
	if w, err := n.registry.Get(f.URL); err == nil {
		if info := w.Info(); info != nil {
			return info
		}
	}
	return f.Info
}

// kick wakes the judge when a worker comes or goes.
type kick chan struct{}

var _ worker.Observer = kick(nil)

// Up implements worker.Observer.
func (k kick) Up(*worker.Worker, *worker.Info) { k.send() }

// Down implements worker.Observer.
func (k kick) Down(*worker.Worker) { k.send() }

func (k kick) send() {
	select {
	case k <- struct{}{}:
	default:
	}
}
