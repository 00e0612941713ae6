package load

import (
	"bytes"
	"errors"

	"github.com/warmpath/warmpath/bench/proxy/wire"
)

// Causes of failed requests; they are counted by their text.
var (
	errHTTP    = errors.New("the answer is not HTTP")
	errCut     = errors.New("closed before the answer's end")
	errEvents  = errors.New("events are missing")
	errEnd     = errors.New("the stream has no end mark")
	errJSON    = errors.New("the answer is not a JSON object")
	errText    = errors.New("the answer's text is missing")
	errTimeout = errors.New("timeout")
	errLate    = errors.New("unanswered at the end")
	errExtra   = errors.New("more than was asked for")
)

// statusOK begins good answers.
const statusOK = 200

// maxKept bounds a buffered answer: ours are below 64 KiB.
const maxKept = 1 << 20

// response reads one answer as it comes. The zero value with status 0 waits for its head.
type response struct {
	head    wire.Head
	status  int
	left    int    // of the body or the chunk; in a chunk with its end
	sized   bool   // the chunk's size is known
	last    bool   // and it is the last one
	body    []byte // when it is no stream
	events  int
	newline bool               // the last byte was a line end, of no empty line yet
	tail    [len(endMark)]byte // the last bytes of a stream
	bytes   int
	ended   bool
}

const endMark = "data: [DONE]\n\n"

func (r *response) reset() { *r = response{body: r.body[:0]} }

// begun reports whether the first byte of the body has come.
func (r *response) begun() bool { return r.bytes > 0 }

// feed parses received bytes and returns the number used. ended reports whether the answer is
// complete.
func (r *response) feed(b []byte) (used int, err error) {
	if r.status == 0 {
		if used, err = r.start(b); r.status == 0 || err != nil {
			return used, err
		}
	}
	for !r.ended && used < len(b) {
		var n int
		if r.head.Chunked && !r.sized {
			n, err = r.size(b[used:])
		} else {
			n = min(len(b)-used, r.left)
			r.take(b[used : used+n])
		}
		if used += n; err != nil || n == 0 {
			return used, err
		}
	}
	return used, nil
}

// start reads the head; a 100 is skipped.
func (r *response) start(b []byte) (used int, err error) {
	for {
		h, ok := wire.ParseHead(b[used:])
		if !ok {
			return used, errHTTP
		}
		if h.Size == 0 {
			return used, nil
		}
		used += h.Size
		_, rest, _ := bytes.Cut(h.Line, []byte(" "))
		code, _, _ := bytes.Cut(rest, []byte(" "))
		if r.status, ok = wire.Number(code); !ok || r.status < 100 || !bytes.HasPrefix(h.Line, []byte("HTTP/1.")) {
			return used, errHTTP
		}
		if r.status == 100 {
			r.status = 0
			continue
		}
		r.head, r.left = h, h.Length
		r.head.Line = nil
		if h.Length < 0 && !h.Chunked {
			r.left = int(^uint(0) >> 1) // up to the end of the connection
		}
		r.ended = r.left == 0 && !h.Chunked
		return used, nil
	}
}

// size reads the line that begins a chunk.
func (r *response) size(b []byte) (used int, err error) {
	n, line, ok := wire.ChunkSize(b)
	if !ok {
		return 0, errHTTP
	}
	if line > 0 {
		// The last chunk has no trailers: no router adds any.
		r.left, r.sized, r.last = n+len("\r\n"), true, n == 0
	}
	return line, nil
}

// take counts bytes of the body; the last two of a chunk are only its end.
func (r *response) take(b []byte) {
	content := len(b)
	if r.head.Chunked {
		content = min(len(b), max(0, r.left-len("\r\n")))
	}
	r.content(b[:content])
	if r.left -= len(b); r.left > 0 {
		return
	}
	r.ended = !r.head.Chunked || r.last
	r.sized = false
}

// content looks at bytes of the body itself.
func (r *response) content(b []byte) {
	if len(b) == 0 {
		return
	}
	if !r.head.Events {
		if len(r.body) < maxKept {
			r.body = append(r.body, b...)
		}
		r.bytes += len(b)
		return
	}
	r.bytes += len(b)
	r.countEvents(b)
	if n := len(r.tail); len(b) >= n {
		copy(r.tail[:], b[len(b)-n:])
	} else {
		copy(r.tail[:], r.tail[len(b):])
		copy(r.tail[n-len(b):], b)
	}
}

// countEvents counts empty lines, which end events. The two line ends may come apart; each counts
// once.
func (r *response) countEvents(b []byte) {
	if r.newline && b[0] == '\n' {
		r.events++
		r.newline = false
		if b = b[1:]; len(b) == 0 {
			return
		}
	}
	r.events += bytes.Count(b, []byte("\n\n"))
	ends := len(b) - len(bytes.TrimRight(b, "\n"))
	r.newline = ends%2 == 1
}

// closed says that the connection has ended; the answer is then complete only if nothing else could
// have ended it.
func (r *response) closed() bool {
	return r.status != 0 && r.head.Length < 0 && !r.head.Chunked
}

// check returns the fault of a complete answer of status 200: its number of tokens, or a text
// without the wanted one.
func (r *response) check(stream bool, tokens int, text []byte) error {
	if stream {
		switch {
		case string(r.tail[:]) != endMark:
			return errEnd
		case r.events < tokens+1:
			return errEvents
		}
		return nil
	}
	body := bytes.TrimSpace(r.body)
	switch {
	case len(body) < 2 || body[0] != '{' || body[len(body)-1] != '}':
		return errJSON
	case !bytes.Contains(body, text):
		return errText
	}
	return nil
}
