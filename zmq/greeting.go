package zmq

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"time"
)

// greetingSize is the length of a ZMTP 3 greeting: signature FF, 8 bytes of padding, 7F;
// version 3.1; mechanism of 20 bytes; as-server 0; 31 bytes of filler.
const greetingSize = 64

// Offsets in a greeting.
const (
	greetingSignature = 9 // Its last byte.
	greetingMajor     = 10
	greetingMinor     = 11
	greetingMechanism = 12
	greetingServer    = 32
)

// Both sides use the lower one of their versions. Since 3.1 subscriptions are commands, and
// PING exists.
const (
	major        = 3
	minor        = 1
	minorCommand = 1
)

const mechanism = "NULL"

// appendGreeting appends libzmq's greeting, byte for byte. A ZMTP 1 peer reads its padding,
// 00…01, as a length.
func appendGreeting(b []byte) []byte {
	g := [greetingSize]byte{0: 0xff, 8: 1, greetingSignature: 0x7f, greetingMajor: major, greetingMinor: minor}
	copy(g[greetingMechanism:], mechanism)
	return append(b, g[:]...)
}

// checkGreeting refuses a peer by its first bytes, as they arrive: a peer of another protocol
// may never send a whole greeting.
func checkGreeting(b []byte) error {
	switch {
	case b[0] != 0xff:
		return fmt.Errorf("%w: the peer speaks no ZMTP, it began with %.24q: "+
			"is this the port of the KV events, and not of HTTP?", ErrProtocol, b)
	case len(b) > greetingSignature && b[greetingSignature]&1 == 0:
		return fmt.Errorf("%w: the peer speaks ZMTP 1 (libzmq 2): libzmq 4 or newer is needed there", ErrProtocol)
	case len(b) > greetingMajor && b[greetingMajor] < major:
		return fmt.Errorf("%w: the peer speaks ZMTP 2 (libzmq 3): libzmq 4 or newer is needed there", ErrProtocol)
	case len(b) >= greetingServer:
		if name := bytes.TrimRight(b[greetingMechanism:greetingServer], "\x00"); string(name) != mechanism {
			return fmt.Errorf("%w: the peer requires the mechanism %q; without keys (%s) only NULL is spoken",
				ErrProtocol, name, EnvCurve)
		}
	}
	return nil
}

// greet exchanges greetings and returns the peer's minor version.
func greet(conn net.Conn) (peerMinor byte, err error) {
	if _, err := conn.Write(appendGreeting(nil)); err != nil {
		return 0, err
	}
	var g [greetingSize]byte
	for n := 0; n < greetingSize; {
		got, err := conn.Read(g[n:])
		if n += got; n > 0 {
			if err := checkGreeting(g[:n]); err != nil {
				return 0, err
			}
		}
		if err != nil && n < greetingSize {
			return 0, err
		}
	}
	return min(g[greetingMinor], minor), nil
}

// inHandshake explains a connection's error. A peer that hangs up may be a proxy in front of a
// publisher that is starting, so it is not ErrProtocol, which would delay the next attempt.
func inHandshake(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: the peer sent no ZMTP within %v: "+
			"is this the port of the KV events, and not of HTTP?", ErrProtocol, handshakeTimeout)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return fmt.Errorf("%w in the handshake: is it a publisher of libzmq 4 or newer, without CURVE?", errHungUp)
	}
	return err
}

// appendFrame appends a frame of at most 255 bytes.
func appendFrame(b []byte, flags byte, body ...string) []byte {
	at := len(b)
	b = append(b, flags, 0)
	for _, s := range body {
		b = append(b, s...)
	}
	b[at+1] = byte(len(b) - at - 2)
	return b
}

// Names of commands, each after its length, as on the wire.
const (
	readyCommand     = "\x05READY"
	errorCommand     = "\x05ERROR"
	subscribeCommand = "\x09SUBSCRIBE"
	cancelCommand    = "\x06CANCEL"
	pingCommand      = "\x04PING"
	pongCommand      = "\x04PONG"
)

// socketType is the property of READY that names the kind of a socket.
const socketType = "Socket-Type"

// role is our socket type, and the types that may be at the other end.
type role struct {
	name  string
	peers []string
	hint  string // Advice in the error about a peer of another type.
}

var (
	subRole    = role{"SUB", []string{"PUB", "XPUB"}, "want PUB: is this the port of the replay?"}
	dealerRole = role{
		"DEALER", []string{"ROUTER", "DEALER"}, "want ROUTER: is this the port of the live events?",
	}
	pubRole    = role{"PUB", []string{"SUB", "XSUB"}, "want SUB"}
	routerRole = role{"ROUTER", []string{"DEALER", "REQ", "ROUTER"}, "want DEALER or REQ"}
)

// appendReady appends our READY. A property is its name after one byte of length, and its value
// after four.
func appendReady(b []byte, own role) []byte {
	size := "\x00\x00\x00" + string(rune(len(own.name)))
	return appendFrame(b, flagCommand, readyCommand, "\x0b", socketType, size, own.name)
}

// appendSubscribe appends a subscription in the form of the peer's version. A topic has at most
// maxTopic bytes.
func appendSubscribe(b []byte, peerMinor byte, topic string) []byte {
	if peerMinor >= minorCommand {
		return appendFrame(b, flagCommand, subscribeCommand, topic)
	}
	return appendFrame(b, 0, "\x01", topic)
}

// maxTopic is the space that the command's name leaves in a short frame.
const maxTopic = 255 - len(subscribeCommand)

// checkReady reads the peer's first command.
func checkReady(b []byte, own role) error {
	if reason, ok := bytes.CutPrefix(b, []byte(errorCommand)); ok {
		return refusal(reason)
	}
	rest, ok := bytes.CutPrefix(b, []byte(readyCommand))
	if !ok {
		return fmt.Errorf("%w: the handshake brought the command %.16q, want READY", ErrProtocol, b)
	}
	kind, err := property(rest, socketType)
	switch {
	case err != nil:
		return err
	case !slices.Contains(own.peers, kind):
		return fmt.Errorf("%w: the peer is a %.16q socket, %s", ErrProtocol, kind, own.hint)
	}
	return nil
}

// property finds a property in the metadata of a READY. Case is ignored in names.
func property(b []byte, want string) (value string, err error) {
	for len(b) > 0 {
		name := int(b[0]) + 1
		if len(b) < name+4 {
			break
		}
		size := uint64(binary.BigEndian.Uint32(b[name:]))
		if uint64(len(b)-name-4) < size {
			break
		}
		end := name + 4 + int(size)
		if bytes.EqualFold(b[1:name], []byte(want)) {
			return string(b[name+4 : end]), nil
		}
		b = b[end:]
	}
	return "", fmt.Errorf("%w: the peer's READY has no %s", ErrProtocol, want)
}

// refusal returns the reason in a peer's ERROR, which follows one byte of length.
func refusal(reason []byte) error {
	if len(reason) > 0 {
		reason = reason[1:]
	}
	return fmt.Errorf("%w: the peer refuses: %.200q", ErrProtocol, reason)
}

// handshake greets the peer in the role own, sends the bytes that first returns for the peer's
// minor version, and returns that version. Bytes received after the handshake are in d.
func handshake(
	conn net.Conn, d *decoder, own role, first func(peerMinor byte) []byte, now time.Time,
) (peerMinor byte, err error) {
	if err := conn.SetDeadline(now.Add(handshakeTimeout)); err != nil {
		return 0, err
	}
	if peerMinor, err = exchangeReady(conn, d, own); err != nil {
		return 0, inHandshake(err)
	}
	// Only now: libzmq accepts no message before it has sent its own READY.
	if _, err := conn.Write(first(peerMinor)); err != nil {
		return 0, inHandshake(err)
	}
	return peerMinor, conn.SetDeadline(time.Time{})
}

// exchangeReady exchanges greetings and READY commands.
func exchangeReady(conn net.Conn, d *decoder, own role) (peerMinor byte, err error) {
	if peerMinor, err = greet(conn); err != nil {
		return 0, err
	}
	if _, err := conn.Write(appendReady(nil, own)); err != nil {
		return 0, err
	}
	for {
		it, err := d.next()
		switch {
		case err != nil:
			return 0, err
		case it == itemCommand:
			return peerMinor, checkReady(d.command, own)
		case it != itemNone:
			return 0, fmt.Errorf("%w: the peer sent a message before READY", ErrProtocol)
		}
		n, err := conn.Read(d.room())
		if d.w += n; err != nil && n == 0 {
			return 0, err
		}
	}
}

// subscribe makes conn a subscription of topic.
func subscribe(conn net.Conn, d *decoder, topic string, now time.Time) (peerMinor byte, err error) {
	first := func(peerMinor byte) []byte { return appendSubscribe(nil, peerMinor, topic) }
	if peerMinor, err = handshake(conn, d, subRole, first, now); err == nil {
		d.topic = []byte(topic)
	}
	return peerMinor, err
}
