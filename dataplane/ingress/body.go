package ingress

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"sync"

	"github.com/valyala/fasthttp"
)

// body is the body of the request being served, in memory that grows with the bytes that have
// come: a length alone costs its sender as much as the router.
type body struct {
	b      []byte
	memory *memory
	coding coding
}

// readBody reads the body of the request in ctx. Its memory is the connection's until the
// answer is written.
func (cl *Client) readBody(ctx *fasthttp.RequestCtx) error {
	stream := ctx.RequestBodyStream()
	if stream == nil {
		return nil
	}
	h := &ctx.Request.Header
	cl.readErr = nil
	if length := h.ContentLength(); length >= 0 {
		cl.arrived.length = length
		if err := cl.body.readLength(stream, length); err != nil {
			return err
		}
	} else {
		// fasthttp adds the trailer's fields to the head's. Nobody here knows them (RFC 9110
		// 6.5.1), and a worker gets a body of known length: they are dropped.
		var head fasthttp.RequestHeader
		h.CopyTo(&head)
		err := cl.readChunks(stream)
		if cl.readErr != nil { // fasthttp takes the end of the connection for the end of the body
			err = cl.readErr
		}
		switch {
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
		head.CopyTo(h)
	}
	ctx.Request.SetBodyRaw(cl.body.b)
	return nil
}

// readLength reads a body of known length.
func (b *body) readLength(stream io.Reader, length int) error {
	b.grow(roomFor(length, 0))
	for len(b.b) < length {
		n := len(b.b)
		if n == cap(b.b) {
			b.grow(roomFor(length, n))
		}
		m, err := stream.Read(b.b[n:min(length, cap(b.b))])
		b.b = b.b[:n+m]
		switch {
		case err == nil || len(b.b) == length:
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		default:
			return err
		}
	}
	return nil
}

// readChunks reads a chunked body.
func (cl *Client) readChunks(stream io.Reader) error {
	came := cl.arrived.last
	cl.arrived, cl.body.coding = arrived{length: -1}, coding{on: true}
	defer func() { cl.body.coding.on = false }()
	if err := cl.note(came); err != nil {
		return err
	}
	return cl.body.readChunks(stream, cl.s.cfg.MaxBody())
}

// readChunks reads a chunked body of at most limit bytes.
func (b *body) readChunks(stream io.Reader, limit int) error {
	b.grow(leastMemory)
	for {
		n := len(b.b)
		if n == cap(b.b) {
			b.grow(2 * n)
		}
		m, err := stream.Read(b.b[n:cap(b.b)])
		b.b = b.b[:n+m]
		b.coding.body += m
		switch {
		case len(b.b) > limit:
			return ErrBodyTooLarge
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// grow makes room for size bytes in all.
func (b *body) grow(size int) {
	old := b.memory
	b.memory = memoryOf(size)
	b.b = append(b.memory.b[:0], b.b...)
	if old != nil {
		old.release()
	}
}

// release gives the memory back.
func (b *body) release() {
	if b.memory != nil {
		b.memory.release()
		b.memory, b.b = nil, nil
	}
}

// arrived are the bytes behind a head that have come: of its body, and of requests that came in one
// piece with it.
type arrived struct {
	length int    // of the body; -1: it is chunked, and no part of the others
	all    int    // bytes
	last   []byte // the last piece, in fasthttp's buffer
}

func (a *arrived) add(p []byte) { a.all, a.last = a.all+len(p), p }

// behind returns the bytes behind the body when fasthttp has read all of it.
func (a *arrived) behind() []byte {
	if a.length < 0 {
		return a.last
	}
	return a.last[len(a.last)-min(max(a.all-a.length, 0), len(a.last)):]
}

// chunks finds the end of a chunked body. fasthttp (1.74) does not tell where it was, and waits for
// more where a line of the trailer ends in LF alone.
type chunks struct {
	left    int  // bytes of a chunk that have not come, with the end of its line
	size    int  // of the next chunk, as far as its digits have come
	sized   bool // that was all of them
	part    int  // bytes of the line that has not ended
	cr      bool // the last of them is CR
	trailer bool // the last chunk has come
	ended   bool // and the trailer
}

// maxChunk is more than any body has; fasthttp refuses sizes that do not fit an int.
const maxChunk = 1 << 40

// read looks at the next bytes of a connection, and returns those behind the body.
func (c *chunks) read(p []byte) ([]byte, error) {
	for len(p) > 0 && !c.ended {
		if c.left > 0 {
			n := min(c.left, len(p))
			c.left, p = c.left-n, p[n:]
			continue
		}
		b := p[0]
		p = p[1:]
		if b != '\n' {
			c.digit(b)
			c.part, c.cr = c.part+1, b == '\r'
			continue
		}
		switch {
		case !c.cr:
			return nil, errBareLF
		case c.trailer:
			c.ended = c.part == 1
		case c.size == 0:
			c.trailer = true
		default:
			c.left = c.size + len("\r\n")
		}
		c.size, c.sized, c.part, c.cr = 0, false, 0, false
	}
	return p, nil
}

// digit takes a byte of the line before a chunk.
func (c *chunks) digit(b byte) {
	d, ok := hexDigit(b)
	if c.sized = c.sized || !ok; !c.sized {
		c.size = min(c.size<<4|int(d), maxChunk)
	}
}

// coding bounds the chunked coding of a body. A client that sends one byte a chunk is served;
// one that sends extensions and next to no body is not.
type coding struct {
	on   bool
	raw  int // bytes read from the connection since the body began
	body int // bytes of the body among them

	chunks chunks
}

const (
	// usualCoding is the most bytes of coding for a byte of body: "1\r\n", "\r\n" and a short
	// extension.
	usualCoding = 16
	// maxExcess allows 16 KiB more, as net/http does, and 16 KiB that wait in fasthttp's
	// buffer.
	maxExcess = 32 << 10
)

// read counts n bytes from the connection, and refuses more coding than there may be.
func (c *coding) read(n int) error {
	if c.raw += n; c.raw-c.body-usualCoding*c.body > maxExcess {
		return fmt.Errorf("%w: more of the chunked coding than of the body", ErrRequest)
	}
	return nil
}

// memory is room for a request's body, from a pool of its size. fasthttp's pool for bodies
// (1.74) drops the largest by the sizes it has seen: where most are small, each large one would
// be allocated anew.
type memory struct{ b []byte }

const (
	leastMemory = 4 << 10
	// believed is a length for which there is room at once; longer bodies get room step by
	// step.
	believed = 16 << 10
	// roomAhead is how many times the bytes that have come a longer body gets room for. Steps
	// end at the whole length, so that a long body is copied by a fifteenth of its length at
	// most.
	roomAhead = 16
)

// memories are by size, in powers of two from leastMemory to 64 MiB. Larger memory is not kept.
var memories [15]sync.Pool

// memoryOf returns memory for size bytes.
func memoryOf(size int) *memory {
	class := bits.Len(uint(max(size, 1)-1) / leastMemory)
	if class >= len(memories) {
		return &memory{make([]byte, size)}
	}
	if m, ok := memories[class].Get().(*memory); ok {
		return m
	}
	return &memory{make([]byte, leastMemory<<class)}
}

// release makes m available to others.
func (m *memory) release() {
	n := len(m.b)
	if class := bits.Len(uint(n)/leastMemory) - 1; class < len(memories) && n == leastMemory<<class {
		memories[class].Put(m)
	}
}

// roomFor returns the memory for a body of length bytes of which come have come.
func roomFor(length, come int) int {
	for length > believed && length/roomAhead > come {
		length = max(length/roomAhead, believed)
	}
	return length
}
