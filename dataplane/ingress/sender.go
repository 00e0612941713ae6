package ingress

import (
	"errors"
	"math"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// stallLooks is how often a waiting write looks for progress within the time of a stall, which is
// found late by that share of it.
const stallLooks = 8

// sender writes to the socket of a client, below TLS. A write waits for as long as the client
// takes bytes, however slowly, and ends when it has taken none for the time of a stall.
//
// A socket with a large buffer is writable again only once a third of it is free: a client that
// takes 10 KB a second from 4 MB would look stalled for minutes. The bytes that the client has
// confirmed tell the truth.
type sender struct {
	nc      net.Conn
	stall   time.Duration
	untaken func() int // bytes that were written and that the client has not confirmed
	stalled func()     // ends the connection

	// others is set once somebody else has set a deadline for writes: TLS for its last message, a
	// linger.
	others atomic.Bool
}

// Write writes all of p.
func (s *sender) Write(p []byte) (int, error) {
	n, err := writeSome(s.nc, p)
	if err != nil || n == len(p) {
		return n, err
	}
	if s.others.Load() {
		m, err := s.nc.Write(p[n:])
		return n + m, err
	}
	return s.wait(p, n)
}

// wait writes the rest of p behind the n bytes that the socket has taken at once.
func (s *sender) wait(p []byte, n int) (int, error) {
	taken, progress := math.MinInt, time.Now()
	for {
		if err := s.nc.SetWriteDeadline(time.Now().Add(s.stall / stallLooks)); err != nil {
			return n, err
		}
		m, err := s.nc.Write(p[n:])
		n += m
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || s.others.Load() {
			return n, err
		}
		switch t, now := n-s.untaken(), time.Now(); {
		case t > taken:
			taken, progress = t, now
		case now.Sub(progress) >= s.stall:
			s.stalled()
			return n, errStalled
		}
	}
}

// cutStalled ends the connection of a client that takes nothing. Such a client has left, and what
// it has not taken need not wait for it in the kernel.
func cutStalled(cl *Client) {
	cl.s.cfg.Closed(ReasonStalled)
	cl.left()
	if tcp := tcpBelow(cl.tcp); tcp != nil {
		_ = tcp.SetLinger(0)
	}
	cl.cut()
}
