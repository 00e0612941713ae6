package request

import (
	"errors"
	"net"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// probeTimeout bounds the wait for a probe of a worker that accepts connections.
const probeTimeout = time.Second

// died reports whether an attempt failed as it does when an engine dies. A hang is one way: the
// HTTP process of SGLang 0.5.23 answers nothing when its scheduler has died, and ends 5 s later, or
// 65 s where it waits for a dump of the GPU.
func died(err error) bool {
	return errors.Is(err, upstream.ErrNoResponse) || errors.Is(err, upstream.ErrTruncated) ||
		errors.Is(err, errHung)
}

// isGone reports whether a worker that has lost a connection is gone: it accepts no connection, or
// its probe finds it unfit. Where no probe ends in time the worker is gone if a request found it
// hung.
func isGone(w *worker.Worker, hung bool) bool {
	conn, err := net.DialTimeout("tcp", w.Addr, probeTimeout)
	if err != nil {
		return true
	}
	_ = conn.Close()
	for end := time.Now().Add(probeTimeout); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		switch w.State() {
		case worker.Dead, worker.Probing:
			return true
		case worker.Ready, worker.Draining:
			return false
		}
	}
	return hung
}
