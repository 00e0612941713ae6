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
	w, err := newWorker(Spec{URL: url}, cfg.TLS, new(numbers))
	if err != nil {
		return nil, err
	}
	w.key.Store(cfg.Key(w.URL))
	p := newProber(ctx, w, &cfg)
	foreign := new(atomic.Bool)
	p.conns.foreign = foreign
	p.client.Name, p.client.MaxIdemponentCallAttempts, p.client.MaxResponseBodySize = identityAgent, 1, maxIdentity
	// Its cleaner sleeps so long after the connection is closed.
	p.client.MaxIdleConnDuration = 50 * time.Millisecond
	defer p.client.CloseIdleConnections()
	var a probeAnswer
	for _, path := range []string{"/server_info", "/get_server_info"} {
		if a, err = p.fetch(path, cfg.Timeout); err != nil {
			if foreign.Load() {
				err = fmt.Errorf("cannot get %s%s: %w", w.URL, path, errForeign)
			}
			return nil, classifyRefusal(ctx, err)
		}
		if a.status != fasthttp.StatusNotFound {
			break
		}
	}
	return identity(w, &a)
}

// errForeign is a listener of another protocol: ZMQ and NATS greet first, and then wait for an
// answer that never comes.
var errForeign = errors.New("it does not speak HTTP")

// classifyRefusal tells silence, which may pass, from an answer that no HTTP server gives.
func classifyRefusal(ctx context.Context, err error) error {
	var op *net.OpError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case timedOut(err), errors.As(err, &op) && op.Op == "dial":
		return err
	default:
		return fmt.Errorf("%w: %w", ErrNotWorker, err)
	}
}

// identity reads the answer. The fields that every release of SGLang has are enough: a model,
// and the page size or the tensor-parallel size.
func identity(w *Worker, a *probeAnswer) (*Info, error) {
	switch {
	case a.status >= fasthttp.StatusInternalServerError: // it is starting
		return nil, fmt.Errorf("cannot use %s, GET /server_info answered %d: %w", w.URL, a.status, errNotReady)
	case a.routed:
		return nil, fmt.Errorf("%s is a router: %w", w.URL, ErrNotWorker)
	case refusedKey(a.status):
		return nil, fmt.Errorf("%w: %s is %s", ErrKeyRefused, w.URL, keyRefusal(a.status, w.Key()))
	case a.status != fasthttp.StatusOK:
		return nil, fmt.Errorf("%s answered GET /server_info with %d: %w", w.URL, a.status, ErrNotWorker)
	}
	v, err := fastjson.ParseBytes(a.body)
	if err != nil || len(v.GetStringBytes("model_path")) == 0 || (v.Get("page_size") == nil && v.Get("tp_size") == nil) {
		return nil, fmt.Errorf("%s answered GET /server_info with something else: %w", w.URL, ErrNotWorker)
	}
	info, err := parseInfo(a.body, w.host)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotWorker, err)
	}
	return info, nil
}

// IdentifyTimeout is enough for a worker with busy schedulers: each of them contributes to
// server_info.
const IdentifyTimeout = 2 * time.Second
