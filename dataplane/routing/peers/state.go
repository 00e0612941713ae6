package peers

import (
	"encoding/binary"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// state is what a router tells all others.
type state struct {
	id      []byte // of the router
	started int64  // when it did, in unix microseconds
	number  int64  // of this message among all that it sent
	whole   bool   // ranks that are not listed have nothing in flight; else they have what they had
	last    bool   // the router ends
	sent    []int64
	done    []int64 // prompts that are computed or given up, by number
	ranks   []rankShare
}

// rankShare is what it has in flight at one rank.
type rankShare struct {
	rank uint64 // worker.Rank.Hash
	worker.RouterLoad
}

const (
	flagWhole = 1 << iota
	flagLast
)

// rankShareSize is the least that a rankShare takes.
const rankShareSize = 8 + 6

func (s *state) append(b []byte) []byte {
	b = append(b, version, kindState)
	b = appendString(b, string(s.id))
	b = appendNumber(appendNumber(b, s.started), s.number)
	flags := byte(0)
	if s.whole {
		flags |= flagWhole
	}
	if s.last {
		flags |= flagLast
	}
	b = append(b, flags)
	b = appendNumber(b, len(s.sent))
	for _, n := range s.sent {
		b = appendNumber(b, n)
	}
	b = appendNumber(b, len(s.done))
	for _, n := range s.done {
		b = appendNumber(b, n)
	}
	b = appendNumber(b, len(s.ranks))
	for i := range s.ranks {
		r := &s.ranks[i]
		b = binary.LittleEndian.AppendUint64(b, r.rank)
		for _, n := range [...]int64{r.InFlight, r.Waiting, r.Pending, r.Used, r.Held, r.Sent} {
			b = appendNumber(b, n)
		}
	}
	return b
}

// read fills s; its id aliases b.
func (s *state) read(b []byte) error {
	r := open(b, kindState)
	s.id, s.started, s.number = r.bytes(), r.number(), r.number()
	flags := r.byte()
	if flags > flagWhole|flagLast {
		r.fail("flags")
	}
	s.whole, s.last = flags&flagWhole != 0, flags&flagLast != 0
	s.sent, s.done, s.ranks = s.sent[:0], s.done[:0], s.ranks[:0]
	for range r.count(1) {
		s.sent = append(s.sent, r.number())
	}
	for range r.count(1) {
		s.done = append(s.done, r.number())
	}
	for range r.count(rankShareSize) {
		s.ranks = append(s.ranks, rankShare{r.word(), worker.RouterLoad{
			InFlight: r.number(), Waiting: r.number(), Pending: r.number(), Used: r.number(), Held: r.number(), Sent: r.number(),
		}})
	}
	return r.end()
}
