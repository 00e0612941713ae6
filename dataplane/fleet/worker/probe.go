package worker

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/modelfile"
	"github.com/warmpath/warmpath/dataplane/socket"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// errNotReady is a worker that answers its probe and is not ready.
var errNotReady = errors.New("worker: answers, but is not ready")

// errClosedSilently is a closed connection: some servers with TLS, Python's for one, answer
// plain HTTP so.
var errClosedSilently = errors.New("worker closes the connection without an answer: if it speaks TLS, use https://")

// prober asks one worker how it is. It belongs to the worker's monitor
// goroutine.
type prober struct {
	client  *fasthttp.HostClient
	base    string
	path    string // readiness path that this worker has
	timeout time.Duration
	key     func() *Key // of its worker
	conns   *dialer
	files   *modelfile.Reader // of models on this machine; nil reads none

	engine string    // name of a server without a model
	named  time.Time // when that was asked
}

// readyPaths are tried in order; a 404 moves on to the next. /health comes
// nowhere: on SGLang it generates a token and takes a second, /ready takes
// 2 ms. Servers that predate /ready answer /v1/models.
var readyPaths = []string{"/ready", "/v1/models"}

// newProber returns a prober that ends its connections with ctx, so that a hanging worker can be
// removed.
func newProber(ctx context.Context, w *Worker, cfg *Config) *prober {
	p := proberOf(ctx, w.URL, w.Addr, w.TLS, cfg)
	p.key = w.Key
	return p
}

// newWatcher returns a prober that calls w.Doubt when its idle connection ends.
func newWatcher(ctx context.Context, w *Worker, cfg *Config) *prober {
	p := newProber(ctx, w, cfg)
	p.conns.watch = &connWatch{ended: w.Doubt, begun: w.probe.reached}
	return p
}

// proberOf returns a prober of the server at addr, which base is the URL of. It sends no key.
func proberOf(ctx context.Context, base, addr string, settings *tls.Config, cfg *Config) *prober {
	conns := &dialer{end: ctx, tls: settings, timeout: cfg.Timeout, connect: cfg.Dial}
	return &prober{
		key: func() *Key { return noKey }, conns: conns, files: cfg.Files,
		base: base, path: readyPaths[0], timeout: cfg.Timeout,
		client: &fasthttp.HostClient{
			Addr: addr, IsTLS: settings != nil, TLSConfig: settings, Dial: conns.dial,
			// There is one probe at a time, and a timed-out one is closed.
			MaxConns:                 1,
			MaxIdleConnDuration:      10 * time.Second,
			NoDefaultUserAgentHeader: true,
			MaxResponseBodySize:      16 << 20, // server_info of a large deployment is under 100 KB
		},
	}
}

// ready returns nil when the worker is ready.
func (p *prober) ready() error {
	a, err := p.fetch(p.path, p.timeout)
	if err != nil {
		return err
	}
	if a.status == fasthttp.StatusNotFound && p.path == readyPaths[0] {
		p.path = readyPaths[1]
		return p.ready()
	}
	if a.status == fasthttp.StatusNotFound {
		return fmt.Errorf("cannot use worker: %w: %w: it is %s", errNotReady, errForeignServer, p.engineName())
	}
	if refusedKey(a.status) { // not SGLang, or a proxy in front of it
		return fmt.Errorf("cannot use worker, GET %s answered %d: %w: give its API key in --worker-api-key-file", p.path, a.status, errNotReady)
	}
	if a.status != fasthttp.StatusOK {
		// Answers of TLS servers to plain HTTP have no common form, but Go's and nginx's name
		// HTTPS.
		if a.status == fasthttp.StatusBadRequest && bytes.Contains(a.body, []byte("HTTPS")) {
			return fmt.Errorf("cannot use worker, GET %s answered 400: %w: %w", p.path, tlsconfig.ErrTLS, errNotReady)
		}
		return fmt.Errorf("cannot use worker, GET %s answered %d: %w", p.path, a.status, errNotReady)
	}
	return nil
}

// discoverTimeout is longer than a probe's: server_info is gathered from every
// scheduler process of the worker. It is for the whole description.
const discoverTimeout = 5 * time.Second

// discover reads the worker's description.
func (p *prober) discover(patience time.Duration) (*Info, error) {
	deadline := time.Now().Add(patience)
	host, _, _ := net.SplitHostPort(p.client.Addr)
	info := &Info{DPSize: 1}
	var said probeAnswer
	for _, path := range []string{"/server_info", "/get_server_info"} {
		var err error
		if said, err = p.describe(path, deadline); err != nil {
			return nil, err
		}
		if said.status != fasthttp.StatusOK {
			continue
		}
		if said.routed { // it is one of the router's workers, whichever was chosen
			break
		}
		if info, err = parseInfo(said.body, host); err != nil {
			return nil, err
		}
		break
	}
	if said.status != fasthttp.StatusOK || said.routed || !sglang(said.body) {
		info.Engine = p.identifyEngine(said, deadline)
		if !said.routed && refusedKey(said.status) {
			info.Refused = said.status
		}
	}
	served, err := p.models(time.Until(deadline))
	if err == nil {
		info.addNames(served)
	}
	return info, err
}

// models reads GET /v1/models; a worker without it serves nothing by name.
func (p *prober) models(patience time.Duration) (modelNames, error) {
	a, err := p.describe("/v1/models", time.Now().Add(patience))
	if err != nil || a.status != fasthttp.StatusOK {
		return modelNames{}, err
	}
	s, err := parseModels(a.body)
	if err != nil {
		return modelNames{}, nil //nolint:nilerr // some other server's page under this path
	}
	return s, nil
}

// describe gets a part of the description. A server error is not an answer: it passes, while the
// description holds until the worker dies.
func (p *prober) describe(path string, deadline time.Time) (probeAnswer, error) {
	a, err := p.fetch(path, time.Until(deadline))
	if err == nil && a.status >= fasthttp.StatusInternalServerError {
		return probeAnswer{}, fmt.Errorf("cannot use worker, GET %s answered %d: %w", path, a.status, errNotReady)
	}
	return a, err
}

// engineName names a server without a model. It asks now and then only.
func (p *prober) engineName() string {
	if now := time.Now(); p.engine == "" || now.Sub(p.named) >= foreignEvery {
		a, _ := p.fetch("/server_info", p.timeout)
		p.engine, p.named = p.identifyEngine(a, now.Add(p.timeout)), now
	}
	return p.engine
}

func (p *prober) fetch(path string, timeout time.Duration) (probeAnswer, error) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI(p.base + path)
	return p.do(req, resp, timeout)
}

// do sends a request with the worker's key.
func (p *prober) do(req *fasthttp.Request, resp *fasthttp.Response, timeout time.Duration) (probeAnswer, error) {
	if value := p.key().API(); len(value) > 0 {
		req.Header.SetBytesV(fasthttp.HeaderAuthorization, value)
	}
	p.conns.failure.Store(nil)
	p.conns.watch.use(true)
	defer p.conns.watch.use(false)
	if err := p.client.DoTimeout(req, resp, timeout); err != nil {
		said := p.conns.failure.Swap(nil)
		switch {
		case !errors.Is(err, fasthttp.ErrConnectionClosed):
			// Its text is advice for the worker's author.
		case said != nil:
			err = *said
		case p.client.IsTLS:
			err = io.ErrUnexpectedEOF
		default:
			err = errClosedSilently
		}
		return probeAnswer{}, fmt.Errorf("cannot get %s%s: %w", p.base, req.URI().RequestURI(), err)
	}
	return probeAnswer{
		status: resp.StatusCode(), body: bytes.Clone(resp.Body()),
		server: string(resp.Header.Server()), routed: isRouter(resp.Body(), &resp.Header),
	}, nil
}

// timedOut reports whether there was no answer in time.
func timedOut(err error) bool {
	var late interface{ Timeout() bool } // not net.Error, which fasthttp.ErrTimeout is not
	return errors.As(err, &late) && late.Timeout()
}

// refusesTLS reports whether one side does not accept the other's certificate: that may expire, and
// authorities change, while the process lives.
func refusesTLS(err error) bool {
	var ours *tls.CertificateVerificationError
	var theirs *net.OpError // crypto/tls's form of an alert that has come
	return errors.As(err, &ours) || errors.As(err, &theirs) && theirs.Op == "remote error"
}

// classify turns a probe's result into a state. A time-out is Slow, not Dead:
// the process may live, and its cache with it.
func classify(err error) State {
	switch {
	case err == nil:
		return Ready
	case errors.Is(err, errNotReady), refusesTLS(err):
		return Probing
	case timedOut(err), socket.Shortage(err):
		return Slow
	default:
		return Dead
	}
}
