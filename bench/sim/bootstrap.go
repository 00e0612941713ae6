package sim

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// bootstrapServer is the side of a prefill worker that decode workers connect to: the bootstrap
// server and the transfers.
type bootstrapServer struct {
	*process
	listener *listener
	kv       *listener   // Of transfers.
	ready    atomic.Bool // The ranks have registered, as SGLang's do once they have loaded.
	rooms    *roomTable
}

// newBootstrapServer binds both ports and writes the bootstrap port into the configuration.
func newBootstrapServer(p *process) (*bootstrapServer, error) {
	host, _, err := net.SplitHostPort(p.cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("cannot use listen address %q: %w", p.cfg.Listen, err)
	}
	boot, err := listen(net.JoinHostPort(host, strconv.Itoa(p.cfg.BootstrapPort)))
	if err != nil {
		return nil, fmt.Errorf("cannot listen for decode workers: %w", err)
	}
	kv, err := listen(net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("cannot listen for transfers: %w", errors.Join(err, boot.Close()))
	}
	p.cfg.BootstrapPort = boot.Addr().(*net.TCPAddr).Port
	return &bootstrapServer{process: p, listener: newListener(boot), kv: newListener(kv), rooms: newRoomTable()}, nil
}

// kill closes both ports and resets their connections.
func (s *bootstrapServer) kill() {
	s.listener.kill()
	s.kv.kill()
}

// start serves decode workers, once the ranks have registered.
func (s *bootstrapServer) start() {
	s.wg.Go(s.serveTransfers)
	server := &fasthttp.Server{
		Handler: s.serve, Name: "aiohttp", Logger: discardLog{}, MaxIdleWorkerDuration: idleWorker,
	}
	s.wg.Go(func() {
		if err := server.Serve(s.listener); err != nil && s.ctx.Err() == nil {
			s.cfg.Log.Error("bootstrap server ended", "error", err)
		}
	})
	s.wg.Go(func() {
		t := time.NewTimer(s.cfg.real(s.cfg.BootstrapDelay))
		defer t.Stop()
		select {
		case <-t.C:
			s.ready.Store(true)
		case <-s.ctx.Done():
		}
	})
}

// serve answers decode workers and routers on the bootstrap port.
func (s *bootstrapServer) serve(ctx *fasthttp.RequestCtx) {
	if !s.faults.awaitUnhang(s.ctx) {
		ctx.SetConnectionClose()
		return
	}
	if s.faults.state().bootstrapDown {
		resetConn(ctx.Conn())
		return
	}
	switch path := string(ctx.Path()); {
	case path == "/health" && ctx.IsGet():
		ctx.SetBodyString("OK")
	case path == "/route" && ctx.IsGet():
		s.routeOf(ctx)
	default:
		ctx.Error("404: Not Found", fasthttp.StatusNotFound)
	}
}

// routeOf serves GET /route: the topology if all parameters are -1, otherwise one rank's address.
func (s *bootstrapServer) routeOf(ctx *fasthttp.RequestCtx) {
	var n [4]int
	for i, name := range []string{"prefill_dp_rank", "prefill_cp_rank", "target_tp_rank", "target_pp_rank"} {
		var err error
		if n[i], err = strconv.Atoi(string(ctx.QueryArgs().Peek(name))); err != nil {
			ctx.Error("Missing inputs for bootstrap server.", fasthttp.StatusBadRequest)
			return
		}
	}
	switch {
	case !s.ready.Load() || s.faults.state().bootstrapBusy:
		ctx.Error("Prefill server not fully registered yet (0 workers registered).", fasthttp.StatusServiceUnavailable)
	case n == [4]int{-1, -1, -1, -1}:
		_, port, _ := net.SplitHostPort(s.cfg.Listen)
		writeJSON(ctx, fasthttp.StatusOK, fmt.Appendf(nil,
			`{"attn_tp_size": 1, "attn_cp_size": 1, "dp_size": %d, "pp_size": 1, "page_size": %d, "kv_cache_dtype": "auto", `+
				`"follow_bootstrap_room": true, "enable_dsa_cache_layer_split": false, "decode_allocation_policy": "early", `+
				`"enable_kv_cache_sharding": false, "prefill_http_port": %s, "target_tp_rank": null, "target_tp_ranks": null, `+
				`"target_cp_ranks": null, "target_pp_ranks": null, "required_dst_info_num": null, "required_prefill_response_num": null}`,
			s.cfg.DPSize, s.cfg.PageSize, port))
	case n[0] < 0 || n[0] >= s.cfg.DPSize || n[1] != 0 || n[2] != 0 || n[3] != 0:
		ctx.Error(fmt.Sprintf("Bootstrap info not found for dp_rank=%d cp_rank=%d tp_rank=%d pp_rank=%d", n[0], n[1], n[2], n[3]), fasthttp.StatusNotFound)
	default:
		host, port, _ := net.SplitHostPort(s.kv.Addr().String())
		writeJSON(ctx, fasthttp.StatusOK, fmt.Appendf(nil, `{"rank_ip": "%s", "rank_port": %s}`, host, port))
	}
}
