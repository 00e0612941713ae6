package request

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/request/disagg"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

var (
	// errFailed is a worker that answered with a status from 500 on, or with such an error inside its answer.
	errFailed = errors.New("server: worker answered with an error")
	// errTransfer is one that speaks of the way between the two workers of a pair: either may be at fault.
	errTransfer = errors.New("server: prefill and decode worker do not come together")
	// errLate is a decode worker that does not begin although the prompt is computed.
	errLate = errors.New("server: decode worker lags behind the prefill worker")
	// errClient is a prefill worker that refuses the request as the client's fault.
	errClient = errors.New("server: worker refused the request as it is")
)

// prefillLeg is the half of a pair's request that goes to the prefill worker, whose answer says only that it has come to its
// end. A goroutine of its own runs it, from start until over is sent to; the exchange that started it waits for that before
// it gives anything of the request back, and stop makes it come at once. What the goroutine writes may be read after that.
//
// The leg that fails first ends the other one: this one by canceling decode, unless the decode worker's answer stands.
type prefillLeg struct {
	s        *Server
	rank     *worker.Rank
	request  upstream.Request
	canceler upstream.Canceler
	decode   *upstream.Canceler // of the exchange
	lease    worker.Lease
	flight   *routing.Flight
	key      uint64 // of the worker's Await
	events   bool   // the answers are streams
	keep     bool   // the whole answer is wanted
	merges   bool   // what it has goes into the decode worker's

	run    func()               // a method, made once
	onHang func(dead bool) bool // as an exchange's
	waits  func() bool          // the decode worker hangs, and nobody else is there
	over   chan struct{}        // has room: the goroutine has ended
	begun  chan struct{}        // has room: the decode worker's answer has begun, or is not waited for
	timer  *time.Timer          // of its lag
	hung   atomic.Bool
	done   atomic.Int64 // unix nanoseconds when the prompt was computed; 0: it is not

	mu      sync.Mutex
	settled bool // the decode worker's answer stands; guarded by mu
	first   bool // this leg has failed before that; guarded by mu

	err    error // why it failed
	late   bool  // the decode worker did not begin in time
	status int
	denied int // what errClient means as a status
	sent   time.Time
	mime   []byte
	answer []byte // its beginning, or all of it
	tail   []byte // what of it is not kept passes through here

	memory legMemory // of both legs' requests
	merger disagg.Merger
}

const (
	// keptAnswer bounds what is kept of an answer that only has to be refused or be of no interest.
	keptAnswer = disagg.MaxEvent
	// maxAnswer bounds one with log probabilities: 256 MiB are a million tokens with the ten likeliest of each.
	maxAnswer = 256 << 20
	// keptLeg bounds what a pooled leg keeps of any of its buffers.
	keptLeg = 1 << 20
)

func newPrefillLeg(e *exchange) *prefillLeg {
	l := &prefillLeg{
		s: e.s, decode: &e.canceler, over: make(chan struct{}, 1), begun: make(chan struct{}, 1), timer: time.NewTimer(time.Hour), tail: make([]byte, 4<<10),
	}
	l.timer.Stop()
	l.run = l.work
	l.onHang = func(dead bool) bool {
		if !dead && !e.elsewhere(l.rank) {
			return false
		}
		l.hung.Store(true)
		l.canceler.Cancel()
		return true
	}
	l.waits = func() bool {
		rank := e.decision.Decode
		return rank.Worker.State() == worker.Slow && !e.elsewhere(rank)
	}
	return l
}

// start sends the request to rank. All else that the leg needs is set.
func (l *prefillLeg) start(rank *worker.Rank) {
	l.rank = rank
	l.key = rank.Worker.Await(l.onHang)
	l.decode.Join(&l.canceler) // who cancels the decode leg, the client too, cancels both
	go l.run()
}

// stop ends the leg, wherever it is, and waits for it.
func (l *prefillLeg) stop() {
	l.release()
	l.canceler.Cancel()
	<-l.over
	l.decode.Join(nil)
}

// release ends the wait for the decode worker.
func (l *prefillLeg) release() {
	select {
	case l.begun <- struct{}{}:
	default:
	}
}

// settle notes that the decode worker's answer stands, and reports whether it may: the leg had not failed before.
func (l *prefillLeg) settle() bool {
	l.mu.Lock()
	l.settled = !l.first
	l.mu.Unlock()
	l.release()
	return l.settled
}

// work runs the leg.
func (l *prefillLeg) work() {
	l.err = l.ask()
	now := time.Now()
	if l.err != nil {
		l.fail()
	} else {
		l.done.Store(now.UnixNano())
	}
	l.rank.Worker.Begun(l.key)
	l.lease.End()
	if l.err != nil {
		l.s.Router.Land(l.flight)
	} else {
		l.rank.Worker.Succeeded(l.sent)
		l.s.Router.Ended(nil, l.flight, nil, now)
	}
	l.flight = nil
	l.s.freed()
	if l.err == nil {
		l.awaitDecode()
	}
	l.over <- struct{}{}
}

// fail ends the decode leg, unless its answer stands or it was the one that ended this leg.
func (l *prefillLeg) fail() {
	if errors.Is(l.err, upstream.ErrCanceled) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.settled {
		l.first = true
		l.decode.Cancel()
	}
}

// awaitDecode bounds how long the decode worker may lag behind. Where the answer is no stream nothing tells that it has begun.
func (l *prefillLeg) awaitDecode() {
	if !l.events || l.s.live().Pair.Timeout < 0 {
		return
	}
	defer l.timer.Stop()
	for {
		l.timer.Reset(l.s.live().Pair.Timeout)
		select {
		case <-l.begun:
			return
		case <-l.timer.C:
		}
		if !l.waits() {
			break
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.settled {
		l.late = true
		l.decode.Cancel()
	}
}

// ask sends the request and reads the answer to its end.
func (l *prefillLeg) ask() error {
	resp, err := l.s.Transport.Do(&l.canceler, &l.request)
	if err != nil {
		return l.failed(err)
	}
	defer func() { _ = resp.Close() }()
	l.status = resp.Status
	l.mime = append(l.mime[:0], resp.Peek("Content-Type")...)
	if err := l.read(resp); err != nil {
		return l.failed(err)
	}
	l.denied = l.status
	return statusError(l.status, l.status >= fasthttp.StatusInternalServerError && disagg.SpeaksOfTransfer(l.answer))
}

// statusError makes an error of an answer's status.
func statusError(status int, transfer bool) error {
	switch {
	case status >= fasthttp.StatusInternalServerError && transfer:
		return errTransfer
	case status == fasthttp.StatusServiceUnavailable, status == fasthttp.StatusTooManyRequests:
		return errRefused
	case status >= fasthttp.StatusInternalServerError:
		return errFailed
	case status >= fasthttp.StatusBadRequest:
		return errClient
	default:
		return nil
	}
}

// read reads the answer, and of a stream looks at the first event.
func (l *prefillLeg) read(resp *upstream.Response) error {
	limit := keptAnswer
	if l.keep && l.status == fasthttp.StatusOK {
		limit = maxAnswer
	}
	verdict := disagg.Fine
	if l.events && l.status == fasthttp.StatusOK {
		verdict = disagg.More
	}
	for {
		room := l.tail
		if len(l.answer) < limit {
			room = l.room(limit)
		}
		n, err := resp.Read(room)
		if len(l.answer) < limit {
			l.answer = l.answer[:len(l.answer)+n]
		}
		if verdict == disagg.More {
			var f disagg.Failure
			if verdict, f = disagg.Look(l.answer, err != nil); verdict == disagg.Failed {
				return l.failedInside(resp, f)
			}
		}
		if errors.Is(err, io.EOF) {
			if l.keep && len(l.answer) >= maxAnswer {
				return fmt.Errorf("%w: more than %d bytes of log probabilities", errFailed, maxAnswer)
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// room returns memory behind the answer, and makes some.
func (l *prefillLeg) room(limit int) []byte {
	n := len(l.answer)
	if cap(l.answer)-n < 512 {
		grown := make([]byte, n, min(max(2*cap(l.answer), keptAnswer), limit+512))
		copy(grown, l.answer)
		l.answer = grown
	}
	return l.answer[n:min(cap(l.answer), limit)]
}

// failedInside is an error inside an answer of status 200. One that is the client's is read to its end, for the client.
func (l *prefillLeg) failedInside(resp *upstream.Response, f disagg.Failure) error {
	if err := statusError(f.Status, f.Transfer); !errors.Is(err, errClient) {
		return err
	}
	l.denied = f.Status
	for len(l.answer) < keptAnswer {
		n, err := resp.Read(l.room(keptAnswer))
		l.answer = l.answer[:len(l.answer)+n]
		if err != nil {
			break
		}
	}
	return errClient
}

// failed names a failure of the connection.
func (l *prefillLeg) failed(err error) error {
	if l.hung.Load() && errors.Is(err, upstream.ErrCanceled) {
		// Not the cancel itself any more: with it, the decode leg would be taken for the cause.
		return fmt.Errorf("cannot get answer of %s: %w", l.rank.ID(), errHung)
	}
	return fmt.Errorf("cannot get answer of %s: %w", l.rank.ID(), err)
}

// reset makes the leg ready for the next request. Its goroutine has ended.
func (l *prefillLeg) reset() {
	select {
	case <-l.begun:
	default:
	}
	l.canceler.Reset()
	l.hung.Store(false)
	l.done.Store(0)
	l.settled, l.first, l.late, l.keep, l.events, l.merges = false, false, false, false, false, false
	l.err, l.status, l.rank, l.lease, l.key = nil, 0, nil, worker.Lease{}, 0
	l.request = upstream.Request{}
	l.answer = emptied(l.answer)
	l.memory.reset()
	l.merger.Release()
}

// emptied returns a buffer's memory, where it is not too much to be kept.
func emptied(b []byte) []byte {
	if cap(b) > keptLeg {
		return nil
	}
	return b[:0]
}
