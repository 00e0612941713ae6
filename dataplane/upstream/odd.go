package upstream

import (
	"bufio"
	"bytes"
	"fmt"
	"sync"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// awaitOdd waits for a request that is fasthttp's, so that it finds it in cl.ahead, whole and alone: it would make room for a body when it
// was told of its length, take chunks with extensions of any length, and wait for more of a head that has ended in another way.
func (cl *Client) awaitOdd(p *Plain) error {
	if c := cl.ahead[0]; !nameByte[c] && c != '\r' && c != '\n' { // It may never say where it ends.
		if tlsconfig.IsRecord(cl.ahead) {
			return fmt.Errorf("%w: it is TLS, which this port does not speak: use http://", ErrRequest)
		}
		return fmt.Errorf("%w: it begins with %q", ErrRequest, c)
	}
	for {
		end := wholeHead(cl.ahead)
		if end == headOdd {
			return fmt.Errorf("%w: a line of its head does not end with CRLF", ErrRequest)
		}
		if end > 0 {
			if spacedName(cl.ahead[:end]) {
				return fmt.Errorf("%w: a field's name has a space", ErrRequest)
			}
			return cl.awaitBody(end, p)
		}
		if ok, err := cl.more(p.MaxHead); err != nil || !ok {
			return err // what is too long, fasthttp says
		}
	}
}

// oddHead is a head as fasthttp reads it.
type oddHead struct {
	fasthttp.RequestHeader
	from bytes.Reader
	br   *bufio.Reader
}

var oddHeads = sync.Pool{New: func() any { return &oddHead{br: bufio.NewReaderSize(nil, len(aheadBuffer{}))} }}

// read reads a head, and reports whether it is one.
func (h *oddHead) read(head []byte) bool {
	h.from.Reset(head)
	if h.br.Size() < len(head) {
		h.br = bufio.NewReaderSize(nil, len(head))
	}
	h.br.Reset(&h.from)
	return h.Read(h.br) == nil
}

// awaitBody waits for the body behind the head of end bytes. What fasthttp will refuse by the head, it does not wait for.
func (cl *Client) awaitBody(end int, p *Plain) error {
	h := oddHeads.Get().(*oddHead) //nolint:forcetypeassert // Nothing else is put there.
	defer oddHeads.Put(h)
	if !h.read(cl.ahead[:end]) {
		return nil
	}
	size := h.ContentLength()
	if size > p.MaxBody() {
		return nil
	}
	if expect := h.Peek(fasthttp.HeaderExpect); len(expect) > 0 && h.IsHTTP11() && size != 0 {
		if !fold(expect, "100-continue") {
			return nil
		}
		if len(cl.ahead) == end {
			if _, err := cl.Write(continues); err != nil { // fasthttp will say it, too
				return err
			}
		}
	}
	if size == -1 {
		if hasLength(cl.ahead[:end]) {
			return fmt.Errorf("%w: it has both Content-Length and Transfer-Encoding", ErrRequest)
		}
		return cl.awaitChunks(end, p)
	}
	cl.theirs = end + max(size, 0)
	for {
		if ok, err := cl.more(cl.theirs); err != nil || !ok {
			return err
		}
	}
}

// awaitChunks waits for chunks, which stay as they are.
func (cl *Client) awaitChunks(at int, p *Plain) error {
	room, _ := cl.l.spare.Get().(*aheadBuffer)
	defer cl.l.spare.Put(room)
	var u upload
	for u.begin(p.MaxHead); !u.done(); {
		most := p.MaxBody()
		if at == len(cl.ahead) {
			if ok, err := cl.more(2*most + maxExcess); err != nil {
				return err
			} else if !ok {
				return ErrBodyTooLarge
			}
		}
		_, n, err := u.take(room[:], cl.ahead[at:], most)
		if err != nil {
			return err
		}
		at += n
	}
	cl.theirs = at
	return nil
}

// hasLength looks for a Content-Length, of which fasthttp says nothing where there are chunks.
func hasLength(head []byte) bool {
	for line := range bytes.Lines(head) {
		if name, _, ok := bytes.Cut(line, colon); ok && fold(name, "content-length") {
			return true
		}
	}
	return false
}
