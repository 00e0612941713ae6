package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
	"github.com/valyala/fasthttp"
)

// drain bounds how long answers that are under way hold up the end of Run.
const drain = 2 * time.Second

// api is the node's HTTP API. It changes nothing, and what it says is no secret of users: dcgm-exporter serves as much to anyone.
type api struct {
	n       *Node
	metrics *prometheus.Registry
}

func newAPI(n *Node) *api {
	a := &api{n: n, metrics: prometheus.NewRegistry()}
	a.metrics.MustRegister(
		&collector{n: n}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	for _, c := range n.cfg.Extra.Metrics {
		a.metrics.MustRegister(c)
	}
	return a
}

// serve answers until ctx ends.
func (n *Node) serve(ctx context.Context) error {
	server := &fasthttp.Server{
		Handler: newAPI(n).handle, Name: "warmpath-node", NoDefaultDate: true, CloseOnShutdown: true,
		ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute, // scrapes come each 15 to 60 s, and keep their connection
		MaxRequestBodySize: 1 << 24, Concurrency: 256, // a hint with 1 M token ids has 8 MB
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(n.listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("cannot serve the node's API: %w", err)
	case <-ctx.Done():
	}
	shut, stop := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer stop()
	err := server.ShutdownWithContext(shut)
	// Shutdown closes only what Serve has begun to accept from.
	n.Close()
	if served := <-ended; served != nil && !errors.Is(served, net.ErrClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func (a *api) handle(ctx *fasthttp.RequestCtx) {
	if h := a.n.cfg.Extra.Handle; h != nil && h(ctx) {
		return
	}
	if !ctx.IsGet() && !ctx.IsHead() {
		ctx.Response.Header.Set("Allow", "GET, HEAD")
		ctx.Error("this API only answers GET\n", fasthttp.StatusMethodNotAllowed)
		return
	}
	switch string(ctx.Path()) {
	case "/health":
		ctx.SetBodyString("ok\n")
	case "/ready":
		a.ready(ctx)
	case "/status":
		writeJSON(ctx, fasthttp.StatusOK, a.n.Report())
	case "/metrics":
		a.serveMetrics(ctx)
	case "/":
		ctx.SetBodyString("warmpath node: /metrics /status /health /ready\n")
	default:
		ctx.Error("there is /metrics, /status, /health and /ready\n", fasthttp.StatusNotFound)
	}
}

// ready is 200 once the machine was looked at, and where there is a cluster, once it was told.
func (a *api) ready(ctx *fasthttp.RequestCtx) {
	r := a.n.Report()
	shared := a.n.announcer.status()
	ready := r.Ready() && (a.n.cfg.Cluster == nil || shared.Told > 0)
	status := fasthttp.StatusOK
	if !ready {
		status = fasthttp.StatusServiceUnavailable
	}
	writeJSON(ctx, status, map[string]any{"ready": ready, "driver": r.Driver.State, "workers": len(r.Workers), "cluster": shared.State})
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
		// What could be gathered is still worth having.
		a.n.cfg.Log.Warn("cannot gather all metrics", "error", err)
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

// ownEnvironment is what this process was started with.
func ownEnvironment() map[string]string {
	all := map[string]string{}
	for _, entry := range os.Environ() {
		if name, value, ok := strings.Cut(entry, "="); ok {
			all[name] = value
		}
	}
	return all
}
