package announce

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/warmpath/warmpath/dataplane/cluster/codec"
	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// ErrMessage is a message that cannot be read.
var ErrMessage = errors.New("announce: bad message")

// Subjects of the cluster's messages.
const (
	SubjectReport = "kvtier.report"
	SubjectJoin   = "kvtier.join" // a router has started: all announcers publish their position
)

// SubjectQuestion returns the subject of questions to one announcer.
func SubjectQuestion(announcer uint64) string {
	return "kvtier.question." + strconv.FormatUint(announcer, 16)
}

// Type tells messages apart.
type Type byte

// The types of messages.
const (
	TypeChanges Type = 1 // report: changes [From, Next), published
	// Report: part of the contents, at change From or later; Next-1 is the place of the next part,
	// Next 0 the end.
	TypeContents    Type = 2
	TypeMissing     Type = 3 // report: changes [From, Next), as answer
	TypeForgotten   Type = 4 // report without changes, as answer: the tier does not remember them
	TypeAskContents Type = 5 // question: contents from place Number on
	TypeAskMissing  Type = 6 // question: changes from Number on
)

// A message begins with the version of the format and its type. Numbers are varints; package codec
// writes them and texts.
//
//	report    node text, announcer u64, epoch u64, from, next, kinds, runs of changes in order
//	kind      id u64, model text, page size, open u8
//	run       index of the kind × 2 + (1: removed), number of pages, u64 of each
//	question  epoch u64, number
const version = 1

const (
	// MaxChanges bounds the changes of a report: 350 KB at most, and NATS takes 1 MiB.
	MaxChanges = 1 << 15
	// MaxKinds bounds the kinds of a node's pages: engines of so many models and layouts.
	MaxKinds = 256
	// maxText bounds names of models and nodes.
	maxText = 1024
	// kindBytes is the size of the smallest kind.
	kindBytes = 8 + 1 + 1 + 1
)

// Report is a message of an announcer.
type Report struct {
	Type      Type
	Node      string
	Announcer uint64 // random, new for each start of a sidecar
	Epoch     uint64
	From      uint64 // number of the first change
	Next      uint64 // number after the last change
	Kinds     []proto.Kind
	Changes   []proto.Change
}

// Append appends the message to b.
func (m *Report) Append(b []byte) []byte {
	b = append(b, version, byte(m.Type))
	b = codec.AppendBytes(b, m.Node, maxText)
	b = binary.LittleEndian.AppendUint64(b, m.Announcer)
	b = binary.LittleEndian.AppendUint64(b, m.Epoch)
	b = codec.AppendUvarint(b, m.From)
	b = codec.AppendUvarint(b, m.Next)
	b = codec.AppendUvarint(b, len(m.Kinds))
	for i := range m.Kinds {
		k := &m.Kinds[i]
		b = binary.LittleEndian.AppendUint64(b, k.ID)
		b = codec.AppendBytes(b, k.Model, maxText)
		b = codec.AppendUvarint(b, k.PageSize)
		b = append(b, flag(k.Open))
	}
	for list := m.Changes; len(list) > 0; {
		n := 1
		for n < len(list) && list[n].Kind == list[0].Kind && list[n].Removed == list[0].Removed {
			n++
		}
		b = codec.AppendUvarint(b, uint64(list[0].Kind)<<1|uint64(flag(list[0].Removed)))
		b = codec.AppendUvarint(b, n)
		for i := range list[:n] {
			b = binary.LittleEndian.AppendUint64(b, list[i].Page)
		}
		list = list[n:]
	}
	return b
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

// Read parses a report. It keeps nothing of b, and reuses the lists of m.
func (m *Report) Read(b []byte) error {
	r := codec.NewReader(b)
	if r.Byte() != version {
		return fmt.Errorf("cannot read a report: %w: unknown version", ErrMessage)
	}
	*m = Report{
		Type: Type(r.Byte()), Node: string(r.Text(maxText)), Announcer: r.Uint64(), Epoch: r.Uint64(), From: r.Uvarint(), Next: r.Uvarint(),
		Kinds: m.Kinds[:0], Changes: m.Changes[:0],
	}
	if m.Type < TypeChanges || m.Type > TypeForgotten {
		r.Fail("the type")
	}
	n := r.Count(kindBytes)
	if n > MaxKinds {
		r.Fail("the kinds")
		n = 0
	}
	for range n {
		k := proto.Kind{ID: r.Uint64(), Model: string(r.Text(maxText)), PageSize: int(r.Uvarint()), Open: r.Byte() != 0}
		if k.PageSize == 0 {
			r.Fail("a page size")
		}
		m.Kinds = append(m.Kinds, k)
	}
	for r.Len() > 0 {
		m.readRun(&r)
	}
	return fault("a report", r.Err())
}

// readRun reads changes of one kind, all of them stored or all removed.
func (m *Report) readRun(r *codec.Reader) {
	head, n := r.Uvarint(), r.Count(8)
	if head>>1 >= uint64(len(m.Kinds)) || n == 0 || len(m.Changes)+n > MaxChanges {
		r.Fail("a run of changes")
		return
	}
	for range n {
		m.Changes = append(m.Changes, proto.Change{Page: r.Uint64(), Kind: uint32(head >> 1), Removed: head&1 == 1})
	}
}

// Question is a router's message to an announcer.
type Question struct {
	Type   Type
	Epoch  uint64
	Number uint64
}

// Append appends the message to b.
func (q *Question) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(append(b, version, byte(q.Type)), q.Epoch)
	return codec.AppendUvarint(b, q.Number)
}

// ReadQuestion parses a question.
func ReadQuestion(b []byte) (Question, error) {
	r := codec.NewReader(b)
	if r.Byte() != version {
		return Question{}, fmt.Errorf("cannot read a question: %w: unknown version", ErrMessage)
	}
	q := Question{Type: Type(r.Byte()), Epoch: r.Uint64(), Number: r.Uvarint()}
	if q.Type != TypeAskContents && q.Type != TypeAskMissing {
		r.Fail("the type")
	}
	return q, fault("a question", r.End())
}

// fault wraps a fault of the codec.
func fault(message string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot read %s: %w: %w", message, ErrMessage, err)
}
