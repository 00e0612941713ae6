package zmq_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/zmq"
)

// naiveClient reads all bytes of a client of a publisher of "kv-events" from one buffer: the
// oracle.
func naiveClient(b []byte) (seen zmq.ClientSeen, bad bool) {
	if naiveGreeting(b) {
		return seen, true
	}
	const greeting = 64
	if len(b) < greeting {
		return seen, false
	}
	prefixes := map[string]bool{}
	for at, n := greeting, 0; ; n++ {
		flags, body, size, refused := naiveFrame(b[at:])
		if refused {
			return seen, true
		}
		if size == 0 {
			return seen, false
		}
		at += size
		command := flags&4 != 0
		text := string(body)
		switch {
		case n == 0 && (!command || !naiveSubscriberReady(text)):
			return seen, true
		case n == 0:
		case command && strings.HasPrefix(text, "\x05ERROR"):
			return seen, true
		case command && strings.HasPrefix(text, "\x04PING"):
			if len(text) < 7 || len(text) > 23 {
				return seen, true
			}
			seen.Pong = string(frame(4, "\x04PONG"+text[7:], false))
		case command && strings.HasPrefix(text, "\x09SUBSCRIBE"):
			seen.Subscriptions++
			prefixes[text[10:]] = true
		case command && strings.HasPrefix(text, "\x06CANCEL"):
			delete(prefixes, text[7:])
		case !command && strings.HasPrefix(text, "\x01"):
			seen.Subscriptions++
			prefixes[text[1:]] = true
		case !command && strings.HasPrefix(text, "\x00"):
			delete(prefixes, text[1:])
		}
		seen.Matches = false
		for prefix := range prefixes {
			seen.Matches = seen.Matches || strings.HasPrefix("kv-events", prefix)
		}
	}
}

// naiveGreeting reports whether a greeting, or the part of it that came, must be refused.
func naiveGreeting(b []byte) bool {
	at := func(i int, bad func(byte) bool) bool { return len(b) > i && bad(b[i]) }
	return at(0, func(c byte) bool { return c != 0xff }) || at(9, func(c byte) bool { return c%2 == 0 }) ||
		at(10, func(c byte) bool { return c < 3 }) ||
		len(b) >= 32 && string(b[12:32]) != "NULL"+strings.Repeat("\x00", 16)
}

// naiveFrame cuts one frame; size is 0 if it has not come whole.
func naiveFrame(b []byte) (flags byte, body []byte, size int, refused bool) {
	if len(b) < 2 || b[0]&2 != 0 && len(b) < 9 {
		return 0, nil, 0, false
	}
	head, length := 2, uint64(b[1])
	if b[0]&2 != 0 {
		head, length = 9, binary.BigEndian.Uint64(b[1:])
	}
	if b[0] > 7 || b[0]&5 == 5 || length > zmq.MaxRequestFrame {
		return 0, nil, 0, true
	}
	if uint64(len(b)-head) < length {
		return 0, nil, 0, false
	}
	size = head + int(length)
	return b[0], b[head:size], size, false
}

// naiveSubscriberReady reports whether a command is the READY of a SUB or XSUB socket.
func naiveSubscriberReady(text string) bool {
	b, ok := strings.CutPrefix(text, "\x05READY")
	for ok && len(b) > 0 {
		name := int(b[0])
		if len(b) < 1+name+4 {
			return false
		}
		size := uint64(binary.BigEndian.Uint32([]byte(b[1+name:])))
		rest := b[1+name+4:]
		if uint64(len(rest)) < size {
			return false
		}
		if strings.EqualFold(b[1:1+name], "Socket-Type") {
			return rest[:size] == "SUB" || rest[:size] == "XSUB"
		}
		b = rest[size:]
	}
	return false
}

// piecewise is a connection that delivers one piece for each read and records writes.
type piecewise struct {
	net.Conn
	pieces  [][]byte
	written bytes.Buffer
}

func (c *piecewise) Read(p []byte) (int, error) {
	if len(c.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.pieces[0])
	if c.pieces[0] = c.pieces[0][n:]; len(c.pieces[0]) == 0 {
		c.pieces = c.pieces[1:]
	}
	return n, nil
}

func (c *piecewise) Write(p []byte) (int, error) { return c.written.Write(p) }
func (*piecewise) SetDeadline(time.Time) error   { return nil }

func requireServes(t *testing.T, stream []byte, seed uint64) {
	t.Helper()
	want, bad := naiveClient(stream)
	conn := &piecewise{pieces: cut(stream, seed)}
	if len(stream) == 0 {
		conn.pieces = nil
	}
	got, err := zmq.ServeClient(conn, "kv-events")
	require.Equal(t, bad, !isEnd(err), "%v", err)
	if bad {
		require.ErrorIs(t, err, zmq.ErrProtocol)
	}
	require.Equal(t, want, got)
	require.True(t, strings.HasPrefix(helloBytes+pubReady, conn.written.String()), "%q", conn.written.String())
}

func isEnd(err error) bool { return err == io.EOF || err == io.ErrUnexpectedEOF } //nolint:errorlint // Unwrapped.

// clients are streams that clients send, and some that they should not.
func clients() (streams [][]byte) {
	good := helloBytes + readyBytes
	for _, s := range []string{
		"", helloBytes[:20], helloBytes, good, good + asked31 + asked30, good + asked31 + "\x04\x09\x06CANCELkv",
		good + asked30 + "\x00\x03\x00kv" + "\x00\x02\x00x", good + "\x04\x0a\x09SUBSCRIBE" + "\x00\x01\x00",
		good + "\x04\x0b\x04PING\x00\x00abcd" + "\x04\x07\x04PING\x00\x00", good + "\x04\x05\x04PING",
		good + "\x01\x00\x00\x00\x00\x01z" + asked31[:5], good + "\x04\x04\x03NEW" + "\x04\x07\x05ERROR\x00",
		good + "\x02\x00\x00\x00\x00\x00\x00\x00\x04\x01kv-", good + "\x02\x00\x00\x00\x00\x00\x00\x40\x01", good + "\x08\x00", good + "\x05\x00",
		good + "\x06\x00\x00\x00\x00\x00\x00\x40\x00" + strings.Repeat("x", zmq.MaxRequestFrame) + asked31,
		helloBytes + "\x04\x25\x05READY\x05other\x00\x00\x00\x02xy\x0bsocket-TYPE\x00\x00\x00\x04XSUB" + asked31,
		helloBytes + "\x04\x06\x05READY", helloBytes + "\x00\x01x", helloBytes + "\x04\x16\x05READY\x0bSocket-Type\xff\xff\xff\xff",
		"GET / HTTP/1.1\r\n\r\n", strings.Replace(good, "NULL\x00", "CURVE", 1), strings.Replace(good, "\x03\x01", "\x02\x00", 1),
		strings.Replace(good, "\x03\x01", "\x04\x07", 1) + asked31,
	} {
		streams = append(streams, []byte(s))
	}
	return streams
}

func TestClients(t *testing.T) {
	for _, stream := range clients() {
		for seed := range uint64(5) {
			requireServes(t, stream, seed)
		}
	}
}

// FuzzClient cuts a client's bytes in random pieces. The oracle sees them in one.
func FuzzClient(f *testing.F) {
	for i, stream := range clients() {
		f.Add(stream[:min(len(stream), 1<<12)], uint64(i))
	}
	f.Fuzz(requireServes)
}
