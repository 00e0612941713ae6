package upstream

import (
	"errors"
	"fmt"
	"io"

	"github.com/valyala/fasthttp"
)

// readBody reads the body of the request in ctx, of at most limit bytes, into memory that grows with
// the bytes that have come: a length alone costs its sender as much as the router. The memory is the
// connection's until the answer is written.
func (cl *Client) readBody(ctx *fasthttp.RequestCtx, limit int) error {
	stream := ctx.RequestBodyStream()
	if stream == nil {
		return nil
	}
	cl.readErr = nil
	var err error
	if length := ctx.Request.Header.ContentLength(); length >= 0 {
		err = cl.readLength(stream, length)
	} else {
		err = cl.readChunks(ctx, stream, limit)
	}
	if err != nil {
		return err
	}
	ctx.Request.SetBodyRaw(cl.body)
	return nil
}

// readLength reads a body of known length.
func (cl *Client) readLength(stream io.Reader, length int) error {
	cl.takeMemory(roomFor(length, 0))
	for len(cl.body) < length {
		n := len(cl.body)
		if n == cap(cl.body) {
			cl.takeMemory(roomFor(length, n))
		}
		m, err := stream.Read(cl.body[n:min(length, cap(cl.body))])
		cl.body = cl.body[:n+m]
		switch {
		case err == nil || len(cl.body) == length:
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		default:
			return err
		}
	}
	return nil
}

// readChunks reads a chunked body. fasthttp adds the fields of a trailer to the head's; they are
// dropped: nobody here knows them (RFC 9110 6.5.1), and a worker gets a body of known length.
func (cl *Client) readChunks(ctx *fasthttp.RequestCtx, stream io.Reader, limit int) error {
	var head fasthttp.RequestHeader
	ctx.Request.Header.CopyTo(&head)
	cl.coding = coding{on: true}
	defer func() { cl.coding.on = false }()
	cl.takeMemory(leastMemory)
	for {
		n := len(cl.body)
		if n == cap(cl.body) {
			cl.takeMemory(2 * n)
		}
		m, err := stream.Read(cl.body[n:cap(cl.body)])
		cl.body = cl.body[:n+m]
		cl.coding.body += m
		switch {
		case len(cl.body) > limit:
			return ErrBodyTooLarge
		case err == nil:
		case cl.readErr != nil: // fasthttp takes the end of the connection for that of the body
			return truncated(cl.readErr)
		case errors.Is(err, io.EOF):
			head.CopyTo(&ctx.Request.Header)
			return nil
		default:
			return err
		}
	}
}

// truncated is the error of a body whose connection has ended.
func truncated(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// coding bounds the chunked coding of a body: a client that sends one byte a chunk is served, one
// that sends extensions and next to no body is not.
type coding struct {
	on   bool
	raw  int // bytes read from the connection since the body began
	body int // bytes of the body among them
}

const (
	// usualCoding is the most bytes of coding for a byte of body: "1\r\n", "\r\n", and a short extension.
	usualCoding = 16
	// maxExcess is how much more is allowed: 16 KiB as in net/http, and 16 that wait in fasthttp's buffer.
	maxExcess = 32 << 10
)

// read counts n bytes, and refuses more coding than there may be.
func (c *coding) read(n int) error {
	if c.raw += n; c.raw-c.body-usualCoding*c.body > maxExcess {
		return fmt.Errorf("%w: more of the chunked coding than of the body", ErrRequest)
	}
	return nil
}

// takeMemory makes room for size bytes of the body, and keeps what is there.
func (cl *Client) takeMemory(size int) {
	old := cl.memory
	cl.memory = memoryOf(size)
	cl.body = append(cl.memory.b[:0], cl.body...)
	if old != nil {
		old.release()
	}
}

// dropBody gives the memory of the body back.
func (cl *Client) dropBody() {
	if cl.memory != nil {
		cl.memory.release()
		cl.memory, cl.body = nil, nil
	}
}
