package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/valyala/fasthttp"
)

// bootstrapPath asks for the topology of a prefill worker as a whole. It is 503 until every rank has registered: a decode
// worker that asked before would wait for a rank that is not there. The worker's own /ready says 200 before that.
const bootstrapPath = "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"

// bootstrapped returns nil when decode workers can meet the worker. A bootstrap server that is gone is no death: the
// worker's process lives, and its cache with it.
func (m *monitor) bootstrapped(ctx context.Context) error {
	b := m.w.Bootstrap()
	if addr := b.Addr(); m.boot == nil || m.boot.client.Addr != addr {
		m.closeBoot()
		if addr == m.w.Addr { // SGLang's server in Rust has both on one port
			m.boot = newProber(ctx, m.w, m.cfg)
		} else {
			m.boot = proberOf(ctx, "http://"+addr, addr, nil, m.cfg, nil)
		}
	}
	status, _, err := m.boot.get(bootstrapPath, m.boot.timeout)
	var late interface{ Timeout() bool }
	switch {
	case err == nil && status == fasthttp.StatusOK:
		return nil
	case err == nil:
		return fmt.Errorf("cannot use prefill worker, GET /route of its bootstrap server %s answered %d: %w", b.Addr(), status, errNotReady)
	case errors.As(err, &late) && late.Timeout():
		return fmt.Errorf("cannot use prefill worker, its bootstrap server %s: %w", b.Addr(), err)
	default:
		return fmt.Errorf("cannot use prefill worker, its bootstrap server %s: %w: %w", b.Addr(), errNotReady, err)
	}
}

func (m *monitor) closeBoot() {
	if m.boot != nil {
		m.boot.client.CloseIdleConnections()
		m.boot = nil
	}
}

// compare makes the worker's description whole by what the operator said, and
// tells once where the two differ.
func (m *monitor) compare(info *Info) {
	want, log := *m.w.spec.Load(), m.cfg.Log
	switch {
	case want.Role == RoleAggregated: // nothing was said
	case info.Mode == "":
		info.Mode = want.Role.mode() // a release that does not tell
	case info.Role() != want.Role && !m.warned:
		m.warned = true
		log.Warn("worker is not what it was added as; its own word counts", "worker", m.w.URL, "added as", want.Role.String(), "says", info.Role().String())
	}
	if port := want.Bootstrap.Port; port != 0 && info.Role() == RolePrefill && info.BootstrapPort != 0 && info.BootstrapPort != port && want.Bootstrap.Host == "" && !m.warned {
		m.warned = true
		log.Warn("prefill worker names another bootstrap port; the given one counts", "worker", m.w.URL, "given", port, "says", info.BootstrapPort)
	}
}
