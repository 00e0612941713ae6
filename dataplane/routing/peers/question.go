package peers

import (
	"encoding/binary"
	"math"

	"github.com/warmpath/warmpath/dataplane/routing"
)

const (
	flagExact = 1 << iota
	flagUnpaired
	flagStored // each Held has what could be fetched, too: a router that does not know the flag does not answer
)

// flagsKnown are all of them.
const flagsKnown = flagExact | flagUnpaired | flagStored

// heldSize is the least that one rank of an Ask takes.
const heldSize = 8 + 3

// appendAsk writes the question with that number of router id.
func appendAsk(b []byte, id string, number uint64, a *routing.Ask) []byte {
	b = append(b, version, kindAsk)
	b = appendNumber(appendString(b, id), number)
	flags := byte(0)
	if a.Exact {
		flags |= flagExact
	}
	if a.Unpaired {
		flags |= flagUnpaired
	}
	if a.Stored {
		flags |= flagStored
	}
	b = append(b, flags)
	b = appendString(appendString(b, a.Model), a.LoRA)
	b = appendNumber(appendNumber(appendNumber(b, a.Tokens), a.Output), a.DP+1)
	b = binary.LittleEndian.AppendUint64(b, a.Home)
	b = appendHeld(b, &a.Base, a.Stored)
	b = appendNumber(b, len(a.Held))
	for i := range a.Held {
		b = binary.LittleEndian.AppendUint64(b, a.Held[i].Rank)
		b = appendHeld(b, &a.Held[i].Held, a.Stored)
	}
	return appendMarks(b, a.Marks)
}

// appendMarks writes fingerprints of a prompt.
func appendMarks(b []byte, marks []uint32) []byte {
	b = appendNumber(b, len(marks))
	for _, m := range marks {
		b = binary.LittleEndian.AppendUint32(b, m)
	}
	return b
}

// marks reads them into dst.
func (r *reader) marks(dst []uint32) []uint32 {
	n := r.count(4)
	if n > routing.MostMarks {
		r.fail("more marks than a prompt has")
		return dst[:0]
	}
	dst = dst[:0]
	for range n {
		dst = append(dst, binary.LittleEndian.Uint32(r.b))
		r.b = r.b[4:]
	}
	return dst
}

// told is a prompt that a router has sent without asking.
type told struct {
	id     string // of the router
	number uint64
	rank   uint64
	tokens int
	marks  []uint32
}

func (t *told) encode() []byte {
	b := appendNumber(appendString([]byte{version, kindTold}, t.id), t.number)
	b = appendNumber(binary.LittleEndian.AppendUint64(b, t.rank), t.tokens)
	return appendMarks(b, t.marks)
}

func (t *told) read(b []byte) error {
	r := open(b, kindTold)
	t.id, t.number = string(r.bytes()), uint64(r.number())
	t.rank, t.tokens = r.word(), int(r.number())
	t.marks = r.marks(t.marks)
	return r.end()
}

func appendHeld(b []byte, h *routing.Held, stored bool) []byte {
	b = appendNumber(appendNumber(appendNumber(b, h.Cached), h.Host), h.Predicted)
	if !stored {
		return b
	}
	b = appendNumber(appendNumber(b, int(h.Tier)), int(h.Remote))
	return appendNumber(appendNumber(b, micros(h.TierTime)), micros(h.RemoteTime))
}

// micros are whole microseconds, of which times have no more than 2^31: 36 minutes.
func micros(seconds float32) int {
	return int(math.Round(min(max(float64(seconds)*1e6, 0), math.MaxInt32)))
}

// question is an Ask that came from another router.
type question struct {
	id     []byte // of who asks; aliases the message
	number uint64
	routing.Ask
}

// read fills q. Its strings are those that it had, where they are the same: there are few models, and many questions.
func (q *question) read(b []byte) error {
	r := open(b, kindAsk)
	q.id, q.number = r.bytes(), uint64(r.number())
	flags := r.byte()
	if flags&^flagsKnown != 0 {
		r.fail("flags")
	}
	q.Exact, q.Unpaired, q.Stored = flags&flagExact != 0, flags&flagUnpaired != 0, flags&flagStored != 0
	q.Model, q.LoRA = same(q.Model, r.bytes()), same(q.LoRA, r.bytes())
	q.Tokens, q.Output, q.DP = int(r.number()), int(r.number()), int(r.number())-1
	q.Home = r.word()
	q.Base, q.Held = r.held(q.Stored), q.Held[:0]
	for range r.count(heldSize) {
		q.Held = append(q.Held, routing.RankHeld{Rank: r.word(), Held: r.held(q.Stored)})
	}
	q.Marks = r.marks(q.Marks)
	return r.end()
}

// held reads what a rank has. What cannot be would make a choice by it nonsense.
func (r *reader) held(stored bool) routing.Held {
	h := routing.Held{Cached: int(r.number()), Host: int(r.number()), Predicted: int(r.number())}
	if h.Host > h.Cached {
		r.fail("more in host memory than is cached")
	}
	if stored {
		h.Tier, h.Remote, h.TierTime, h.RemoteTime = int32(r.small()), int32(r.small()), r.time(), r.time()
	}
	return h
}

// small is a number of 31 bits.
func (r *reader) small() int64 {
	n := r.number()
	if n > math.MaxInt32 {
		r.fail("a large number")
		return 0
	}
	return n
}

// time is microseconds as seconds.
func (r *reader) time() float32 { return float32(float64(r.small()) / 1e6) }

func same(s string, b []byte) string {
	if s == string(b) {
		return s
	}
	return string(b)
}

// appendAnswer writes an answer.
func appendAnswer(b []byte, a *routing.Answer) []byte {
	b = appendNumber(append(b, version, kindAnswer), a.Number)
	b = binary.LittleEndian.AppendUint64(b, a.Rank)
	b = binary.LittleEndian.AppendUint64(b, a.Decode)
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(a.Cost))
}

func readAnswer(b []byte) (a routing.Answer, err error) {
	r := open(b, kindAnswer)
	a = routing.Answer{Number: uint64(r.number()), Rank: r.word(), Decode: r.word(), Cost: r.float()}
	return a, r.end()
}
