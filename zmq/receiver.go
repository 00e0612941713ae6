package zmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	zmq4 "github.com/pebbe/zmq4"
)

// burst bounds how many messages one stream delivers before the others get their turn.
const burst = 256

// Subscription says what to listen to.
type Subscription struct {
	Endpoint string // "tcp://host:port"; it need not answer yet.
	Topic    string // Prefix of the topics wanted; "" wants all.
	Bind     bool   // Listen instead of connecting: for engines whose publisher connects.
	HWM      int    // Messages queued before ZeroMQ drops; 0 is DefaultHWM.

	// OnMessage gets every message, on the goroutine of Run. It must not block.
	OnMessage func(Message)
	// OnMalformed, which may be nil, is told of a message that was dropped because it has not three frames or its
	// sequence not eight bytes.
	OnMalformed func(frames int)
}

// Receiver listens to many publishers in one goroutine. It scales to thousands of streams: each is a socket of its own,
// since a shared one could not tell which worker a message came from.
type Receiver struct {
	lifetime
	log *slog.Logger

	added   []*stream // For Run to take over; guarded by mu.
	removed bool      // Some stream is canceled; guarded by mu.

	// Owned by the goroutine of Run.
	streams map[int32]*stream
	lastID  int32
	ready   []*stream // To be read in the next turn.
}

// wakeID is the waker among the ids of streams, which count from 1.
const wakeID = 0

// stream is one subscription and its socket.
type stream struct {
	sub    Subscription
	socket *zmq4.Socket
	gone   atomic.Bool // Canceled: deliver nothing more.

	// Owned by the goroutine of Run.
	id     int32
	queued bool // Stands in Receiver.ready.
}

// NewReceiver returns a receiver without streams. It holds a ZeroMQ context until the end of Run, or Close if Run is
// never called. A nil log discards.
func NewReceiver(log *slog.Logger) (*Receiver, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Receiver{log: log, streams: map[int32]*stream{}}
	if err := r.open(); err != nil {
		return nil, fmt.Errorf("cannot create receiver: %w", err)
	}
	return r, nil
}

// Subscribe starts listening, before or during Run. cancel stops it: no callback starts after cancel returned, except
// that one may be under way on another goroutine. cancel is idempotent.
func (r *Receiver) Subscribe(s Subscription) (cancel func(), err error) {
	if s.OnMessage == nil {
		return nil, fmt.Errorf("cannot subscribe to %q: no OnMessage", s.Endpoint)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fmt.Errorf("cannot subscribe to %q: %w", s.Endpoint, ErrClosed)
	}
	socket, err := openSub(r.zctx, &s)
	if err != nil {
		return nil, fmt.Errorf("cannot subscribe to %q: %w", s.Endpoint, err)
	}
	st := &stream{sub: s, socket: socket}
	r.added = append(r.added, st)
	r.wake.wakeLocked()
	return func() { r.cancel(st) }, nil
}

func (r *Receiver) cancel(st *stream) {
	st.gone.Store(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removed = true
	r.wake.wakeLocked()
}

// openSub makes the socket of s and starts connecting; libzmq goes on trying in its own thread.
func openSub(c *zmq4.Context, s *Subscription) (*zmq4.Socket, error) {
	socket, err := c.NewSocket(zmq4.SUB)
	if err != nil {
		return nil, err
	}
	hwm := s.HWM
	if hwm == 0 {
		hwm = DefaultHWM
	}
	err = each(
		func() error { return prepare(socket, s.Endpoint) },
		func() error { return socket.SetRcvhwm(hwm) },
		func() error { return socket.SetSubscribe(s.Topic) },
		func() error {
			if s.Bind {
				return socket.Bind(s.Endpoint)
			}
			return socket.Connect(s.Endpoint)
		},
	)
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	return socket, nil
}

// Run delivers messages until ctx is done or Close is called, then closes everything and returns nil. It runs once.
func (r *Receiver) Run(ctx context.Context) error {
	end, err := r.begin(ctx)
	if err != nil {
		return fmt.Errorf("cannot run receiver: %w", err)
	}
	err = r.loop()
	end()
	return errors.Join(err, r.free())
}

// Close ends Run without waiting for it, or frees a receiver that never ran. It is idempotent.
func (r *Receiver) Close() error {
	r.stop()
	if !r.claim() {
		return nil
	}
	return r.free()
}

func (r *Receiver) free() error {
	r.mu.Lock()
	r.closed = true // From here on Subscribe adds nothing.
	for _, st := range r.added {
		r.lastID++
		r.streams[r.lastID] = st
	}
	r.added = nil
	r.mu.Unlock()
	sockets := make([]*zmq4.Socket, 0, len(r.streams))
	for _, st := range r.streams {
		sockets = append(sockets, st.socket)
	}
	clear(r.streams)
	return r.release(sockets...)
}

// loop reads what is ready until stop.
func (r *Receiver) loop() (err error) {
	q, err := newReadiness()
	if err != nil {
		return fmt.Errorf("cannot watch streams: %w", err)
	}
	defer func() { err = errors.Join(err, q.close()) }()
	if err := q.add(r.wake.in, wakeID); err != nil {
		return fmt.Errorf("cannot watch streams: %w", err)
	}
	var turn []*stream
	for changed := true; ; {
		if changed {
			open, err := r.update(q)
			if err != nil || !open {
				return err
			}
			changed = false
		}
		err := q.wait(len(r.ready) == 0, func(id int32) {
			if id == wakeID {
				changed = true
			} else if st := r.streams[id]; st != nil {
				r.enqueue(st)
			}
		})
		if err != nil {
			return fmt.Errorf("cannot wait for streams: %w", err)
		}
		turn, r.ready = r.ready, turn[:0]
		if err := r.read(turn); err != nil {
			return err
		}
	}
}

// read delivers a burst of each stream's messages; those that have more come again next turn.
func (r *Receiver) read(turn []*stream) error {
	for _, st := range turn {
		st.queued = false
		more, err := st.deliver()
		if err != nil {
			return fmt.Errorf("cannot read from %q: %w", st.sub.Endpoint, err)
		}
		if more {
			r.enqueue(st)
		}
	}
	return nil
}

func (r *Receiver) enqueue(st *stream) {
	if !st.queued {
		st.queued = true
		r.ready = append(r.ready, st)
	}
}

// update takes over new streams, closes canceled ones and reports whether to go on.
func (r *Receiver) update(q *readiness) (open bool, err error) {
	r.awakeLocked()
	defer r.mu.Unlock()
	if r.closed {
		return false, nil
	}
	for _, st := range r.added {
		r.lastID++
		st.id = r.lastID
		r.streams[st.id] = st
		if err := q.add(st.socket, st.id); err != nil {
			return false, fmt.Errorf("cannot watch %q: %w", st.sub.Endpoint, err)
		}
		r.enqueue(st)
	}
	r.added = nil
	if r.removed {
		r.removed = false
		r.closeGone(q)
	}
	return true, nil
}

// closeGone closes the streams that are canceled.
func (r *Receiver) closeGone(q *readiness) {
	for id, st := range r.streams {
		if !st.gone.Load() {
			continue
		}
		delete(r.streams, id)
		if err := errors.Join(q.remove(st.socket, id), st.socket.Close()); err != nil {
			r.log.Warn("cannot close stream", "endpoint", st.sub.Endpoint, "error", err)
		}
	}
}
