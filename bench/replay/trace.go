package replay

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/valyala/fastjson"
)

// BlockTokens is how many tokens one hash id of a trace stands for.
const BlockTokens = 512

// Request is one line of a trace.
type Request struct {
	At     time.Duration // since the trace's first moment
	Input  int           // prompt tokens
	Output int           // tokens of the answer
	Blocks []uint64      // ids of the prompt's blocks of [BlockTokens]; the last one may be cut. Equal ids, equal tokens.
}

// Source yields a trace's requests in the order of their arrival, and io.EOF after the last.
type Source interface {
	Next() (Request, error)
}

// ErrTrace is a line of a trace file that is no request.
var ErrTrace = errors.New("replay: bad trace")

// maxLine bounds a line of a trace: 1 MiB of hash ids stand for a prompt of 60 million tokens.
const maxLine = 1 << 20

// Trace reads Mooncake's format, one JSON object a line: {"timestamp": ms, "input_length", "output_length", "hash_ids"}.
// See https://github.com/kvcache-ai/Mooncake, FAST25-release.
type Trace struct {
	lines  *bufio.Scanner
	parser fastjson.Parser
	line   int
	last   time.Duration
}

var _ Source = (*Trace)(nil)

// NewTrace reads from r as Next is called: a trace need not fit into memory.
func NewTrace(r io.Reader) *Trace {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	return &Trace{lines: lines}
}

// File is a trace that closes its file.
type File struct {
	*Trace
	io.Closer
}

// NewTraceFile reads a trace from f and owns it.
func NewTraceFile(f io.ReadCloser) File { return File{NewTrace(f), f} }

// Next returns the next request, with memory of its own. Empty lines are skipped.
func (t *Trace) Next() (Request, error) {
	for t.lines.Scan() {
		t.line++
		if len(t.lines.Bytes()) == 0 {
			continue
		}
		r, err := t.parse(t.lines.Bytes())
		if err != nil {
			return Request{}, fmt.Errorf("cannot read line %d: %w: %w", t.line, ErrTrace, err)
		}
		t.last = r.At
		return r, nil
	}
	if err := t.lines.Err(); err != nil {
		return Request{}, fmt.Errorf("cannot read line %d: %w: %w", t.line+1, ErrTrace, err)
	}
	return Request{}, io.EOF
}

func (t *Trace) parse(line []byte) (Request, error) {
	v, err := t.parser.ParseBytes(line)
	if err != nil {
		return Request{}, err
	}
	ms, err := natural(v, "timestamp")
	if err != nil {
		return Request{}, err
	}
	r := Request{At: time.Duration(ms) * time.Millisecond}
	if r.Input, err = natural(v, "input_length"); err != nil {
		return Request{}, err
	}
	if r.Output, err = natural(v, "output_length"); err != nil {
		return Request{}, err
	}
	ids := v.GetArray("hash_ids")
	switch {
	case r.At < t.last:
		return Request{}, fmt.Errorf("timestamp %d is before the line above", ms)
	case r.Input == 0:
		return Request{}, errors.New("input_length is 0")
	case len(ids) != (r.Input+BlockTokens-1)/BlockTokens:
		return Request{}, fmt.Errorf("%d hash_ids for input_length %d, want one for each %d tokens", len(ids), r.Input, BlockTokens)
	}
	r.Blocks = make([]uint64, len(ids))
	for i, id := range ids {
		if r.Blocks[i], err = id.Uint64(); err != nil {
			return Request{}, fmt.Errorf("hash_ids[%d]: %w", i, err)
		}
	}
	return r, nil
}

// natural reads a field that must be there and be a whole number from 0.
func natural(v *fastjson.Value, name string) (int, error) {
	field := v.Get(name)
	if field == nil {
		return 0, fmt.Errorf("no %s", name)
	}
	n, err := field.Int()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	if n < 0 {
		return 0, fmt.Errorf("%s is %d", name, n)
	}
	return n, nil
}
