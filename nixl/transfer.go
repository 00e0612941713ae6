package nixl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/cgo"
)

// Op is the direction of a transfer.
type Op = cgo.Op

// Read brings the peer's bytes here, Write ours there.
const (
	Read  = cgo.Read
	Write = cgo.Write
)

// ErrTimeout is returned when a transfer took longer than its context or its agent allows. Its memory is in quarantine.
var ErrTimeout = errors.New("nixl: transfer timed out")

// Transfer copies pieces between a memory of ours and one of a peer.
type Transfer struct {
	remote *Remote
	op     Op
	local  *Memory
	kind   cgo.Kind // of the remote memory
	note   []byte
	bytes  uint64
	chunks []chunk

	done    chan struct{} // closed when the outcome is known
	settled chan struct{} // closed when no byte can move any more
	err     error         // written before done is closed
	times   Times         // likewise

	owner   atomic.Pointer[owner] // once it has started
	givenUp atomic.Pointer[error] // why nobody waits any more
	unseen  sync.Once             // ends a transfer that no owner took on

	// What follows belongs to the owner.
	using    bool // it counts as a user of its memory
	next     int  // first chunk that has no request yet
	flying   []*flight
	began    time.Time
	deadline time.Time
}

// flight is a request of a transfer that the library works on.
type flight struct {
	transfer *Transfer
	request  request
	failed   bool // the library says so; bytes may move all the same
}

// Times is what one transfer took.
type Times struct {
	Prepare  time.Duration // to make its requests known to the library
	Post     time.Duration // in calls that start requests; over CMA they copy
	Transfer time.Duration // from the first post to the end of the last request
	Requests int
	Pieces   int             // descriptors, after merging
	Library  []cgo.Telemetry // of each request, where the agent has Telemetry
}

// Prepare checks a transfer and cuts it into requests. It moves nothing. note, if not nil, is sent to the peer when all bytes have moved; pieces is
// sorted and merged in place.
func (r *Remote) Prepare(op Op, local *Memory, remote RemoteMemory, pieces []Piece, note []byte) (*Transfer, error) {
	if local.agent != r.agent {
		return nil, fmt.Errorf("%w: the memory belongs to another agent", ErrRange)
	}
	pieces = Coalesce(pieces)
	if err := checkPieces(op, pieces, local.region.Len, remote.Len); err != nil {
		return nil, err
	}
	if known, err := r.Memory(remote.ID); err != nil || known != remote {
		return nil, fmt.Errorf("%w: %d of %q", ErrNoMemory, remote.ID, r.name)
	}
	t := &Transfer{
		remote: r, op: op, local: local, kind: remote.Kind, note: note,
		done: make(chan struct{}), settled: make(chan struct{}),
	}
	for _, p := range pieces {
		t.bytes += p.Len
	}
	cfg := &r.agent.cfg
	t.chunks = split(pieces, local.region, cgo.Region{Addr: remote.Addr, Dev: remote.Dev}, cfg.MaxDescriptors, uint64(cfg.MaxBytes))
	if len(t.chunks) == 0 {
		return nil, fmt.Errorf("%w: nothing to move", ErrRange)
	}
	return t, nil
}

// Post starts the transfer. Call it once; Wait tells of its end.
func (t *Transfer) Post() error {
	if !t.remote.agent.send(func(o *owner) { o.start(t) }) {
		return ErrClosed
	}
	return nil
}

// Wait returns when the transfer has ended or ctx is done: then the transfer is given up. After an error, the memory of the transfer must be
// left alone until Settled is closed: the library cannot stop what it has begun.
func (t *Transfer) Wait(ctx context.Context) error {
	select {
	case <-t.done:
		return t.err
	default:
	}
	select {
	case <-t.done:
	case <-t.remote.agent.ended:
		return t.afterEnd()
	case <-ctx.Done():
		reason := fmt.Errorf("%w: %w", ErrTimeout, context.Cause(ctx))
		t.givenUp.CompareAndSwap(nil, &reason)
		if o := t.owner.Load(); o != nil {
			o.wake.Store(1)
		}
		select {
		case <-t.done: // it may have ended well in the meantime
			return t.err
		default:
			return reason
		}
	}
	return t.err
}

// afterEnd is the outcome of a transfer whose agent ended; one that no owner saw has moved nothing.
func (t *Transfer) afterEnd() error {
	t.unseen.Do(func() {
		if !t.isDone() {
			t.err = ErrClosed
			t.settle()
			close(t.done)
		}
	})
	<-t.done
	return t.err
}

// Settled is closed when no byte of the transfer can move any more, so that its memory may be used for something else. After Wait has returned
// nil it is closed already. It stays open after an agent that could not be ended.
func (t *Transfer) Settled() <-chan struct{} { return t.settled }

// Bytes is how much the transfer moves.
func (t *Transfer) Bytes() uint64 { return t.bytes }

// Times tells what the transfer took; it holds from the moment Wait has returned nil.
func (t *Transfer) Times() Times { return t.times }

// Transfer prepares and posts a transfer, and waits for its end. With an error there may be a Transfer too: then its memory is in use until it is Settled.
func (r *Remote) Transfer(ctx context.Context, op Op, local *Memory, remote RemoteMemory, pieces []Piece, note []byte) (*Transfer, error) {
	t, err := r.Prepare(op, local, remote, pieces, note)
	if err != nil {
		return nil, err
	}
	if err := t.Post(); err != nil {
		return nil, err
	}
	return t, t.Wait(ctx)
}

// start takes a transfer on.
func (o *owner) start(t *Transfer) {
	t.owner.Store(o)
	o.agent.counters.posted.Add(1)
	err := o.agent.use(t.local)
	if err == nil {
		t.using = true
		err = o.known(t.remote)
	}
	if reason := t.givenUp.Load(); err == nil && reason != nil {
		err = *reason
	}
	if err != nil {
		o.fail(t, err, false)
		return
	}
	t.deadline = time.Now().Add(o.agent.cfg.Timeout)
	o.active = append(o.active, t)
}

// advance posts the next request of a transfer if there is one and room for it. It reports whether there is more to post at once.
func (o *owner) advance(t *Transfer) bool {
	if t.next == len(t.chunks) || len(t.flying) >= o.agent.cfg.Depth {
		return false
	}
	c := &t.chunks[t.next]
	job := cgo.Job{Op: t.op, LocalKind: t.local.kind, RemoteKind: t.kind, Peer: t.remote.name}
	if t.next == len(t.chunks)-1 && len(t.flying) == 0 {
		job.Note = t.note
	} else if t.next == len(t.chunks)-1 && t.note != nil {
		return false // the message says that all has moved, so it goes with a request that is alone
	}
	begin := time.Now()
	r, err := o.engine.create(&job, c.local, c.remote)
	prepared := time.Now()
	t.times.Prepare += prepared.Sub(begin)
	if err != nil { // the offsets are good, so the library does not know the peer or the memory as we do
		t.remote.markFailed(fmt.Errorf("cannot prepare: %w", err))
		o.dropRemote(t.remote)
		return false
	}
	if t.began.IsZero() {
		t.began = prepared
	}
	t.next++
	t.times.Requests++
	t.times.Pieces += len(c.local)
	f := &flight{transfer: t, request: r}
	t.flying = append(t.flying, f)
	err = o.engine.post(r)
	t.times.Post += time.Since(prepared)
	if statusOf(err) == cgo.ErrInProgress {
		return true
	}
	o.landed(f, statusOf(err))
	return t.next < len(t.chunks)
}

// landed takes note of a request that is no longer in progress.
func (o *owner) landed(f *flight, status cgo.StatusError) {
	t := f.transfer
	if status != 0 {
		f.failed = true
		// After a refused request the connection is of no use, and what was posted before the refusal may still move.
		t.remote.markFailed(status)
		o.dropRemote(t.remote)
		return
	}
	if o.agent.cfg.Telemetry {
		if measured, err := o.engine.telemetry(f.request); err == nil {
			t.times.Library = append(t.times.Library, measured)
		}
	}
	t.flying = slices.DeleteFunc(t.flying, func(other *flight) bool { return other == f })
	if err := o.engine.release(f.request); err != nil {
		o.agent.cfg.Log.Warn("cannot release a finished NIXL request", "error", err)
	}
	if t.next < len(t.chunks) || len(t.flying) > 0 {
		return
	}
	t.times.Transfer = time.Since(t.began)
	o.drop(t)
	o.agent.counters.completed(t)
	t.settle()
	close(t.done)
	o.agent.unuse(t.local)
}

// fail ends a transfer with an error. What is under way goes to quarantine; dead says that it will not end by itself.
func (o *owner) fail(t *Transfer, reason error, dead bool) {
	if t.isDone() {
		return
	}
	t.err = reason
	o.drop(t)
	o.agent.counters.failed(reason)
	if len(t.flying) > 0 {
		o.quarantine.add(o.agent, t, dead)
		close(t.done)
		return
	}
	t.settle()
	close(t.done)
	if t.using {
		o.agent.unuse(t.local)
	}
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
