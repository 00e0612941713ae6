package upstream

import (
	"bytes"
	"errors"
	"io"
	"net"
	"time"
)

// bytesConn is a connection whose worker has sent in and closed. It gives at most step bytes
// per read.
type bytesConn struct {
	in   *bytes.Reader
	step int
}

func (c *bytesConn) Read(p []byte) (int, error) {
	if c.step > 0 && len(p) > c.step {
		p = p[:c.step]
	}
	return c.in.Read(p)
}
func (c *bytesConn) Write(p []byte) (int, error)      { return len(p), nil }
func (c *bytesConn) Close() error                     { return nil }
func (c *bytesConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *bytesConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *bytesConn) SetDeadline(time.Time) error      { return nil }
func (c *bytesConn) SetReadDeadline(time.Time) error  { return nil }
func (c *bytesConn) SetWriteDeadline(time.Time) error { return nil }

// ReadAnswer reads the answer in; half of the inputs go through next, half through Read. rest
// counts the bytes behind it.
func (t *Transport) ReadAnswer(in []byte, method string, step int) (status int, body []byte, rest int, err error) {
	nc := &bytesConn{bytes.NewReader(in), step}
	req := &Request{Method: []byte(method), Path: []byte("/")}
	r, err := t.roundTrip(nil, newConn(nc, nc, &Target{}, &t.readers), req)
	if err != nil {
		return 0, nil, 0, err
	}
	defer r.Close()
	r.keep = false // The connection is of no use to others.
	if step%2 == 0 {
		body, err = io.ReadAll(r)
		return r.Status, body, nc.in.Len(), err
	}
	for {
		p, err := r.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return r.Status, body, nc.in.Len(), err
		}
		body = append(body, p...)
	}
}

// Targets returns the number of targets that the Transport knows.
func (t *Transport) Targets() int { return len(t.lists("")) }
