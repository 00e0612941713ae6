package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/operator"
	"github.com/warmpath/warmpath/dataplane/origin"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// shutdownTimeout bounds the wait for answers under way at the end of Run.
const shutdownTimeout = 2 * time.Second

// writeTimeout bounds the time of an answer on its way: a client that reads nothing would keep one
// of the few connections for good. The longest answers, of profiles, have some MB.
const writeTimeout = time.Minute

// api is the sidecar's HTTP API. It only reads, but for hints to the KV tier, and its facts are no
// user's secret: dcgm-exporter serves as much to any client. Web pages are none, and profiles are
// for operators.
type api struct {
	sidecar *Sidecar
	metrics *prometheus.Registry
	guard   origin.Guard
	refused *operator.Refusals
	ending  chan struct{} // closed when Run ends
}

// serve answers until ctx ends.
func (a *api) serve(ctx context.Context) error {
	s := a.sidecar
	host, _, _ := net.SplitHostPort(s.Addr())
	a.guard = origin.Guard{Hosts: s.cfg.Hosts, AnyHost: !tlsconfig.Loopback(host)}
	a.refused, a.ending = operator.NewRefusals(s.cfg.Log), make(chan struct{})
	a.metrics = prometheus.NewRegistry()
	a.metrics.MustRegister(
		&collector{sidecar: s}, a.refused.Count, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	a.metrics.MustRegister(s.cfg.extra.metrics...)
	server := newServer(a.handle, writeTimeout)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(s.listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("cannot serve the sidecar's API: %w", err)
	case <-ctx.Done():
	}
	close(a.ending)
	shut, stop := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer stop()
	err := server.ShutdownWithContext(shut)
	_ = s.listener.Close() // Shutdown closes only listeners that Serve has begun to accept from
	if served := <-ended; served != nil && !errors.Is(served, net.ErrClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// newServer returns a server that cuts clients which do not take an answer in time.
func newServer(handle fasthttp.RequestHandler, write time.Duration) *fasthttp.Server {
	return &fasthttp.Server{
		Handler: handle, Name: "warmpath-node", NoDefaultDate: true, CloseOnShutdown: true,
		// Scrapes come each 15 to 60 s, and keep their connection.
		ReadTimeout: time.Minute, WriteTimeout: write, IdleTimeout: 2 * time.Minute,
		MaxRequestBodySize: 1 << 24, Concurrency: 256, // a hint with 1 M token ids has 8 MB
	}
}

func (a *api) handle(ctx *fasthttp.RequestCtx) {
	reads, h := ctx.IsGet() || ctx.IsHead(), a.sidecar.cfg.extra.handle
	if err := a.guard.Check(ctx); err != nil && (reads || h != nil) {
		a.refused.Foreign()
		ctx.Error(err.Error()+"\n", origin.Status(err))
		return
	}
	if h != nil && h(ctx) {
		return
	}
	if !reads {
		ctx.Response.Header.Set("Allow", "GET, HEAD")
		ctx.Error("this API only answers GET\n", fasthttp.StatusMethodNotAllowed)
		return
	}
	switch path := string(ctx.Path()); path {
	case "/health":
		ctx.SetBodyString("ok\n")
	case "/ready":
		a.ready(ctx)
	case "/status":
		writeJSON(ctx, fasthttp.StatusOK, a.sidecar.Report())
	case "/metrics":
		a.serveMetrics(ctx)
	case "/":
		ctx.SetBodyString("warmpath node: /metrics /status /health /ready " + operator.ProfilePath + "\n")
	default:
		if strings.HasPrefix(path, operator.ProfilePath) {
			a.serveProfile(ctx)
			return
		}
		ctx.Error("there is /metrics, /status, /health, /ready and "+operator.ProfilePath+"\n", fasthttp.StatusNotFound)
	}
}

// serveProfile serves a profile of the process as the router's operator API does: with the
// operators' key, and without one on loopback only.
func (a *api) serveProfile(ctx *fasthttp.RequestCtx) {
	key := *a.sidecar.key.Load()
	switch {
	case key == "" && a.guard.AnyHost:
		ctx.Error("profiles need --operator-key where --listen is not on loopback\n", fasthttp.StatusForbidden)
		return
	case key != "" && !a.refused.Allow(ctx, key):
		ctx.Error("the operators' key is missing or wrong\n", fasthttp.StatusUnauthorized)
		ctx.Response.Header.Set(fasthttp.HeaderWWWAuthenticate, "Bearer")
		return
	}
	gone := func() bool {
		select {
		case <-a.ending:
			return true
		default:
			return false
		}
	}
	if e := operator.ServeProfile(ctx, gone); e != nil {
		ctx.Error(e.Message+"\n", e.Status)
	}
}

// ready answers 200 after the first look at the machine and, with a cluster, the first record.
func (a *api) ready(ctx *fasthttp.RequestCtx) {
	r, c := a.sidecar.Report(), a.sidecar.records.status()
	ready := r.Ready() && (a.sidecar.cfg.Cluster == nil || c.Records > 0)
	status := fasthttp.StatusOK
	if !ready {
		status = fasthttp.StatusServiceUnavailable
	}
	writeJSON(ctx, status, map[string]any{"ready": ready, "driver": r.Driver.State, "workers": len(r.Workers), "cluster": c.State})
}

func writeJSON(ctx *fasthttp.RequestCtx, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		ctx.Error(err.Error()+"\n", fasthttp.StatusInternalServerError)
		return
	}
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	ctx.SetBody(append(body, '\n'))
}

// serveMetrics writes the Prometheus text format.
func (a *api) serveMetrics(ctx *fasthttp.RequestCtx) {
	families, err := a.metrics.Gather()
	if err != nil {
		// The other metrics are still useful.
		a.sidecar.cfg.Log.Warn("cannot gather all metrics", "error", err)
	}
	format := expfmt.NewFormat(expfmt.TypeTextPlain)
	ctx.SetContentType(string(format))
	encoder := expfmt.NewEncoder(ctx, format)
	for _, family := range families {
		if err := encoder.Encode(family); err != nil {
			ctx.Error(err.Error()+"\n", fasthttp.StatusInternalServerError)
			return
		}
	}
}
