package policies

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/valyala/fastjson"
)

// Segment is a run of tokens with one name: equal ids stand for equal tokens, position by position. A shorter segment of
// the same id is a prefix of the longer one.
type Segment struct {
	ID     uint64
	Tokens int
}

// Request is one request of a trace.
type Request struct {
	At     time.Duration // since the trace's first moment
	Prompt []Segment
	Output int    // tokens of the answer, at least 1
	Answer uint64 // segment id of the answer, if a later prompt contains it; 0 is an answer that nobody repeats
}

// Input returns the prompt's length in tokens.
func (r *Request) Input() (n int) {
	for _, s := range r.Prompt {
		n += s.Tokens
	}
	return n
}

// ErrTrace is a line of a trace file that is no request.
var ErrTrace = errors.New("policies: bad trace")

// blockTokens is how many tokens a hash id stands for where the trace does not say: Mooncake's.
const blockTokens = 512

// maxLine bounds a line of a trace: 1 MiB of hash ids stand for a prompt of 60 million tokens.
const maxLine = 1 << 20

// answerBit marks ids of answers that a trace does not name. Ids of traces are small numbers or 63-bit hashes.
const answerBit = 1 << 63

// ReadTrace reads a trace in Mooncake's format (https://github.com/kvcache-ai/Mooncake, FAST25-release), one JSON object
// a line: {"timestamp": ms, "input_length", "output_length", "hash_ids"}. Ours adds two optional fields, without which a
// line means what it means there: "block_size", the tokens of a hash id (512), and "answer_id", the id under which the
// answer appears in later prompts. Lines may come in any order of time; limit > 0 reads at most so many.
func ReadTrace(r io.Reader, limit int) ([]Request, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	var (
		parser fastjson.Parser
		out    []Request
	)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		v, err := parser.ParseBytes(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("cannot read line %d: %w: %w", n, ErrTrace, err)
		}
		req, err := parseRequest(v)
		if err != nil {
			return nil, fmt.Errorf("cannot read line %d: %w: %w", n, ErrTrace, err)
		}
		if out = append(out, req); len(out) == limit {
			break
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("cannot read the trace: %w: %w", ErrTrace, err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("cannot read the trace: %w: it is empty", ErrTrace)
	}
	return out, nil
}

func parseRequest(v *fastjson.Value) (Request, error) {
	ms, err := natural(v, "timestamp")
	if err != nil {
		return Request{}, err
	}
	if int64(ms) > maxSpan.Milliseconds() {
		return Request{}, fmt.Errorf("timestamp is %d ms, later than %v", ms, maxSpan)
	}
	input, err := natural(v, "input_length")
	if err != nil {
		return Request{}, err
	}
	output, err := natural(v, "output_length")
	if err != nil {
		return Request{}, err
	}
	size := blockTokens
	if v.Exists("block_size") {
		if size, err = natural(v, "block_size"); err != nil {
			return Request{}, err
		}
	}
	ids := v.GetArray("hash_ids")
	switch {
	case input == 0 || input > maxTokens || output > maxTokens:
		return Request{}, fmt.Errorf("input_length is %d and output_length %d, want 1 to %d", input, output, maxTokens)
	case size == 0 || len(ids) != (input+size-1)/size:
		return Request{}, fmt.Errorf("%d hash_ids for input_length %d, want one for each %d tokens", len(ids), input, size)
	}
	r := Request{At: time.Duration(ms) * time.Millisecond, Output: max(output, 1), Prompt: make([]Segment, len(ids))}
	for i, id := range ids {
		r.Prompt[i].Tokens = min(size, input-i*size)
		if r.Prompt[i].ID, err = id.Uint64(); err != nil {
			return Request{}, fmt.Errorf("hash_ids[%d]: %w", i, err)
		}
	}
	if v.Exists("answer_id") {
		if r.Answer, err = v.Get("answer_id").Uint64(); err != nil {
			return Request{}, fmt.Errorf("answer_id: %w", err)
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

// maxTokens bounds a prompt and an answer, so that page numbers fit 32 bits.
const maxTokens = 1 << 28
