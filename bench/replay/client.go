package replay

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
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

// client sends requests over connections of its own. It exists because every general client
// either parses more than a replay needs or cannot be interrupted before an answer's header.
type client struct {
	addr string // host:port
	tls  *tls.Config
	head []byte // request line and headers, up to the length of the body

	mu   sync.Mutex
	idle []*conn // guarded by mu
}

// conn is one connection. The goroutine of its request owns it.
type conn struct {
	net.Conn
	in     *bufio.Reader
	header fasthttp.ResponseHeader
	reused bool
}

func newClient(base string, api API) (*client, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("cannot use %q: %w: %w", base, ErrURL, err)
	}
	c := &client{addr: u.Host}
	port := u.Port()
	switch u.Scheme {
	case "http":
		port = orElse(port, "80")
	case "https":
		port = orElse(port, "443")
		c.tls = &tls.Config{ServerName: u.Hostname()}
	default:
		return nil, fmt.Errorf("cannot use %q: %w: want http://host:port or https://host:port", base, ErrURL)
	}
	if u.Hostname() == "" {
		return nil, fmt.Errorf("cannot use %q: %w: no host", base, ErrURL)
	}
	c.addr = net.JoinHostPort(u.Hostname(), port)
	path := string(bytes.TrimRight([]byte(u.Path), "/")) + api.path()
	c.head = fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: ", path, u.Host)
	return c, nil
}

func orElse(s, other string) string {
	if s != "" {
		return s
	}
	return other
}

// do sends one request, with a further header line or none, gives every byte of its answer to the
// events as it comes, and returns the answer's header, which is valid until release. It ends at
// once when ctx does.
func (c *client) do(ctx context.Context, header string, body []byte, e *events) (*conn, error) {
	for {
		k, err := c.get(ctx)
		if err != nil {
			return nil, err
		}
		err = c.exchange(ctx, k, header, body, e)
		if err == nil {
			return k, nil
		}
		k.Close()
		// A kept connection may have been closed by the server just now: nothing was answered,
		// so another is tried.
		if ctx.Err() == nil && k.reused && errors.Is(err, errNoAnswer) {
			continue
		}
		return nil, err
	}
}

// errNoAnswer is a connection that ended before the first byte of an answer.
var errNoAnswer = errors.New("replay: no answer")

func (c *client) exchange(ctx context.Context, k *conn, header string, body []byte, e *events) error {
	stop := context.AfterFunc(ctx, func() { _ = k.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	head := append(strconv.AppendInt(append(make([]byte, 0, 256), c.head...), int64(len(body)), 10), "\r\n"+header+"\r\n"...)
	out := net.Buffers{head, body}
	if _, err := out.WriteTo(k.Conn); err != nil {
		return fmt.Errorf("%w: cannot send: %w", errNoAnswer, err)
	}
	if _, err := k.in.Peek(1); err != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	if err := k.header.Read(k.in); err != nil {
		return fmt.Errorf("cannot read the answer's header: %w", err)
	}
	in := newBody(k.in, &k.header)
	if status := k.header.StatusCode(); status != fasthttp.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(in, maxRefusal))
		return fmt.Errorf("%w: status %d: %s", ErrAnswer, status, bytes.TrimSpace(text))
	}
	buf := make([]byte, readBuffer)
	for {
		n, err := in.Read(buf)
		if n > 0 {
			e.write(buf[:n], time.Now())
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the answer breaks off: %w", err)
		}
	}
}

// get takes an idle connection or dials.
func (c *client) get(ctx context.Context) (*conn, error) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		k := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		k.reused = true
		return k, nil
	}
	c.mu.Unlock()
	dialer := net.Dialer{Timeout: dialTimeout}
	var raw net.Conn
	var err error
	if c.tls == nil {
		raw, err = dialer.DialContext(ctx, "tcp", c.addr)
	} else {
		raw, err = (&tls.Dialer{NetDialer: &dialer, Config: c.tls}).DialContext(ctx, "tcp", c.addr)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot connect: %w", err)
	}
	return &conn{Conn: raw, in: bufio.NewReaderSize(raw, readBuffer)}, nil
}

// release gives a connection back after a whole answer.
func (c *client) release(k *conn) {
	if k.header.ConnectionClose() || k.header.ContentLength() == untilClose {
		k.Close()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, k)
}

// close ends the idle connections, after the last request.
func (c *client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.idle {
		k.Close()
	}
	c.idle = nil
}
