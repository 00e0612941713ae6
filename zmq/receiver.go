package zmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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

	streams []*stream // Owned by the goroutine of Run.
}

// stream is one subscription and its socket.
type stream struct {
	sub    Subscription
	socket *zmq4.Socket
	gone   atomic.Bool // Canceled: deliver nothing more.
}

// NewReceiver returns a receiver without streams. It holds a ZeroMQ context until the end of Run, or Close if Run is
// never called. A nil log discards.
func NewReceiver(log *slog.Logger) (*Receiver, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Receiver{log: log}
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
	all := append(r.streams, r.added...)
	r.streams, r.added = nil, nil
	r.mu.Unlock()
	sockets := make([]*zmq4.Socket, 0, len(all))
	for _, st := range all {
		sockets = append(sockets, st.socket)
	}
	return r.release(sockets...)
}

// loop polls until stop. The poller is made anew when the set of streams changed, which is rare beside messages.
func (r *Receiver) loop() error {
	for poller := r.rebuild(); poller != nil; {
		items, err := poller.PollAll(-1)
		if err != nil {
			return fmt.Errorf("cannot poll streams: %w", err)
		}
		for i, st := range r.streams { // Item 0 is the waker, item i+1 is stream i.
			if items[i+1].Events&zmq4.POLLIN == 0 {
				continue
			}
			if err := st.deliver(); err != nil {
				return fmt.Errorf("cannot read from %q: %w", st.sub.Endpoint, err)
			}
		}
		if items[0].Events&zmq4.POLLIN != 0 {
			poller = r.rebuild()
		}
	}
	return nil
}

// rebuild takes over new streams, closes canceled ones and returns a poller over the rest, or nil after stop.
func (r *Receiver) rebuild() *zmq4.Poller {
	r.awakeLocked()
	defer r.mu.Unlock()
	r.streams = append(r.streams, r.added...)
	r.added = nil
	if r.closed {
		return nil
	}
	if r.removed {
		r.removed = false
		r.streams = slices.DeleteFunc(r.streams, r.closeGone)
	}
	p := zmq4.NewPoller()
	p.Add(r.wake.in, zmq4.POLLIN)
	for _, st := range r.streams {
		p.Add(st.socket, zmq4.POLLIN)
	}
	return p
}

// closeGone closes st if it is canceled.
func (r *Receiver) closeGone(st *stream) bool {
	if !st.gone.Load() {
		return false
	}
	if err := st.socket.Close(); err != nil {
		r.log.Warn("cannot close stream", "endpoint", st.sub.Endpoint, "error", err)
	}
	return true
}
