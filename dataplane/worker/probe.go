package worker

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// errNotReady is a worker that answers and says that it is not ready.
var errNotReady = errors.New("worker: answers, but is not ready")

// prober asks one worker how it is. It belongs to the worker's monitor
// goroutine.
type prober struct {
	client  *fasthttp.HostClient
	base    string
	path    string // readiness path that this worker has
	timeout time.Duration
}

// readyPaths are tried in order; a 404 moves on to the next. /health comes
// nowhere: on SGLang it generates a token and takes a second, /ready takes
// 2 ms. Servers that predate /ready answer /v1/models.
var readyPaths = []string{"/ready", "/v1/models"}

func newProber(w *Worker, timeout time.Duration) *prober {
	return &prober{
		base: w.URL, path: readyPaths[0], timeout: timeout,
		client: &fasthttp.HostClient{
			Addr: w.Addr, IsTLS: w.TLS != nil, TLSConfig: w.TLS, MaxConns: 2,
			Dial:                          func(addr string) (net.Conn, error) { return net.DialTimeout("tcp", addr, timeout) },
			MaxIdleConnDuration:           10 * time.Second,
			NoDefaultUserAgentHeader:      true,
			DisableHeaderNamesNormalizing: false,
			MaxResponseBodySize:           16 << 20, // server_info of a large deployment is under 100 KB
		},
	}
}

// ready returns nil when the worker says that it is ready.
func (p *prober) ready() error {
	status, _, err := p.get(p.path, p.timeout)
	if err != nil {
		return err
	}
	if status == fasthttp.StatusNotFound && p.path == readyPaths[0] {
		p.path = readyPaths[1]
		return p.ready()
	}
	if status != fasthttp.StatusOK {
		return fmt.Errorf("cannot use worker, GET %s answered %d: %w", p.path, status, errNotReady)
	}
	return nil
}

// discoverTimeout is longer than a probe's: server_info is gathered from every
// scheduler process of the worker.
const discoverTimeout = 5 * time.Second

// discover reads what the worker says of itself.
func (p *prober) discover() (*Info, error) {
	host, _, _ := net.SplitHostPort(p.client.Addr)
	info := &Info{DPSize: 1}
	for _, path := range []string{"/server_info", "/get_server_info"} {
		status, body, err := p.get(path, discoverTimeout)
		if err != nil {
			return nil, err
		}
		if status != fasthttp.StatusOK {
			continue
		}
		if info, err = parseInfo(body, host); err != nil {
			return nil, err
		}
		break
	}
	status, body, err := p.get("/v1/models", discoverTimeout)
	if err != nil {
		return nil, err
	}
	if status != fasthttp.StatusOK {
		return info, nil
	}
	if models, err := parseModels(body); err == nil && len(models) > 0 {
		info.Models = models
	}
	return info, nil
}

func (p *prober) get(path string, timeout time.Duration) (status int, body []byte, err error) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI(p.base + path)
	if err := p.client.DoTimeout(req, resp, timeout); err != nil {
		return 0, nil, fmt.Errorf("cannot get %s%s: %w", p.base, path, err)
	}
	return resp.StatusCode(), append([]byte(nil), resp.Body()...), nil
}

// classify turns a probe's result into a state. A time-out is Slow, not Dead:
// the process may live, and its cache with it.
func classify(err error) State {
	var ne net.Error
	switch {
	case err == nil:
		return Ready
	case errors.Is(err, errNotReady):
		return Probing
	case errors.Is(err, fasthttp.ErrTimeout), errors.Is(err, fasthttp.ErrDialTimeout):
		return Slow
	case errors.As(err, &ne) && ne.Timeout():
		return Slow
	default:
		return Dead
	}
}
