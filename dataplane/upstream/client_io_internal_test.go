package upstream

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// deadlineConn has a byte to read at any time before its deadline, and counts how often it was told of one.
type deadlineConn struct {
	net.Conn
	deadline time.Time
	told     int
}

func (c *deadlineConn) SetReadDeadline(t time.Time) error {
	c.deadline = t
	c.told++
	return nil
}

func (c *deadlineConn) Read(p []byte) (int, error) {
	if !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		return 0, &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	}
	p[0] = 'x'
	return 1, nil
}

func TestClientDeadline(t *testing.T) {
	past, soon, late := -time.Second, time.Minute, time.Hour
	const none = time.Duration(0)
	tests := []struct {
		name    string
		asked   []time.Duration // from now, one after the other
		told    int             // before the read
		timeout bool
	}{
		{"none", nil, 0, false},
		{"one", []time.Duration{soon}, 1, false},
		{"passed", []time.Duration{past}, 1, true},
		{"passed, then none", []time.Duration{past, none}, 1, false},
		{"passed, then later", []time.Duration{past, late}, 1, false},
		{"later, then passed", []time.Duration{late, past}, 2, true},
		{"none, then passed", []time.Duration{none, past}, 1, true},
		{"for each request", []time.Duration{soon, none, soon, none, late, none, soon + 1}, 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &deadlineConn{}
			cl, now := &Client{Conn: c}, time.Now()
			for _, d := range tt.asked {
				at := now.Add(d)
				if d == none {
					at = time.Time{}
				}
				if err := cl.SetReadDeadline(at); err != nil {
					t.Fatal(err)
				}
			}
			if c.told != tt.told {
				t.Errorf("the connection was told %d times, want %d", c.told, tt.told)
			}
			n, err := cl.Read(make([]byte, 1))
			if timeout := errors.Is(err, os.ErrDeadlineExceeded); timeout != tt.timeout || (n == 1) == tt.timeout {
				t.Errorf("Read = %d %v, want a timeout: %v", n, err, tt.timeout)
			}
		})
	}
}
