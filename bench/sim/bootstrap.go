package sim

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// bootstrapServer is the side of a prefill worker that decode workers connect to: the bootstrap
// server and the transfers.
type bootstrapServer struct {
	*process
	listener *listener
	kv       *listener // Of transfers.
	table    routeTable
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
			s.register()
		case <-s.ctx.Done():
		}
	})
}

// register enters the worker's own ranks, as SGLang's do once they have loaded.
func (s *bootstrapServer) register() {
	host, port, err := net.SplitHostPort(s.kv.Addr().String())
	n, bad := strconv.Atoi(port)
	if err = errors.Join(err, bad); err != nil {
		s.cfg.Log.Error("cannot register ranks", "error", err)
		return
	}
	for i := range s.cfg.DPSize {
		s.table.put(routeKey{dp: i}, routeEntry{host, n}, topology{dp: s.cfg.DPSize, page: s.cfg.PageSize, tp: 1, cp: 1, pp: 1})
	}
}

// routeTable holds the registered ranks of a prefill worker.
type routeTable struct {
	mu      sync.Mutex
	shape   topology
	entries map[routeKey]routeEntry
	dpRanks map[int64]int // By room, from POST /register_dp_rank.
}

type routeKey struct{ dp, cp, tp, pp int }

type routeEntry struct {
	host string
	port int
}

// topology is that of the first rank; dp is 0 before.
type topology struct{ dp, cp, tp, pp, page int }

func (t *routeTable) put(key routeKey, at routeEntry, shape topology) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entries == nil {
		t.entries, t.shape = make(map[routeKey]routeEntry), shape
	}
	t.entries[key] = at
}

// ready reports whether every rank has registered, and their number.
func (t *routeTable) ready() (shape topology, registered int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.entries)
	return t.shape, n, n > 0 && n >= t.shape.dp*t.shape.cp*t.shape.tp*t.shape.pp
}

func (t *routeTable) get(key routeKey) (routeEntry, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok := t.entries[key]
	return at, ok
}

// serve answers decode workers and routers on the bootstrap port.
func (s *bootstrapServer) serve(ctx *fasthttp.RequestCtx) {
	if !s.faults.awaitUnhang(s.ctx) {
		ctx.SetConnectionClose()
		return
	}
	if s.faults.bootstrapDown.Load() {
		resetConn(ctx.Conn())
		return
	}
	switch path := string(ctx.Path()); {
	case path == "/health" && ctx.IsGet():
		ctx.SetBodyString("OK")
	case path == "/route" && ctx.IsGet():
		s.routeOf(ctx)
	case path == "/route" && ctx.IsPut():
		s.answer(ctx, s.putRoute(ctx.PostBody()))
	case path == "/route":
		ctx.Error("Method not allowed", fasthttp.StatusMethodNotAllowed)
	case path == "/register_dp_rank" && ctx.IsPost():
		s.answer(ctx, s.registerRoom(ctx.PostBody()))
	case path == "/query_dp_ranks" && ctx.IsPost():
		s.queryRooms(ctx)
	default:
		ctx.Error("404: Not Found", fasthttp.StatusNotFound)
	}
}

// answer sends 500 for a body on which aiohttp's handler would raise an exception.
func (s *bootstrapServer) answer(ctx *fasthttp.RequestCtx, err error) {
	if err != nil {
		ctx.Error("500 Internal Server Error\n\nServer got itself in trouble", fasthttp.StatusInternalServerError)
		return
	}
	ctx.SetBodyString("OK")
}

// routeOf serves GET /route: the topology if all parameters are -1, otherwise one rank's address.
func (s *bootstrapServer) routeOf(ctx *fasthttp.RequestCtx) {
	var n [4]int
	for i, name := range []string{"prefill_dp_rank", "prefill_cp_rank", "target_tp_rank", "target_pp_rank"} {
		raw := ctx.QueryArgs().Peek(name)
		v, err := strconv.Atoi(string(raw))
		if len(raw) == 0 {
			ctx.Error("Missing inputs for bootstrap server.", fasthttp.StatusBadRequest)
			return
		}
		if err != nil {
			s.answer(ctx, err)
			return
		}
		n[i] = v
	}
	shape, registered, ok := s.table.ready()
	if !ok || s.faults.bootstrapBusy.Load() {
		ctx.Error(fmt.Sprintf("Prefill server not fully registered yet (%d workers registered).", registered), fasthttp.StatusServiceUnavailable)
		return
	}
	if n == [4]int{-1, -1, -1, -1} {
		_, port, _ := net.SplitHostPort(s.cfg.Listen)
		writeJSON(ctx, fasthttp.StatusOK, []byte(fmt.Sprintf(
			`{"attn_tp_size": %d, "attn_cp_size": %d, "dp_size": %d, "pp_size": %d, "page_size": %d, "kv_cache_dtype": "auto", `+
				`"follow_bootstrap_room": true, "enable_dsa_cache_layer_split": false, "decode_allocation_policy": "early", `+
				`"enable_kv_cache_sharding": false, "prefill_http_port": %s, "target_tp_rank": null, "target_tp_ranks": null, `+
				`"target_cp_ranks": null, "target_pp_ranks": null, "required_dst_info_num": null, "required_prefill_response_num": null}`,
			shape.tp, shape.cp, shape.dp, shape.pp, shape.page, port)))
		return
	}
	at, ok := s.table.get(routeKey{n[0], n[1], n[2], n[3]})
	if !ok {
		ctx.Error(fmt.Sprintf("Bootstrap info not found for dp_rank=%d cp_rank=%d tp_rank=%d pp_rank=%d", n[0], n[1], n[2], n[3]),
			fasthttp.StatusNotFound)
		return
	}
	b := appendJSONString([]byte(`{"rank_ip": `), at.host)
	writeJSON(ctx, fasthttp.StatusOK, append(appendInt(append(b, `, "rank_port": `...), at.port), '}'))
}

// putRoute enters a rank that registers itself.
func (s *bootstrapServer) putRoute(body []byte) error {
	o, err := parseObject(body)
	if err != nil {
		return err
	}
	var n [11]int
	for i, key := range []string{
		"attn_dp_rank", "attn_cp_rank", "attn_tp_rank", "pp_rank", "attn_dp_size", "attn_cp_size", "attn_tp_size", "pp_size",
		"page_size", "rank_port", "system_dp_size",
	} {
		if n[i], err = o.number(key, -1); err != nil || n[i] < 0 {
			return errors.Join(errJSON, err)
		}
	}
	if n[10] != 1 { // Ranks of the whole system, not of attention.
		n[4] = n[10]
		if n[0], err = o.number("system_dp_rank", -1); err != nil || n[0] < 0 {
			return errors.Join(errJSON, err)
		}
	}
	host, err := o.text("rank_ip", "")
	if err != nil || host == "" {
		return errors.Join(errJSON, err)
	}
	s.table.put(routeKey{n[0], n[1], n[2], n[3]}, routeEntry{host, n[9]}, topology{dp: n[4], cp: n[5], tp: n[6], pp: n[7], page: n[8]})
	return nil
}

// registerRoom serves POST /register_dp_rank.
func (s *bootstrapServer) registerRoom(body []byte) error {
	o, err := parseObject(body)
	if err != nil {
		return err
	}
	list, _, err := wholeNumbers(o, "bootstrap_room", -1)
	if err != nil || len(list) != 1 {
		return errors.Join(errJSON, err)
	}
	rank, err := o.number("dp_rank", -1)
	if err != nil {
		return err
	}
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if s.table.dpRanks == nil || len(s.table.dpRanks) >= maxUsedRooms {
		s.table.dpRanks = make(map[int64]int)
	}
	s.table.dpRanks[list[0]] = rank
	return nil
}

// queryRooms serves POST /query_dp_ranks.
func (s *bootstrapServer) queryRooms(ctx *fasthttp.RequestCtx) {
	o, err := parseObject(ctx.PostBody())
	var list []int64
	if err == nil {
		list, _, err = wholeNumbers(o, "bootstrap_rooms", -1)
	}
	if err != nil {
		s.answer(ctx, err)
		return
	}
	b := []byte{'{'}
	s.table.mu.Lock()
	for _, room := range list {
		if rank, ok := s.table.dpRanks[room]; ok {
			if len(b) > 1 {
				b = append(b, ", "...)
			}
			b = append(strconv.AppendInt(append(b, '"'), room, 10), `": `...)
			b = appendInt(b, rank)
		}
	}
	s.table.mu.Unlock()
	writeJSON(ctx, fasthttp.StatusOK, append(b, '}'))
}
