package router

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/fleet"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/request"
	"github.com/warmpath/warmpath/dataplane/request/accesslog"
	"github.com/warmpath/warmpath/dataplane/router/config"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// Router is one router.
type Router struct {
	cfg       Config
	reload    reloads
	registry  *worker.Registry
	fleet     *fleet.Manager
	networks  worker.Networks
	proxies   worker.Networks // trusted to name their clients
	transport *upstream.Transport
	watcher   *ingress.Watcher
	requests  *request.Handler
	admin     *admin.API
	server    *request.Server
	member    *fleet.Membership // nil: there is no cluster
	accessLog *accesslog.Log    // nil: there is none
	snapshots *ingest.Snapshots
	listeners []net.Listener
	files     []func()                      // each reads a changed file again
	services  []func(context.Context) error // run until the server has drained
}

// maxKeptBody is the largest body buffer that a connection keeps for its next request. Four
// clients with 8 MB each in turn peak at 93 MB and take 12 ms of CPU a request with it, and 141
// MB and 16 ms with 256 KiB, because they allocate faster than the collector frees.
const maxKeptBody = 16 << 20

// New checks the configuration and binds the listeners. Run must follow, or Close where it
// cannot.
func New(cfg Config) (*Router, error) {
	given := cfg
	cfg.SetDefaults()
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	fasthttp.SetBodySizePoolLimit(maxKeptBody, maxKeptBody)
	proxies, err := worker.ParseNetworks(cfg.Requests.Proxies)
	if err != nil {
		return nil, fmt.Errorf("cannot use --trusted-proxy: %w", err)
	}
	networks, err := worker.ParseNetworks(cfg.Sources.Allow)
	if err != nil {
		return nil, err
	}
	r := &Router{cfg: cfg, networks: networks, proxies: proxies, transport: upstream.NewTransport(upstream.Config{Control: networks.Control})}
	r.reload.begin(&given)
	if r.watcher, err = ingress.NewWatcher(); err == nil {
		if err = r.listen(); err == nil {
			err = newBuilder(r).build()
		}
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Router) listen() error {
	given := config.Sockets{}
	if r.cfg.Sockets != nil {
		given = *r.cfg.Sockets
	}
	err := r.bind(given.Clients, r.cfg.Listen)
	if err == nil && r.cfg.Operator.Listen != "" {
		err = r.bind(given.Operator, r.cfg.Operator.Listen)
	}
	return err
}

// bind takes a listener that was given, or listens on addr.
func (r *Router) bind(l net.Listener, addr string) (err error) {
	if l == nil {
		l, err = net.Listen("tcp", addr)
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("cannot listen on %s: %w: stop the process that listens there, or choose another address (a running router is upgraded with SIGUSR2)",
			addr, syscall.EADDRINUSE)
	case err != nil:
		return fmt.Errorf("cannot listen on %s: %w", addr, err)
	}
	r.listeners = append(r.listeners, l)
	return nil
}

// Listeners returns the listener of clients and, where there is one, the operators'.
func (r *Router) Listeners() []net.Listener { return slices.Clone(r.listeners) }

// Addr returns the address for clients.
func (r *Router) Addr() string { return r.listeners[0].Addr().String() }

// OperatorAddr returns the address for operators.
func (r *Router) OperatorAddr() string { return r.listeners[len(r.listeners)-1].Addr().String() }

// Status returns the router's state now.
func (r *Router) Status() admin.Status { return r.admin.Status() }

// Ready reports whether some model can be served, and whether nothing is known to be still on its
// way: first probes of workers, replays of their events. lacks says what is missing.
func (r *Router) Ready() (some, all bool, lacks string) { return r.admin.Ready() }

// HandOver has Run leave the listeners to another process that has them, and end with the last
// connection.
func (r *Router) HandOver() { r.server.HandOver() }

// HoldSnapshots writes the snapshot now, for a process that is to take over, and none until resume:
// the file is the other's.
func (r *Router) HoldSnapshots() (resume func()) { return r.snapshots.Hold() }

// ReopenLogs opens the access log again under its name, after it was moved away.
func (r *Router) ReopenLogs() {
	if r.accessLog != nil {
		r.accessLog.Reopen()
	}
}

// ReloadFiles reads certificates and keys again that have changed. They are read at their next use
// anyway; the log then has the result now.
func (r *Router) ReloadFiles() {
	for _, reload := range r.files {
		reload()
	}
}

// Run serves until ctx ends, or a service fails, and all requests have drained.
func (r *Router) Run(ctx context.Context) error {
	defer r.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// Services outlive ctx: requests in flight at shutdown still need them.
	outlive := context.WithoutCancel(ctx)
	var g errgroup.Group
	services, stopServices := context.WithCancel(outlive)
	defer stopServices()
	r.fleet.Start(services)
	for _, run := range append(slices.Clone(r.services), r.fleet.Run) {
		g.Go(func() error {
			err := run(services)
			if err != nil && services.Err() == nil {
				r.cfg.Log.Error("the router ends, after the requests in flight: a part of it has failed", "error", err)
				stop()
			}
			return err
		})
	}
	saves, lastSave := context.WithCancel(outlive)
	defer lastSave()
	var saver sync.WaitGroup
	saver.Go(func() { r.snapshots.Run(saves) })
	if r.member != nil { // clients wait in the queue of the bound listeners
		r.member.Await(ctx, r.cfg.Cluster.Wait)
	}
	var err error
	if r.awaitOpen(ctx) {
		err = r.server.Run(ctx)
	}
	// The last snapshot precedes the end of the event streams, which clear the index.
	lastSave()
	saver.Wait()
	stopServices()
	return errors.Join(err, g.Wait())
}

// awaitOpen waits until connections may be accepted; false: ctx has ended, and another process has
// the sockets.
func (r *Router) awaitOpen(ctx context.Context) bool {
	if r.cfg.Sockets == nil || r.cfg.Sockets.Open == nil {
		return true
	}
	select {
	case <-r.cfg.Sockets.Open:
		return true
	case <-ctx.Done():
		return false
	}
}

// Close frees the resources of New. Run calls it.
func (r *Router) Close() {
	for _, l := range r.listeners {
		_ = l.Close()
	}
	_ = r.transport.Close()
	if r.watcher != nil {
		_ = r.watcher.Close()
	}
}
