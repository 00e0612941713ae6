package nixl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/cgo"
)

// Op is the direction of a transfer.
type Op = cgo.Op

// Read copies from the peer's memory into ours, Write from ours into the peer's.
const (
	Read  = cgo.Read
	Write = cgo.Write
)

// ErrTimeout is returned when a transfer took longer than its context or its agent allows. The
// transfer is then abandoned, see the package documentation.
var ErrTimeout = errors.New("nixl: transfer timed out")

// Transfer copies pieces between a memory of this agent and one of a peer.
type Transfer struct {
	remote *Remote
	op     Op
	local  *Memory
	bytes  uint64
	chunks []chunk

	done    chan struct{} // closed when the outcome is known
	settled chan struct{} // closed when no byte can move any more
	err     error         // written before done is closed
	times   Times         // likewise

	executor atomic.Pointer[executor] // once the transfer has started
	givenUp  atomic.Pointer[error]    // reason of the caller to wait no longer
	endOnce  sync.Once                // ends a transfer that no executor took on

	// The following fields belong to the executor.
	retained    bool // the transfer is a user of its memory
	next        int  // first chunk that has no request yet
	outstanding []*libraryRequest
	began       time.Time
	deadline    time.Time
}

// Times are the durations and sizes of one transfer.
type Times struct {
	Prepare  time.Duration // in calls that create requests
	Post     time.Duration // in calls that start requests; over CMA they copy
	Transfer time.Duration // from the first post to the end of the last request
	Requests int
	Pieces   int // descriptors, after merging
}

// Prepare checks a transfer and cuts it into requests. It moves nothing, and sorts and merges
// pieces in place.
func (r *Remote) Prepare(op Op, local *Memory, remote RemoteMemory, pieces []Piece) (*Transfer, error) {
	if local.agent != r.agent {
		return nil, fmt.Errorf("%w: the memory belongs to another agent", ErrRange)
	}
	pieces = coalesce(pieces)
	if err := checkPieces(op, pieces, local.Len(), remote.Len); err != nil {
		return nil, err
	}
	if known, err := r.Memory(remote.ID); err != nil || known != remote {
		return nil, fmt.Errorf("%w: %d of %q", ErrNoMemory, remote.ID, r.name)
	}
	t := &Transfer{remote: r, op: op, local: local, done: make(chan struct{}), settled: make(chan struct{})}
	for _, p := range pieces {
		t.bytes += p.Len
	}
	cfg := &r.agent.cfg
	t.chunks = split(pieces, local.Region().Addr, remote.Addr, cfg.MaxDescriptors, uint64(cfg.MaxBytes))
	if len(t.chunks) == 0 {
		return nil, fmt.Errorf("%w: nothing to move", ErrRange)
	}
	return t, nil
}

// Post starts the transfer. Call it once; Wait returns the outcome.
func (t *Transfer) Post() error {
	if !t.remote.agent.send(func(e *executor) { e.active.start(t) }) {
		return ErrClosed
	}
	return nil
}

// Wait returns when the transfer has ended, or gives it up when ctx is done. After an error,
// leave the memory of the transfer alone until Settled is closed: the library cannot stop a
// request.
func (t *Transfer) Wait(ctx context.Context) error {
	select {
	case <-t.done:
		return t.err
	default:
	}
	select {
	case <-t.done:
	case <-t.remote.agent.ended:
		return t.endWithAgent()
	case <-ctx.Done():
		reason := fmt.Errorf("%w: %w", ErrTimeout, context.Cause(ctx))
		t.givenUp.CompareAndSwap(nil, &reason)
		if e := t.executor.Load(); e != nil {
			e.wake.Store(1)
		}
		select {
		case <-t.done: // it may have ended well meanwhile
			return t.err
		default:
			return reason
		}
	}
	return t.err
}

// endWithAgent is the outcome of a transfer whose agent has ended. A transfer that no executor
// took on has moved nothing.
func (t *Transfer) endWithAgent() error {
	t.endOnce.Do(func() {
		if !t.isDone() {
			t.err = ErrClosed
			t.settle()
			close(t.done)
		}
	})
	<-t.done
	return t.err
}

// Settled is closed when no byte of the transfer can move any more, so that its memory may be
// reused; it is closed already when Wait returns nil. It stays open after an agent that does
// not end (ErrStuck).
func (t *Transfer) Settled() <-chan struct{} { return t.settled }

// Times is valid once Wait has returned nil.
func (t *Transfer) Times() Times { return t.times }

// Transfer prepares and posts a transfer, and waits for its end. With an error it may return a
// Transfer too, whose memory is in use until it is Settled.
func (r *Remote) Transfer(ctx context.Context, op Op, local *Memory, remote RemoteMemory, pieces []Piece) (*Transfer, error) {
	t, err := r.Prepare(op, local, remote, pieces)
	if err != nil {
		return nil, err
	}
	if err := t.Post(); err != nil {
		return nil, err
	}
	return t, t.Wait(ctx)
}

func (t *Transfer) settle() { close(t.settled) }

func (t *Transfer) isDone() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}
