package selfcheck

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/warmpath/warmpath/dataplane/request/accesslog"
)

const (
	// maxPending bounds the entries on their way into the history: the pauses of a busy machine at
	// 5,000 requests/s. They keep at most 16 MiB, and only of prompts of 131,072 tokens.
	maxPending = 256
	// maxKeptIDs bounds the memory that an entry keeps for its next user, as in accesslog.
	maxKeptIDs = 8192
)

// recorder takes answered requests into the history.
type recorder struct {
	on      atomic.Bool
	free    chan *accesslog.Entry
	full    chan *accesslog.Entry
	dropped atomic.Uint64

	mu      sync.Mutex
	history *history // guarded by mu
}

func newRecorder(h *history) *recorder {
	r := &recorder{
		free: make(chan *accesslog.Entry, maxPending), full: make(chan *accesslog.Entry, maxPending), history: h,
	}
	for range maxPending {
		r.free <- new(accesslog.Entry)
	}
	return r
}

// Begin returns an entry to fill in, for Commit; nil where checks are off, or where too many
// entries wait.
func (r *recorder) Begin() *accesslog.Entry {
	if !r.on.Load() {
		return nil
	}
	select {
	case e := <-r.free:
		*e = accesslog.Entry{IDs: e.IDs[:0]}
		return e
	default:
		r.dropped.Add(1)
		return nil
	}
}

// Commit hands an entry of Begin over.
func (r *recorder) Commit(e *accesslog.Entry) { r.full <- e } // has room for all entries

// collect takes entries until ctx ends.
func (r *recorder) collect(ctx context.Context) {
	for {
		select {
		case e := <-r.full:
			r.take(e)
		case <-ctx.Done():
			return
		}
	}
}

func (r *recorder) take(e *accesslog.Entry) {
	if e.Status == answered && e.Input > 0 && e.Input <= maxTokens && e.Output >= 0 && e.Output <= maxTokens && e.Block > 0 && e.Took > 0 {
		r.mu.Lock()
		r.history.add(e)
		r.mu.Unlock()
	}
	if cap(e.IDs) > maxKeptIDs {
		e.IDs = nil
	}
	r.free <- e
}

const (
	answered = 200 // status of HTTP
	// maxTokens is above the context lengths of all models. A worker that counts more is wrong, and
	// its numbers would keep the simulator busy.
	maxTokens = 1 << 24
)

// size returns the requests and bytes of the history.
func (r *recorder) size() (requests, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.history.n, r.history.bytes
}

// progress returns the number of remembered requests, and of all that ever were.
func (r *recorder) progress() (n int, added uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.history.n, r.history.added
}

func (r *recorder) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.clear()
}
