package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fastjson"
)

// ErrNotWorker is a server that answers, and not as an SGLang worker does.
var ErrNotWorker = errors.New("worker: not an SGLang worker")

// ErrKeyRefused is a server that describes itself to those who have its API key.
var ErrKeyRefused = fmt.Errorf("%w as far as it tells", ErrNotWorker)

// Placement is where on its machine a worker runs, by its own arguments; zero fields are unknown.
type Placement struct {
	Port    int    // that it serves on, before any mapping of ports
	Device  string // cuda, cpu, …
	PPSize  int    // pipeline stages
	Nodes   int    // machines that it spans; this one has an equal part of its GPUs
	BaseGPU int    // its first GPU among the visible ones
	GPUStep int    // from one GPU to the next
	// Data-parallel ranks share the tensor-parallel GPUs instead of having their own.
	DPAttention bool
}

func parsePlacement(v *fastjson.Value) Placement {
	return Placement{
		Port: within(v.GetInt("port"), maxPort), Device: string(v.GetStringBytes("device")),
		PPSize: within(v.GetInt("pp_size"), maxDP), Nodes: within(v.GetInt("nnodes"), maxDP),
		BaseGPU: within(v.GetInt("base_gpu_id"), maxDP), GPUStep: within(v.GetInt("gpu_id_step"), maxDP),
		DPAttention: v.GetBool("enable_dp_attention"),
	}
}

const (
	// maxIdentity bounds the answer of an unknown server; a worker's server_info is under 100
	// KB.
	maxIdentity = 4 << 20
	// identityAgent explains the question in the log of a server that is no worker.
	identityAgent = "warmpath-node"
	// routedHeader is in each answer that a Warmpath router passes on from a worker.
	routedHeader = "X-Warmpath-Worker"
)

// Identify asks the server at url once whether it is an SGLang worker, and for its description.
// It is gentle with other servers: one request on one connection, and a second one only to HTTP
// servers without /server_info, which SGLang before 0.5 lacks too. ErrNotWorker means that the
// server answered and will not become a worker by waiting; other errors may pass. Of cfg,
// Timeout, TLS, Dial and Key are used.
func Identify(ctx context.Context, url string, cfg Config) (*Info, error) {
	cfg.setDefaults()
	w, err := newWorker(Spec{URL: url}, cfg.TLS)
	if err != nil {
		return nil, err
	}
	foreign := new(atomic.Bool)
	dial := dialer{end: ctx, tls: w.TLS, timeout: cfg.Timeout, connect: foreignDial(cfg.Dial, w.TLS != nil, foreign), failure: new(tlsFailure)}
	client := &fasthttp.HostClient{
		Addr: w.Addr, IsTLS: w.TLS != nil, TLSConfig: w.TLS, Dial: dial.dial, Name: identityAgent,
		MaxConns: 1, MaxIdemponentCallAttempts: 1, MaxResponseBodySize: maxIdentity,
		// Its cleaner sleeps so long after the connection is closed.
		MaxIdleConnDuration: 50 * time.Millisecond,
	}
	defer client.CloseIdleConnections()
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	for _, path := range []string{"/server_info", "/get_server_info"} {
		req.SetRequestURI(w.URL + path)
		authorize(req, cfg.Key(w.URL))
		if err := client.DoTimeout(req, resp, cfg.Timeout); err != nil {
			if foreign.Load() {
				err = errForeign
			}
			return nil, classifyRefusal(ctx, w.URL+path, err)
		}
		if resp.StatusCode() != fasthttp.StatusNotFound {
			break
		}
	}
	return identity(w, resp, cfg.Key(w.URL))
}

// errForeign is a listener of another protocol: ZMQ and NATS greet first, and then wait for an
// answer that never comes.
var errForeign = errors.New("it does not speak HTTP")

// foreignDial notes first bytes that are not HTTP's. Under TLS they are not visible.
func foreignDial(connect func(context.Context, string, string) (net.Conn, error), encrypted bool, foreign *atomic.Bool) func(context.Context, string, string) (net.Conn, error) {
	if encrypted {
		return connect
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := connect(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &httpCheckConn{Conn: conn, foreign: foreign}, nil
	}
}

// httpCheckConn checks the first bytes of a connection.
type httpCheckConn struct {
	net.Conn
	foreign *atomic.Bool
	heard   bool
}

// Read implements net.Conn.
func (g *httpCheckConn) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if n > 0 && !g.heard {
		g.heard = true
		if word := "HTTP/"[:min(n, 5)]; string(p[:len(word)]) != word {
			g.foreign.Store(true)
			return 0, errForeign
		}
	}
	return n, err
}

// classifyRefusal tells silence, which may pass, from an answer that no HTTP server gives.
func classifyRefusal(ctx context.Context, url string, err error) error {
	var late interface{ Timeout() bool }
	var op *net.OpError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &late) && late.Timeout(), errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("cannot get %s: %w", url, err)
	default:
		return fmt.Errorf("cannot get %s: %w: %w", url, ErrNotWorker, err)
	}
}

// identity reads the answer. The fields that every release of SGLang has are enough: a model,
// and the page size or the tensor-parallel size.
func identity(w *Worker, resp *fasthttp.Response, key *Key) (*Info, error) {
	if status := resp.StatusCode(); status >= fasthttp.StatusInternalServerError {
		// It is starting.
		return nil, fmt.Errorf("cannot use %s, GET /server_info answered %d: %w", w.URL, status, errNotReady)
	} else if isRouter(resp.Body(), &resp.Header) {
		return nil, fmt.Errorf("%s is a router: %w", w.URL, ErrNotWorker)
	} else if refusedKey(status) {
		return nil, fmt.Errorf("%w: %s is %s", ErrKeyRefused, w.URL, keyRefusal(status, key))
	} else if status != fasthttp.StatusOK {
		return nil, fmt.Errorf("%s answered GET /server_info with %d: %w", w.URL, status, ErrNotWorker)
	}
	v, err := fastjson.ParseBytes(resp.Body())
	if err != nil || len(v.GetStringBytes("model_path")) == 0 || (v.Get("page_size") == nil && v.Get("tp_size") == nil) {
		return nil, fmt.Errorf("%s answered GET /server_info with something else: %w", w.URL, ErrNotWorker)
	}
	info, err := parseInfo(resp.Body(), w.host)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotWorker, err)
	}
	return info, nil
}

// IdentifyTimeout is enough for a worker with busy schedulers: each of them contributes to
// server_info.
const IdentifyTimeout = 2 * time.Second
