package peers

import (
	"encoding/binary"

	"github.com/warmpath/warmpath/dataplane/cluster/codec"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// loadMessage is the load that a router has in flight.
type loadMessage struct {
	id      []byte // of the router
	started int64  // unix microseconds
	number  int64  // of this message among all of its router
	whole   bool   // ranks that are not listed have no load; else their load is unchanged
	last    bool   // the router ends
	sent    []int64
	done    []int64 // numbers of prompts that are computed or given up
	ranks   []rankShare
}

// rankShare is the load in flight at one rank.
type rankShare struct {
	rank uint64 // worker.Rank.Hash
	worker.RouterLoad
}

const (
	flagWhole = 1 << iota
	flagLast
)

// rankShareSize is the least size of a rankShare.
const rankShareSize = 8 + 6

func (m *loadMessage) append(b []byte) []byte {
	b = append(b, version, kindLoad)
	b = codec.AppendBytes(b, m.id, maxName)
	b = codec.AppendUvarint(codec.AppendUvarint(b, m.started), m.number)
	flags := byte(0)
	if m.whole {
		flags |= flagWhole
	}
	if m.last {
		flags |= flagLast
	}
	b = append(b, flags)
	b = codec.AppendUvarint(b, len(m.sent))
	for _, n := range m.sent {
		b = codec.AppendUvarint(b, n)
	}
	b = codec.AppendUvarint(b, len(m.done))
	for _, n := range m.done {
		b = codec.AppendUvarint(b, n)
	}
	b = codec.AppendUvarint(b, len(m.ranks))
	for i := range m.ranks {
		r := &m.ranks[i]
		b = binary.LittleEndian.AppendUint64(b, r.rank)
		for _, n := range [...]int64{r.InFlight, r.Waiting, r.Pending, r.Used, r.Held, r.Sent} {
			b = codec.AppendUvarint(b, n)
		}
	}
	return b
}

// decode fills m; its id aliases b.
func (m *loadMessage) decode(b []byte) error {
	r := open(b, kindLoad)
	number := func() int64 { return int64(r.Uvarint()) }
	m.id, m.started, m.number = r.Bytes(maxName), number(), number()
	flags := r.Byte()
	if flags > flagWhole|flagLast {
		r.Fail("flags")
	}
	m.whole, m.last = flags&flagWhole != 0, flags&flagLast != 0
	m.sent, m.done, m.ranks = m.sent[:0], m.done[:0], m.ranks[:0]
	for range r.Count(1) {
		m.sent = append(m.sent, number())
	}
	for range r.Count(1) {
		m.done = append(m.done, number())
	}
	for range r.Count(rankShareSize) {
		m.ranks = append(m.ranks, rankShare{r.Uint64(), worker.RouterLoad{
			InFlight: number(), Waiting: number(), Pending: number(), Used: number(), Held: number(), Sent: number(),
		}})
	}
	return r.End()
}
