package zmq

import (
	"context"
	"net"
	"syscall"
	"time"
)

// Found is one item of a decoder: a message, the number of frames of a malformed one, or a
// command.
type Found struct {
	Message   Message
	Malformed int
	Command   string
}

// Decode cuts pieces of a stream, of replay answers or of live messages, and returns copies of
// all items. buffer is the size of the decoder's buffer at the end.
func Decode(topic string, answers bool, pieces [][]byte) (found []Found, buffer int, err error) {
	d := decoder{topic: []byte(topic), answers: answers}
	defer func() {
		buffer = len(d.buf)
		d.free()
	}()
	for _, piece := range pieces {
		for len(piece) > 0 {
			n := copy(d.room(), piece)
			d.w, piece = d.w+n, piece[n:]
			for {
				it, err := d.next()
				if err != nil {
					return found, 0, err
				}
				switch it {
				case itemMessage:
					found = append(found, Found{Message: d.msg.Clone()})
				case itemMalformed:
					found = append(found, Found{Malformed: d.malformed})
				case itemCommand:
					found = append(found, Found{Command: string(d.command)})
				}
				if it == itemNone {
					break
				}
			}
			d.release()
		}
	}
	return found, 0, nil
}

// DecodeLoop feeds one decoder the same stream again and again; turn returns the number of
// messages.
func DecodeLoop(stream []byte) (turn func() (messages int)) {
	d := new(decoder)
	return func() (messages int) {
		for rest := stream; len(rest) > 0; {
			n := copy(d.room(), rest)
			d.w, rest = d.w+n, rest[n:]
			for it, _ := d.next(); it != itemNone; it, _ = d.next() {
				messages++
			}
			d.release()
		}
		return messages
	}
}

// DecodeSizes feeds one decoder message after message and returns the buffer's size before each.
func DecodeSizes(messages [][]byte) (sizes []int) {
	var d decoder
	for _, m := range messages {
		sizes = append(sizes, len(d.room()))
		for len(m) > 0 {
			n := copy(d.room(), m)
			d.w, m = d.w+n, m[n:]
			for it, _ := d.next(); it != itemNone; it, _ = d.next() {
				continue
			}
			d.release()
		}
	}
	return sizes
}

// Handshake is subscribe.
func Handshake(conn net.Conn, topic string) (minor byte, err error) {
	var d decoder
	defer d.free()
	return subscribe(conn, &d, topic, time.Now())
}

// Look empties the socket once, and reports whether the stream has ended.
func Look(conn syscall.Conn, onMessage func(Message)) (ended bool, err error) {
	p := &publisherConn{f: &subscriber{Subscription: Subscription{OnMessage: onMessage}, ctx: context.Background()}}
	defer p.d.free()
	raw, err := conn.SyscallConn()
	if err == nil {
		err = raw.Read(func(fd uintptr) bool {
			ended = p.tryRead(fd) && p.got == 0 && p.errno == 0
			return true
		})
	}
	return ended, err
}

// Beat returns the heartbeat of a connection.
func Beat(conn net.Conn) (heard func(), beat func(time.Time) error) {
	p := &publisherConn{conn: conn, minor: minorCommand}
	return func() { p.heard = true }, p.beat
}

// Constants of the package.
const (
	MaxMessage       = maxMessage
	MaxCommand       = maxCommand
	HandshakeTimeout = handshakeTimeout
	HeartbeatEvery   = heartbeatEvery
	ReconnectMax     = reconnectMax
	WrongPeerMax     = wrongPeerMax
)

// Delay is delay.
var Delay = delay

// LimitClients replaces maxClients, before Run.
func LimitClients(p *Publisher, n int) { p.maxClients = n }

// SendQueue returns the methods of a queue for messages of one size; take returns their number.
func SendQueue(limit, size int) (push func() bool, take func() int) {
	q, message := new(sendQueue), make([]byte, size)
	return func() bool { return q.push(message, limit) }, func() int { return len(q.take(nil, limit)) }
}

// ReadCurveKeys is readCurveKeys without the keys.
func ReadCurveKeys(path string) error {
	_, err := readCurveKeys(path)
	return err
}

// ClientSeen is the effect of a client's bytes on a publisher.
type ClientSeen struct {
	Subscriptions int
	Matches       bool   // The stream's topic is subscribed.
	Pong          string // The answer that waits to be written.
}

// ServeClient reads all that a client says to a publisher of topic.
func ServeClient(conn net.Conn, topic string) (seen ClientSeen, err error) {
	r, _, err := serverHandshake(conn, pubRole, time.Now())
	if err != nil {
		return seen, err
	}
	s := newLiveStream(&PublisherConfig{Topic: topic, HWM: 1})
	c := s.add(conn)
	err = c.read(r)
	return ClientSeen{s.subscriptions, c.prefixes.any(), string(c.pong)}, err
}

// MaxRequestFrame is a name of the package.
const MaxRequestFrame = maxRequestFrame
