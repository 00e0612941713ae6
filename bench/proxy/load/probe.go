package load

import (
	"context"
	"fmt"
	"net"
	"time"
)

// Probe sends one small prompt to addr and returns nil for a good answer.
func Probe(ctx context.Context, addr string, a API) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConnect, err)
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	cfg := Config{Targets: []string{addr}, API: a, Size: minSize, Tokens: 1, Connections: 1, Time: 1, Seed: uint64(time.Now().UnixNano())}
	if err := cfg.normal(); err != nil {
		return err
	}
	body := newWriter(&cfg).unique(nil)
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		a.path(), addr, len(body), body)
	if _, err := c.Write(request); err != nil {
		return fmt.Errorf("cannot send: %w", err)
	}
	return read(c, &cfg)
}

// read reads one answer and checks it.
func read(c net.Conn, cfg *Config) error {
	var r response
	var b []byte
	buf := make([]byte, 16<<10)
	for !r.ended {
		n, err := c.Read(buf)
		if err != nil {
			return fmt.Errorf("cannot read an answer: %w", err)
		}
		b = append(b, buf[:n]...)
		used, err := r.feed(b)
		if err != nil {
			return err
		}
		b = b[used:]
	}
	if r.status != statusOK {
		return fmt.Errorf("status %d: %.200s", r.status, r.body)
	}
	return r.check(cfg.Stream, cfg.Tokens, nil)
}
