package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/valyala/fasthttp"
)

// bootstrapPath asks for the topology of a whole prefill worker. Its answer is 503 until every
// rank has registered; the worker's own /ready is 200 earlier, when a decode worker would still
// wait for a missing rank.
const bootstrapPath = "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"

// bootstrapProbe probes the bootstrap server of a prefill worker. The zero value is ready to use.
type bootstrapProbe struct{ probe *prober }

// check returns nil when decode workers can meet the worker. A bootstrap server that is gone is
// no death: the worker's process lives, and its cache with it.
func (b *bootstrapProbe) check(ctx context.Context, w *Worker, cfg *Config) error {
	server := w.Bootstrap()
	if addr := server.Addr(); b.probe == nil || b.probe.client.Addr != addr {
		b.close()
		if addr == w.Addr { // SGLang's server in Rust has both on one port
			b.probe = newProber(ctx, w, cfg)
		} else {
			b.probe = proberOf(ctx, "http://"+addr, addr, nil, cfg, nil)
		}
	}
	status, _, err := b.probe.get(bootstrapPath, b.probe.timeout)
	var late interface{ Timeout() bool }
	switch {
	case err == nil && status == fasthttp.StatusOK:
		return nil
	case err == nil:
		return fmt.Errorf("cannot use prefill worker, GET /route of its bootstrap server %s answered %d: %w", server.Addr(), status, errNotReady)
	case errors.As(err, &late) && late.Timeout():
		return fmt.Errorf("cannot use prefill worker, its bootstrap server %s: %w", server.Addr(), err)
	default:
		return fmt.Errorf("cannot use prefill worker, its bootstrap server %s: %w: %w", server.Addr(), errNotReady, err)
	}
}

func (b *bootstrapProbe) close() {
	if b.probe != nil {
		b.probe.client.CloseIdleConnections()
		b.probe = nil
	}
}

// expectation compares a worker's description with its spec.
type expectation struct {
	mode   string // disaggregation_mode by the worker itself
	warned bool   // that the two differ
}

// apply completes a description by the spec, and logs once where the two differ.
func (e *expectation) apply(info *Info, w *Worker, log *slog.Logger) {
	want := *w.spec.Load()
	switch {
	case want.Role == RoleAggregated: // any role
	case info.Mode == "":
		info.Mode = want.Role.mode() // a release without the field
	case info.Role() != want.Role && !e.warned:
		e.warned = true
		log.Warn("worker has another role than it was added with; its own counts", "worker", w.URL, "added_as", want.Role.String(), "says", info.Role().String())
	}
	port, own := want.Bootstrap.Port, info.BootstrapPort
	if port != 0 && info.Role() == RolePrefill && own != 0 && own != port && want.Bootstrap.Host == "" && !e.warned {
		e.warned = true
		log.Warn("prefill worker names another bootstrap port; the given one counts", "worker", w.URL, "given", port, "says", own)
	}
}
