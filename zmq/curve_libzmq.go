//go:build libzmq

package zmq

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	zmq4 "github.com/pebbe/zmq4"
)

const (
	// curvePoll bounds each wait in libzmq, and so the delay of a cancellation.
	curvePoll = 100 * time.Millisecond
	// curveSockets replaces libzmq's limit of 1,023 sockets; a stream has three with its monitor.
	curveSockets = 60_000
	// curveFrames is the number of frames looked at: one more than an answer to a replay has.
	curveFrames = answerFrames + 1
	// curveEvents are the events that observe reads. EVENT_MONITOR_STOPPED is not among them: it is
	// sent by the caller of Monitor, who would wait for room.
	curveEvents = zmq4.EVENT_HANDSHAKE_SUCCEEDED | zmq4.EVENT_HANDSHAKE_FAILED_AUTH |
		zmq4.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq4.EVENT_HANDSHAKE_FAILED_NO_DETAIL |
		zmq4.EVENT_DISCONNECTED | zmq4.EVENT_CLOSED
)

func curveLibrary() (string, error) {
	if !zmq4.HasCurve() {
		return "", fmt.Errorf("%w: this machine's libzmq was built without it", ErrCurve)
	}
	major, minor, patch := zmq4.Version()
	return fmt.Sprintf("libzmq %d.%d.%d", major, minor, patch), nil
}

// prepareLibrary sets libzmq's process-wide options once: they are not safe for concurrent use.
var prepareLibrary = sync.OnceValue(func() error {
	zmq4.SetRetryAfterEINTR(true) // Go's preemption signals interrupt system calls.
	return zmq4.SetMaxSockets(curveSockets)
})

// curveConn is one connection over libzmq: a socket that does not reconnect, so that no message
// of one publisher is taken for its successor's, and the monitor that reports the connection's
// state. It belongs to one goroutine.
type curveConn struct {
	ctx             context.Context
	socket, monitor *zmq4.Socket
	poller          *zmq4.Poller
	connected       bool
	ended           error // The connection's end; messages that came before may still wait.
	frames          [curveFrames][]byte
}

// dialCurve connects and waits for the handshake. topic is subscribed by a SUB socket.
func dialCurve(ctx context.Context, kind zmq4.Type, endpoint, topic string) (*curveConn, error) {
	keys, err := readCurveKeys(os.Getenv(EnvCurve))
	if err != nil {
		return nil, err
	}
	if err := prepareLibrary(); err != nil {
		return nil, err
	}
	c := &curveConn{ctx: ctx, poller: zmq4.NewPoller()}
	if err = c.open(kind, endpoint, topic, keys); err == nil {
		err = c.handshake()
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// open makes the socket and its monitor and begins to connect.
func (c *curveConn) open(kind zmq4.Type, endpoint, topic string, keys curveKeys) (err error) {
	if c.socket, err = zmq4.NewSocket(kind); err != nil {
		return err
	}
	if c.monitor, err = zmq4.NewSocket(zmq4.PAIR); err != nil {
		return err
	}
	events := fmt.Sprintf("inproc://monitor-%x", rand.Uint64()) // Closed ones linger.
	for _, set := range []func() error{
		func() error { return c.socket.SetLinger(0) },
		func() error { return c.monitor.SetLinger(0) },
		func() error { return c.socket.SetIpv6(strings.Contains(endpoint, "[")) },
		func() error { return c.socket.SetReconnectIvl(-1) },
		func() error { return c.socket.SetConnectTimeout(connectTimeout) },
		func() error { return c.socket.SetHandshakeIvl(handshakeTimeout) },
		func() error { return c.socket.SetHeartbeatIvl(heartbeatEvery) },
		func() error { return c.socket.SetHeartbeatTimeout(heartbeatEvery) },
		func() error { return c.socket.SetMaxmsgsize(maxMessage) },
		func() error { return c.socket.ClientAuthCurve(keys.server, keys.public, keys.secret) },
		func() error {
			if kind != zmq4.SUB {
				return nil
			}
			return c.socket.SetSubscribe(topic)
		},
		func() error { return c.socket.Monitor(events, curveEvents) },
		func() error { return c.monitor.Connect(events) },
		func() error { return c.socket.Connect(endpoint) },
	} {
		if err := set(); err != nil {
			return fmt.Errorf("%w: %w", ErrCurve, err)
		}
	}
	c.poller.Add(c.socket, zmq4.POLLIN)
	c.poller.Add(c.monitor, zmq4.POLLIN)
	return nil
}

// close stops the monitor before it closes the monitor's end: libzmq's one I/O thread waits without
// end for room in a monitor's PAIR that has no peer, and with it every stream of the process.
func (c *curveConn) close() {
	if c.socket != nil {
		_ = c.socket.Monitor("", 0)
	}
	for _, s := range []*zmq4.Socket{c.monitor, c.socket} {
		if s != nil {
			_ = s.Close()
		}
	}
}

// handshake waits until the handshake has succeeded or failed.
func (c *curveConn) handshake() error {
	limit := time.Now().Add(connectTimeout + handshakeTimeout)
	for !c.connected && c.ended == nil && c.ctx.Err() == nil && time.Now().Before(limit) {
		if err := c.wait(curvePoll); err != nil {
			return err
		}
	}
	switch {
	case c.connected:
		return nil
	case c.ended != nil:
		return c.ended
	case c.ctx.Err() != nil:
		return c.ctx.Err()
	default:
		return fmt.Errorf("%w: no CURVE handshake within %v", ErrProtocol, connectTimeout+handshakeTimeout)
	}
}

// wait waits for at most d until a message waits or the connection's state has changed.
func (c *curveConn) wait(d time.Duration) error {
	if _, err := c.poller.Poll(max(0, min(d, curvePoll))); err != nil {
		return err
	}
	for {
		event, _, _, err := c.monitor.RecvEvent(zmq4.DONTWAIT)
		if isAgain(err) {
			return nil
		}
		if err != nil {
			return err
		}
		c.observe(event)
	}
}

// observe takes one of the monitor's events. A publisher with another server key only hangs up.
func (c *curveConn) observe(event zmq4.Event) {
	if event == zmq4.EVENT_HANDSHAKE_SUCCEEDED {
		c.connected = true
	}
	if c.ended != nil {
		return
	}
	switch event {
	case zmq4.EVENT_HANDSHAKE_FAILED_AUTH:
		c.ended = fmt.Errorf("%w: the publisher refuses our CURVE key", ErrProtocol)
	case zmq4.EVENT_HANDSHAKE_FAILED_PROTOCOL, zmq4.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
		c.ended = fmt.Errorf("%w: the CURVE handshake failed: is CURVE on at the publisher, and is "+
			"server-key its key?", ErrProtocol)
	case zmq4.EVENT_DISCONNECTED, zmq4.EVENT_CLOSED:
		c.ended = errHungUp
		if !c.connected {
			c.ended = fmt.Errorf("%w before the CURVE handshake: is it there, and is server-key its key?", errHungUp)
		}
	}
}

// receive returns the frames of a message, or none if no message waits. n counts them all.
func (c *curveConn) receive() (frames [][]byte, n int, err error) {
	for more := true; more; n++ {
		b, err := c.socket.RecvBytes(zmq4.DONTWAIT) // libzmq delivers messages whole.
		if isAgain(err) {
			return nil, 0, nil
		}
		if err != nil {
			return nil, 0, err
		}
		if n < curveFrames {
			c.frames[n] = b
		}
		if more, err = c.socket.GetRcvmore(); err != nil {
			return nil, 0, err
		}
	}
	return c.frames[:min(n, curveFrames)], n, nil
}

func isAgain(err error) bool { return err != nil && zmq4.AsErrno(err) == zmq4.Errno(syscall.EAGAIN) }

// attemptCurve connects once and delivers messages until the connection ends.
func attemptCurve(f *subscriber) error {
	c, err := dialCurve(f.ctx, zmq4.SUB, f.Endpoint, f.Topic)
	if err != nil {
		return err
	}
	defer c.close()
	f.connected()
	for f.ctx.Err() == nil {
		frames, n, err := c.receive()
		switch {
		case err != nil:
			return err
		case n > 0:
			deliverFrames(f, frames, n)
			continue
		case c.ended != nil:
			return c.ended
		}
		f.tick()
		until := curvePoll
		if f.OnTick != nil {
			until = time.Until(f.tickAt)
		}
		if err := c.wait(until); err != nil {
			return err
		}
	}
	return f.ctx.Err()
}

// deliverFrames calls back for one live message.
func deliverFrames(f *subscriber, frames [][]byte, n int) {
	switch {
	case f.ctx.Err() != nil:
	case n == liveFrames && len(frames[1]) == 8:
		f.OnMessage(Message{Topic: frames[0], Seq: binary.BigEndian.Uint64(frames[1]), Payload: frames[2]})
	case f.OnMalformed != nil:
		f.OnMalformed(n)
	}
}

// roundCurve is round over libzmq.
func roundCurve(r *replay, endpoint string) (whole, asked bool, err error) {
	c, err := dialCurve(r.ctx, zmq4.DEALER, endpoint, "")
	if err != nil {
		return false, false, err
	}
	defer c.close()
	if _, err := c.socket.SendMessageDontwait("", binary.BigEndian.AppendUint64(nil, r.next)); err != nil {
		return false, false, err
	}
	heard := time.Now()
	for r.ctx.Err() == nil {
		frames, n, err := c.receive()
		switch {
		case err != nil:
			return false, true, err
		case n > 0:
			heard = time.Now()
			m, ok := answerOf(frames, n)
			if !ok {
				return false, true, fmt.Errorf("%d frames: %w", n, ErrMalformed)
			}
			if end, whole, err := r.take(m); end || err != nil {
				return whole, true, err
			}
			continue
		case c.ended != nil:
			return false, true, c.ended
		case r.got >= replaySafe && time.Since(heard) > replayStall: // The end marker is lost.
			return false, true, nil
		}
		if err := c.wait(curvePoll); err != nil {
			return false, true, err
		}
	}
	return false, true, errors.Join(r.ctx.Err(), errHungUp)
}

// answerOf reads frames as decoder.answer does.
func answerOf(frames [][]byte, n int) (m Message, ok bool) {
	if n < liveFrames || n > answerFrames || len(frames[0]) != 0 || len(frames[n-2]) != 8 {
		return m, false
	}
	m = Message{Seq: binary.BigEndian.Uint64(frames[n-2]), Payload: frames[n-1]}
	if n == answerFrames {
		m.Topic = frames[1]
	}
	return m, true
}
