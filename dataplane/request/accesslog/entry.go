package accesslog

import (
	"net/netip"
	"strconv"
	"time"
	"unicode/utf8"
)

// Entry is one request.
type Entry struct {
	Name    []byte // of the request, from X-Request-ID
	Arrived time.Time
	TTFT    time.Duration // until the first byte of the answer; 0: unknown
	Took    time.Duration // until its end
	Status  int           // HTTP
	Input   int           // prompt tokens
	Output  int           // tokens of the answer
	Block   int           // tokens of one id
	// Of all blocks of the prompt, the last of which may be shorter; empty: unknown.
	IDs     []uint64
	Model   string // as the worker serves it
	Worker  string // URL of the worker that answered; of a pair, the decode worker
	Rank    int    // of the worker
	Prefill string // URL of a pair's prefill worker; "": Worker computed the prompt too
	PreRank int    // of the prefill worker
	Key     string // name of the client's API key; "": it needed none
	Session uint64 // keyed hash of the session; 0: none
	Branch  uint64 // keyed hash of the session's branch; 0: none
	Turn    string // the prompt's place in its session; "": none

	// Of a request that the router refused.
	Refused string     // the cause; "": it was not refused
	Client  netip.Addr // the client's address; zero: unknown
	Path    []byte

	// Prompt tokens that the router expected in the cache of the worker that computes the prompt.
	Expected int
	Cached   int // prompt tokens that this worker reported as cached; -1: unknown
}

// appendTo appends the entry as a line. encoding/json takes 20 times as long for the ids.
func (e *Entry) appendTo(dst []byte) []byte {
	number := func(key string, n int64) {
		dst = strconv.AppendInt(append(dst, key...), n, 10)
	}
	text := func(key, s string) {
		if s != "" {
			dst = appendString(append(dst, key...), s)
		}
	}
	number(`{"timestamp":`, e.Arrived.UnixMilli())
	number(`,"input_length":`, int64(e.Input))
	number(`,"output_length":`, int64(e.Output))
	number(`,"block_size":`, int64(e.Block))
	dst = append(dst, `,"hash_ids":[`...)
	for i, id := range e.IDs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, id, 10)
	}
	dst = append(dst, ']')
	if len(e.Name) > 0 {
		dst = appendString(append(dst, `,"request_id":`...), e.Name)
	}
	number(`,"status":`, int64(e.Status))
	if e.TTFT > 0 {
		dst = strconv.AppendFloat(append(dst, `,"ttft_ms":`...), float64(e.TTFT)/1e6, 'f', 3, 64)
	}
	dst = strconv.AppendFloat(append(dst, `,"duration_ms":`...), float64(e.Took)/1e6, 'f', 3, 64)
	text(`,"model":`, e.Model)
	text(`,"key":`, e.Key)
	if text(`,"refused":`, e.Refused); e.Refused != "" {
		if e.Client.IsValid() {
			dst = append(e.Client.AppendTo(append(dst, `,"client":"`...)), '"')
		}
		dst = appendString(append(dst, `,"path":`...), e.Path)
	}
	if text(`,"worker":`, e.Worker); e.Worker != "" {
		number(`,"rank":`, int64(e.Rank))
		if text(`,"prefill":`, e.Prefill); e.Prefill != "" {
			number(`,"prefill_rank":`, int64(e.PreRank))
		}
		number(`,"expected_tokens":`, int64(e.Expected))
	}
	if e.Cached >= 0 {
		number(`,"cached_tokens":`, int64(e.Cached))
	}
	if e.Session != 0 {
		dst = append(dst, `,"session":"`...)
		dst = append(strconv.AppendUint(dst, e.Session, 16), '"')
	}
	if e.Branch != 0 {
		dst = append(dst, `,"branch":"`...)
		dst = append(strconv.AppendUint(dst, e.Branch, 16), '"')
		text(`,"turn":`, e.Turn)
	}
	return append(dst, "}\n"...)
}

// appendString appends s as a JSON string. Names of models come from clients.
func appendString[S string | []byte](dst []byte, s S) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, r := range string(s) { // invalid UTF-8 becomes U+FFFD
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < 0x20:
			dst = append(dst, `\u00`...)
			dst = append(dst, hex[r>>4], hex[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
