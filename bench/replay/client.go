package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// ErrURL is a server's address that the client cannot use.
var ErrURL = errors.New("replay: bad URL")

const (
	dialTimeout = 10 * time.Second
	// Answers are streams of small events; one read takes all that have come.
	readBuffer = 16 << 10
	// Of a refusal, enough to see its reason.
	maxRefusal = 4 << 10
)

// client sends requests to one server, each over a connection of its own.
type client struct {
	http *http.Client
	url  string // of the endpoint
}

func newClient(base string, api API) (*client, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot use %q: %w: %w", base, ErrURL, err)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("cannot use %q: %w: want http://host:port or https://host:port", base, ErrURL)
	case u.Hostname() == "":
		return nil, fmt.Errorf("cannot use %q: %w: no host", base, ErrURL)
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	return &client{
		url: strings.TrimRight(u.Scheme+"://"+u.Host+u.Path, "/") + api.path(),
		http: &http.Client{Transport: &http.Transport{
			MaxIdleConnsPerHost: 1 << 16, ReadBufferSize: readBuffer, DisableCompression: true,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := dialer.DialContext(ctx, network, addr)
				if err != nil {
					return nil, fmt.Errorf("cannot connect: %w", err)
				}
				return c, nil
			},
		}},
	}, nil
}

// do sends one request, gives every byte of its answer to the events as it comes, and returns the
// answer's header. It ends at once when ctx does. After an error body may still be in use.
func (c *client) do(ctx context.Context, session sessionField, name string, body []byte, e *events) (http.Header, error) {
	header := http.Header{"Content-Type": {"application/json"}}
	if session.name != "" && name != "" {
		header[session.name] = []string{name}
	}
	resp, err := c.send(ctx, header, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
		return nil, fmt.Errorf("%w: status %d: %s", ErrAnswer, resp.StatusCode, bytes.TrimSpace(text))
	}
	buf := make([]byte, readBuffer)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			e.write(buf[:n], time.Now())
		}
		if errors.Is(err, io.EOF) {
			return resp.Header, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the answer breaks off: %w", err)
		}
	}
}

// send returns an answer that has begun. A kept connection may have been closed by the server just
// now: where nothing was answered, another is tried.
func (c *client) send(ctx context.Context, header http.Header, body []byte) (*http.Response, error) {
	for {
		var reused, answered atomic.Bool
		watched := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn:              func(i httptrace.GotConnInfo) { reused.Store(i.Reused) },
			GotFirstResponseByte: func() { answered.Store(true) },
		})
		req, err := http.NewRequestWithContext(watched, http.MethodPost, c.url, bytes.NewReader(body))
		if err != nil {
			return nil, fmt.Errorf("cannot make a request: %w", err)
		}
		req.Header = header
		resp, err := c.http.Do(req)
		if err == nil || !reused.Load() || answered.Load() || ctx.Err() != nil {
			return resp, err //nolint:wrapcheck // it names the URL and the cause
		}
	}
}
