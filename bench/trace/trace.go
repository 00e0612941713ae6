package trace

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/valyala/fastjson"
)

// Request is one request of a trace.
type Request struct {
	At     time.Duration // since the first request
	Input  int           // prompt tokens
	Output int           // tokens of the answer; 0 where it is unknown
	Block  int           // tokens that an id stands for
	IDs    []uint64      // of the prompt's blocks; equal ids, equal tokens
	Answer uint64        // id of the answer in later prompts; 0 is unknown
	Cached int           // prompt tokens found in the worker's cache; -1 is unknown
}

// Trace is the content of a file.
type Trace struct {
	Requests []Request // in the order of their arrival
	// Left counts lines without a prompt to play: requests that failed, and prompts of which a
	// router did not know the tokens.
	Left int
}

// ErrTrace is a line of a trace file that is no request.
var ErrTrace = errors.New("trace: bad trace")

const (
	// BlockTokens is how many tokens an id stands for where the trace does not say: Mooncake's.
	BlockTokens = 512
	// MaxSpan is the longest trace: simulated time counts picoseconds in 63 bits, 106 days.
	MaxSpan = 90 * 24 * time.Hour
	// MaxTokens bounds a prompt and an answer, so that numbers of pages fit 32 bits.
	MaxTokens = 1 << 28
	answered  = 200 // status of HTTP
	// maxLine bounds a line: 4 MiB of ids of 16 tokens each stand for a prompt of three
	// million.
	maxLine = 4 << 20
)

// Read reads one JSON object a line: {"timestamp": ms, "input_length", "output_length",
// "hash_ids"}, Mooncake's format (https://github.com/kvcache-ai/Mooncake, FAST25-release). Ours
// adds optional fields; a line without them has the meaning of Mooncake's: "block_size", the
// tokens of an id (512); "answer_id", the id of the answer in later prompts; "cached_tokens",
// the tokens that the worker found; "status", other than 200 where the request was not
// answered. Lines may stand in any order; their times are counted from the earliest. limit > 0
// bounds the requests.
func Read(r io.Reader, limit int) (Trace, error) {
	var t Trace
	err := readLines(r, func(v *fastjson.Value) (more bool, err error) {
		if unplayable(v) {
			t.Left++
			return true, nil
		}
		req, err := parse(v)
		if err != nil {
			return false, err
		}
		t.Requests = append(t.Requests, req)
		return len(t.Requests) != limit, nil
	})
	if err != nil {
		return t, err
	}
	return t, t.order()
}

// readLines parses each line that is not empty, until take wants no more. Errors name the line.
func readLines(r io.Reader, take func(v *fastjson.Value) (more bool, err error)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	var parser fastjson.Parser
	n := 1
	for ; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		v, err := parser.ParseBytes(lines.Bytes())
		if err != nil {
			return fmt.Errorf("cannot read line %d: %w: %w", n, ErrTrace, err)
		}
		more, err := take(v)
		if err != nil {
			return fmt.Errorf("cannot read line %d: %w: %w", n, ErrTrace, err)
		}
		if !more {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("cannot read line %d: %w: %w", n, ErrTrace, err)
	}
	return nil
}

// order sorts by arrival and counts time from the first. An access log has its lines by the end
// of the answers, and the time of day.
func (t *Trace) order() error {
	all := t.Requests
	if len(all) == 0 {
		return fmt.Errorf("cannot read the trace: %w: it has no request", ErrTrace)
	}
	slices.SortStableFunc(all, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
	first := all[0].At
	for i := range all {
		all[i].At -= first
	}
	if span := all[len(all)-1].At; span > MaxSpan {
		return fmt.Errorf("cannot read the trace: %w: it spans %v, more than %v", ErrTrace, span, MaxSpan)
	}
	return nil
}

// unplayable reports whether a line of an access log is no request that could be played again.
func unplayable(v *fastjson.Value) bool {
	if v.Exists("status") && v.GetInt("status") != answered {
		return true
	}
	return v.Exists("block_size") && v.Exists("hash_ids") && len(v.GetArray("hash_ids")) == 0
}

func parse(v *fastjson.Value) (Request, error) {
	r := Request{Block: BlockTokens, Cached: -1}
	var ms int
	for _, f := range [...]struct {
		name     string
		into     *int
		most     int
		optional bool
	}{
		{"timestamp", &ms, 1 << 43, false}, // milliseconds since 1970, until the year 2248
		{"input_length", &r.Input, MaxTokens, false},
		{"output_length", &r.Output, MaxTokens, false},
		{"block_size", &r.Block, MaxTokens, true},
		{"cached_tokens", &r.Cached, MaxTokens, true},
	} {
		if f.optional && !v.Exists(f.name) {
			continue
		}
		if err := natural(v, f.name, f.most, f.into); err != nil {
			return Request{}, err
		}
	}
	r.At = time.Duration(ms) * time.Millisecond
	ids := v.GetArray("hash_ids")
	switch {
	case r.Input == 0:
		return Request{}, errors.New("input_length is 0")
	case r.Block == 0 || len(ids) != (r.Input+r.Block-1)/r.Block:
		return Request{}, fmt.Errorf("%d hash_ids for input_length %d, want one for each %d tokens", len(ids), r.Input, r.Block)
	}
	r.IDs = make([]uint64, len(ids))
	var err error
	for i, id := range ids {
		if r.IDs[i], err = id.Uint64(); err != nil {
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

// natural reads a field that must be there and be a whole number from 0 to most.
func natural(v *fastjson.Value, name string, most int, into *int) error {
	field := v.Get(name)
	if field == nil {
		return fmt.Errorf("no %s", name)
	}
	n, err := field.Int()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if n < 0 || n > most {
		return fmt.Errorf("%s is %d, want 0 to %d", name, n, most)
	}
	*into = n
	return nil
}
