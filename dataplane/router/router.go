package router

import (
	"context"
	"errors"
	"fmt"
	"net"
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
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// Router is one router.
type Router struct {
	cfg       Config
	reload    reloads
	registry  *worker.Registry
	fleet     *fleet.Manager
	networks  worker.Networks
	transport *upstream.Transport
	watcher   *ingress.Watcher
	requests  *request.Handler
	admin     *admin.API
	server    *request.Server
	member    *fleet.Membership // nil: there is no cluster
	accessLog *accesslog.Log    // nil: there is none
	snapshots *ingest.Snapshots
	listeners []net.Listener
	files     []func() // each reads a changed file again
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
	networks, err := worker.ParseNetworks(cfg.Sources.Allow)
	if err != nil {
		return nil, err
	}
	r := &Router{cfg: cfg, networks: networks, transport: upstream.NewTransport(upstream.Config{Control: networks.Control})}
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
	addrs := []string{r.cfg.Listen}
	if r.cfg.Operator.Listen != "" {
		addrs = append(addrs, r.cfg.Operator.Listen)
	}
	for _, addr := range addrs {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			if errors.Is(err, syscall.EADDRINUSE) {
				return fmt.Errorf("cannot listen on %s: %w: stop the process that listens there, or give another address", addr, syscall.EADDRINUSE)
			}
			return fmt.Errorf("cannot listen on %s: %w", addr, err)
		}
		r.listeners = append(r.listeners, l)
	}
	return nil
}

// Addr returns the address for clients.
func (r *Router) Addr() string { return r.listeners[0].Addr().String() }

// OperatorAddr returns the address for operators.
func (r *Router) OperatorAddr() string { return r.listeners[len(r.listeners)-1].Addr().String() }

// Status returns the router's state now.
func (r *Router) Status() admin.Status { return r.admin.Status() }

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

// Run serves until ctx ends and all requests have drained.
func (r *Router) Run(ctx context.Context) error {
	defer r.Close()
	// Services outlive ctx: requests in flight at shutdown still need them.
	outlive := context.WithoutCancel(ctx)
	var g errgroup.Group
	services, stopServices := context.WithCancel(outlive)
	defer stopServices()
	r.fleet.Start(services)
	for _, run := range r.services {
		g.Go(func() error { return run(services) })
	}
	g.Go(func() error { return r.fleet.Run(services) })
	saves, lastSave := context.WithCancel(outlive)
	defer lastSave()
	var saver sync.WaitGroup
	saver.Go(func() { r.snapshots.Run(saves) })
	if r.member != nil { // clients wait in the queue of the bound listeners
		r.member.Await(ctx, r.cfg.Cluster.Wait)
	}
	err := r.server.Run(ctx)
	// The last snapshot precedes the end of the event streams, which clear the index.
	lastSave()
	saver.Wait()
	stopServices()
	return errors.Join(err, g.Wait())
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
