package replay

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"
)

// The values of fasthttp's ContentLength for bodies of unknown length.
const (
	inChunks   = -1
	untilClose = -2
)

// errChunk is a chunked body that is not one.
var errChunk = errors.New("bad chunk")

// newBody returns the answer's body: its Read returns the bytes that have come, without waiting
// for more.
func newBody(in *bufio.Reader, header *fasthttp.ResponseHeader) io.Reader {
	switch n := header.ContentLength(); n {
	case inChunks:
		return &chunked{in: in}
	case untilClose:
		return in
	default:
		return &fixed{in: in, left: n}
	}
}

// fixed reads a body of known length. Unlike io.LimitReader it tells a body that was cut.
type fixed struct {
	in   *bufio.Reader
	left int
}

func (f *fixed) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, io.EOF
	}
	n, err := f.in.Read(p[:min(len(p), f.left)])
	f.left -= n
	return n, cut(err)
}

// chunked reads a body in chunks, and its end, so that the connection can be used again.
type chunked struct {
	in    *bufio.Reader
	left  int // of the chunk
	begun bool
	ended bool
}

func (c *chunked) Read(p []byte) (int, error) {
	if c.ended {
		return 0, io.EOF
	}
	if c.left == 0 {
		if err := c.next(); err != nil {
			return 0, cut(err)
		}
		if c.ended {
			return 0, io.EOF
		}
	}
	n, err := c.in.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, cut(err)
}

// next reads a chunk's head, and after the last one the trailer.
func (c *chunked) next() error {
	if c.begun {
		if line, err := c.line(); err != nil || line != "" {
			return errors.Join(err, notEmpty(line))
		}
	}
	c.begun = true
	line, err := c.line()
	if err != nil {
		return err
	}
	size, _, _ := strings.Cut(line, ";") // Extensions mean nothing here.
	n, err := strconv.ParseUint(strings.TrimSpace(size), 16, 31)
	if err != nil {
		return fmt.Errorf("%w: %w", errChunk, err)
	}
	if c.left = int(n); n > 0 {
		return nil
	}
	for {
		if line, err = c.line(); err != nil || line == "" {
			c.ended = err == nil
			return err
		}
	}
}

func notEmpty(line string) error {
	if line == "" {
		return nil
	}
	return fmt.Errorf("%w: %q follows its bytes", errChunk, line)
}

func (c *chunked) line() (string, error) {
	line, err := c.in.ReadSlice('\n')
	return strings.TrimRight(string(line), "\r\n"), err
}

// cut turns the end of a connection within a body into an error of its own.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
