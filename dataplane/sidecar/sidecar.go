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
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
	"github.com/warmpath/warmpath/nvml"
)

// Sidecar is the Warmpath process beside the workers of one node.
type Sidecar struct {
	cfg       Config
	instance  string
	started   time.Time
	listener  net.Listener
	control   string // base URL of the HTTP API for other machines; "" where they do not reach it
	driver    *nvml.Monitor
	registry  *worker.Registry
	discovery *discovery
	records   records
	links     *links
	tier      *tier
	changed   chan struct{} // capacity 1: a worker came up or went down
	report    atomic.Pointer[Report]
	key       atomic.Pointer[string] // of operators
}

// New checks the configuration, binds the listener and makes the KV tier. Run must follow, or
// Close.
func New(cfg Config) (*Sidecar, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	s := &Sidecar{cfg: cfg, instance: cluster.NewInstance(), started: time.Now(), driver: nvml.New(cfg.NVML), records: records{cluster: cfg.Cluster}, changed: make(chan struct{}, 1)}
	s.SetKey(cfg.Key)
	s.report.Store(&Report{
		Name: cfg.Name, Instance: s.instance, Version: cfg.Version, Started: s.started, Advertise: cfg.Advertise, Driver: DriverReport{State: nvml.StateStarting},
		next: make(chan struct{}),
	})
	s.registry = worker.NewRegistry(worker.Config{
		Interval: cfg.Probing.Every, LoadEvery: -1, Log: cfg.Log, TLS: cfg.Probing.TLS, Dial: cfg.Probing.Dial, Key: s.keyOf,
	}, waker(s.changed))
	var err error
	if s.discovery, err = newDiscovery(&s.cfg, s.registry); err == nil {
		s.listener, err = net.Listen("tcp", cfg.Listen)
	}
	if err == nil {
		err = s.openParts()
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("cannot start the sidecar: %w", err)
	}
	s.control = controlURL(s.listener.Addr(), cfg.Advertise)
	return s, nil
}

// keyOf returns the API key that a worker is shown.
func (s *Sidecar) keyOf(url string) *worker.Key {
	if keys := s.cfg.Probing.Keys; keys.Named(url) || s.discovery.mayHaveKey(url) {
		return keys.Of(url)
	}
	return new(worker.Key)
}

// openParts makes the link prober and the KV tier, as far as they are configured.
func (s *Sidecar) openParts() (err error) {
	cfg := &s.cfg
	if cfg.Tier.Bytes > 0 || cfg.measuresLinks() {
		if err = prepareNIXL(cfg); err != nil {
			return err
		}
	}
	if s.links, err = newLinks(cfg); err != nil {
		return err
	}
	s.tier, err = newTier(cfg)
	return err
}

// controlURL returns the URL of a listener for other machines.
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

// Addr returns the address of the HTTP API.
func (s *Sidecar) Addr() string { return s.listener.Addr().String() }

// SetKey sets the operators' key, in place of Config.Key. It may be called at any time.
func (s *Sidecar) SetKey(key string) { s.key.Store(&key) }

// Report returns the newest report; it costs one atomic load.
func (s *Sidecar) Report() *Report { return s.report.Load() }

// Close frees the listener and the KV tier. Run does it by itself.
func (s *Sidecar) Close() {
	if s.listener != nil {
		_ = s.listener.Close()
	}
	if s.tier != nil {
		_ = s.tier.store.Close()
	}
}

// Run works until ctx ends or a part fails, which ends all others. It withdraws the node's record.
func (s *Sidecar) Run(ctx context.Context) error {
	defer s.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var g errgroup.Group
	start := func(f func(context.Context) error) {
		g.Go(func() error {
			defer stop() // the parts end together
			return f(ctx)
		})
	}
	start(s.driver.Run)
	start(s.registry.Run)
	start((&api{sidecar: s}).serve)
	start(s.discovery.run)
	start(newReporter(s).run)
	if s.links != nil {
		start(s.links.run)
	}
	if s.tier != nil {
		start(s.tier.run)
	}
	return g.Wait()
}

// waker wakes the reporter when a worker comes or goes.
type waker chan struct{}

var _ worker.Observer = waker(nil)

// Up implements worker.Observer.
func (k waker) Up(*worker.Worker, *worker.Info) { k.send() }

// Down implements worker.Observer.
func (k waker) Down(*worker.Worker) { k.send() }

func (k waker) send() {
	select {
	case k <- struct{}{}:
	default:
	}
}
