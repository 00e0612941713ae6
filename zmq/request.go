package zmq

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	// maxRequestFrame bounds each frame that a client sends to a publisher. READY, a subscription
	// and a replay request have less than 300 bytes.
	maxRequestFrame = 16 << 10
	// requestBuffer holds several requests; 4,096 idle clients cost 2 MB.
	requestBuffer = 512
)

// requestReader reads the frames that subscribers and replay clients send to a publisher.
type requestReader struct {
	r    *bufio.Reader
	body []byte // Of the last frame.
}

func newRequestReader(r io.Reader) *requestReader {
	return &requestReader{r: bufio.NewReaderSize(r, requestBuffer)}
}

// next returns one frame. The body is valid until the next call. A stream that ends within a
// frame gives io.ErrUnexpectedEOF.
func (r *requestReader) next() (flags byte, body []byte, err error) {
	var head [9]byte
	if _, err := io.ReadFull(r.r, head[:2]); err != nil {
		return 0, nil, err
	}
	flags = head[0]
	length := uint64(head[1])
	if flags&flagLong != 0 {
		if _, err := io.ReadFull(r.r, head[2:]); err != nil {
			return 0, nil, unexpected(err)
		}
		length = binary.BigEndian.Uint64(head[1:])
	}
	if err := checkFlags(flags); err != nil {
		return 0, nil, err
	}
	if length > maxRequestFrame {
		return 0, nil, fmt.Errorf("%w: frame of %d bytes; the limit for clients is %d",
			ErrProtocol, length, maxRequestFrame)
	}
	if uint64(cap(r.body)) < length {
		r.body = make([]byte, length)
	}
	r.body = r.body[:length]
	if _, err := io.ReadFull(r.r, r.body); err != nil {
		return 0, nil, unexpected(err)
	}
	return flags, r.body, nil
}

// unexpected turns the end of a stream within a frame into io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if err == io.EOF { //nolint:errorlint // io.ReadFull returns it unwrapped.
		return io.ErrUnexpectedEOF
	}
	return err
}

// serverHandshake greets a client and reads its READY. Our READY is sent before the client's
// socket type is checked, so that a client at the wrong port learns which one it has reached.
func serverHandshake(conn net.Conn, own role, now time.Time) (*requestReader, byte, error) {
	if err := conn.SetDeadline(now.Add(handshakeTimeout)); err != nil {
		return nil, 0, err
	}
	peerMinor, err := greet(conn)
	if err != nil {
		return nil, 0, err
	}
	if _, err := conn.Write(appendReady(nil, own)); err != nil {
		return nil, 0, err
	}
	r := newRequestReader(conn)
	flags, body, err := r.next()
	switch {
	case err != nil:
		return nil, 0, err
	case flags&flagCommand == 0:
		return nil, 0, fmt.Errorf("%w: the peer sent a message before READY", ErrProtocol)
	}
	if err := checkReady(body, own); err != nil {
		return nil, 0, err
	}
	return r, peerMinor, conn.SetDeadline(time.Time{})
}

// clientCommand returns the PONG that answers a client's command, if it is a PING. An ERROR
// ends the connection; commands that a publisher does not know are ignored, as by libzmq.
func clientCommand(command []byte) (pong []byte, err error) {
	if reason, ok := bytes.CutPrefix(command, []byte(errorCommand)); ok {
		return nil, refusal(reason)
	}
	ping, ok, err := pingContext(command)
	if !ok || err != nil {
		return nil, err
	}
	return appendFrame(nil, flagCommand, pongCommand, string(ping)), nil
}
