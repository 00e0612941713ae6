package upstream

import (
	"bytes"
	"errors"
	"fmt"
)

// upload is a chunked body on its way in. It is bounded by what it is for: a client that sends a byte a chunk is served, one that sends
// extensions and next to no body is not.
type upload struct {
	chunkDecoder
	body   int // bytes so far, without the coding
	excess int // of the coding
}

const (
	// usualCoding is how many bytes of coding come with a byte of body, at most: "1\r\n", "\r\n", and a short extension.
	usualCoding = 16
	// maxExcess is how much more than that is borne with, as by net/http.
	maxExcess = 16 << 10
)

var errExcess = errors.New("more of the coding than of the body")

// begin readies u for the next body; limit is the most that may come behind it.
func (u *upload) begin(limit int) {
	*u = upload{chunkDecoder: chunkDecoder{limit: limit, trailer: u.trailer[:0]}}
}

// take is decode for a body of at most most bytes, whose errors are those of a request.
func (u *upload) take(dst, src []byte, most int) (nd, ns int, err error) {
	nd, ns, err = u.decode(dst, src)
	u.body += nd
	switch {
	case errors.Is(err, errChunkOverrun) && u.state >= trailerStart:
		return nd, ns, ErrTrailer
	case err != nil:
		return nd, ns, fmt.Errorf("%w: %w", ErrRequest, err)
	case u.body > most || u.left > int64(most-u.body):
		return nd, ns, ErrBodyTooLarge
	case u.state >= trailerStart:
		return nd, ns, nil
	}
	if u.excess = max(u.excess+ns-nd-usualCoding*nd, 0); u.excess > maxExcess {
		return nd, ns, fmt.Errorf("%w: %w", ErrRequest, errExcess)
	}
	return nd, ns, nil
}

// check looks at the fields behind the chunks, which nobody here knows, and which go nowhere.
func (u *upload) check() error {
	for rest := u.trailer; len(rest) > 0; {
		var line []byte
		line, rest, _ = bytes.Cut(rest, crlf)
		k, v, ok := bytes.Cut(line, colon)
		if !ok || !isToken(k) || bytes.IndexFunc(v, control) >= 0 || kindOf(k) > fieldOurs {
			return fmt.Errorf("%w: trailer %.40q", ErrRequest, line)
		}
	}
	return nil
}

// readChunks reads the body behind the head at the beginning of cl.ahead. It becomes one as if it had come with its length.
func (cl *Client) readChunks(in *Inbound, p *Plain) error {
	in.take(cl.ahead[:in.head], in.head)
	cl.drop(in.head)
	in.chunks.begin(p.MaxHead)
	for !in.chunks.done() {
		if len(cl.ahead) == 0 {
			if err := cl.refill(in); err != nil {
				return err
			}
		}
		n, err := in.unchunk(cl.ahead, p.MaxBody())
		cl.drop(n)
		if err != nil {
			return err
		}
	}
	return in.chunks.check()
}

// refill reads ahead where nothing is left of it.
func (cl *Client) refill(in *Inbound) error {
	if err := cl.goOn(in); err != nil {
		return err
	}
	cl.room, _ = cl.l.spare.Get().(*aheadBuffer)
	n, err := cl.receive(cl.room[:], false)
	cl.keepAhead(n)
	return err
}

// unchunk appends what of the body is in src, and returns how much of src it has used.
func (in *Inbound) unchunk(src []byte, most int) (int, error) {
	n := len(in.buf)
	if need := n + len(src); need > cap(in.buf) {
		in.enlarge(max(need, 2*cap(in.buf), roomFor(need+int(in.chunks.left), need)))
	}
	nd, ns, err := in.chunks.take(in.buf[n:cap(in.buf)], src, most)
	in.buf = in.buf[:n+nd]
	return ns, err
}
