package peers

import (
	"encoding/binary"

	"github.com/warmpath/warmpath/dataplane/cluster/codec"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
)

const (
	// version is the first byte of a message. Version 4 had the length of each prompt.
	version = 5
	// maxName bounds the name of a router.
	maxName = 1024
)

// message is the requests that a router has in flight. Numbers are varints, hashes have 8 bytes and
// fingerprints have 4.
type message struct {
	id      []byte // of the router
	started int64  // unix microseconds
	number  int64  // of this message among all of its router
	whole   bool   // ranks that are not listed have no load; else their load is unchanged
	last    bool   // the router ends
	sent    []prompt
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

// The least sizes of a rankShare and of a prompt.
const (
	rankShareSize = 8 + 6
	promptSize    = 8 + 2
)

func (m *message) append(b []byte) []byte {
	b = codec.AppendBytes(append(b, version), m.id, maxName)
	b = codec.AppendUvarint(codec.AppendUvarint(b, m.started), m.number)
	flags := byte(0)
	if m.whole {
		flags |= flagWhole
	}
	if m.last {
		flags |= flagLast
	}
	b = codec.AppendUvarint(append(b, flags), len(m.sent))
	for i := range m.sent {
		b = m.sent[i].append(b)
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

func (p *prompt) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(codec.AppendUvarint(b, p.number), p.rank)
	b = codec.AppendUvarint(b, len(p.fingerprints))
	for _, f := range p.fingerprints {
		b = binary.LittleEndian.AppendUint32(b, f)
	}
	return b
}

// decode fills m; its id aliases b.
func (m *message) decode(b []byte) error {
	r := codec.NewReader(b)
	if r.Byte() != version {
		r.Fail("the version of a message")
	}
	number := func() int64 { return int64(r.Uvarint()) }
	m.id, m.started, m.number = r.Text(maxName), number(), number()
	flags := r.Byte()
	if flags > flagWhole|flagLast {
		r.Fail("flags")
	}
	m.whole, m.last = flags&flagWhole != 0, flags&flagLast != 0
	m.sent, m.done, m.ranks = m.sent[:0], m.done[:0], m.ranks[:0]
	count := func(size, most int) int {
		n := r.Count(size)
		if n > most {
			r.Fail("a list that no router sends")
			return 0
		}
		return n
	}
	for range count(promptSize, maxSent) {
		m.sent = another(m.sent)
		m.sent[len(m.sent)-1].read(&r)
	}
	for range count(1, maxDone) {
		m.done = append(m.done, number())
	}
	for range r.Count(rankShareSize) {
		m.ranks = append(m.ranks, rankShare{r.Uint64(), worker.RouterLoad{
			InFlight: number(), Waiting: number(), Pending: number(), Used: number(), Held: number(), Sent: number(),
		}})
	}
	return r.End()
}

func (p *prompt) read(r *codec.Reader) {
	p.number, p.rank, p.fingerprints = r.Uvarint(), r.Uint64(), p.fingerprints[:0]
	n := r.Count(4)
	if n > routing.MaxFingerprints {
		r.Fail("fingerprints")
		return
	}
	for range n {
		p.fingerprints = append(p.fingerprints, r.Uint32())
	}
}
