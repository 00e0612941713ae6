package directory

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/warmpath/warmpath/dataplane/kvtier/store"
)

// ErrMessage is a message that cannot be read.
var ErrMessage = errors.New("shelf: bad message")

// A message begins with the version of this format and its kind. Numbers are unsigned varints, words 8 bytes, little endian, strings and lists have their length in front.
//
//	report:  node, id word, epoch word, at number, next number, kinds, runs of changes, in order
//	kind:    id word, model, tokens number, open byte
//	run:     place of the kind × 2 + (1: gone), number of pages, a word each
//	ask:     epoch word, number
const (
	version = 1

	kindTell     = 1 // report: the changes behind the first at ones, up to next
	kindContents = 2 // report: some of what is held, after at least at changes; the rest from next - 1 on, or 0: this is the end
	kindMissed   = 3 // report as kindTell, for who asked
	kindLost     = 4 // report without changes, for who asked for some that are forgotten
	askContents  = 5 // number: the place from which on
	askMissed    = 6 // number: the changes that are known

	// mostChanges in a message take 350 KB at the most, and NATS takes 1 MiB.
	mostChanges = 1 << 15
	// mostKinds of pages a node has: engines of so many forms.
	mostKinds = 256
	// longest bounds names, of models and nodes.
	longest = 1024
	// largest bounds numbers.
	largest = 1 << 53
)

// report is what an announcer sends.
type report struct {
	kind    byte
	node    string
	id      uint64 // of the announcer, random
	epoch   uint64
	at      uint64
	next    uint64
	kinds   []store.Kind
	changes []store.Change
}

func appendText(b []byte, s string) []byte {
	if len(s) > longest {
		s = s[:longest]
	}
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// append writes a report.
func (m *report) append(b []byte) []byte {
	b = append(b, version, m.kind)
	b = appendText(b, m.node)
	b = binary.LittleEndian.AppendUint64(b, m.id)
	b = binary.LittleEndian.AppendUint64(b, m.epoch)
	b = binary.AppendUvarint(b, m.at)
	b = binary.AppendUvarint(b, m.next)
	b = binary.AppendUvarint(b, uint64(len(m.kinds)))
	for i := range m.kinds {
		k := &m.kinds[i]
		b = binary.LittleEndian.AppendUint64(b, k.ID)
		b = appendText(b, k.Model)
		b = binary.AppendUvarint(b, uint64(k.Tokens))
		b = append(b, flag(k.Open))
	}
	for list := m.changes; len(list) > 0; {
		n := 1
		for n < len(list) && list[n].Kind == list[0].Kind && list[n].Gone == list[0].Gone {
			n++
		}
		b = binary.AppendUvarint(b, uint64(list[0].Kind)<<1|uint64(flag(list[0].Gone)))
		b = binary.AppendUvarint(b, uint64(n))
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

// read takes a report apart. It keeps nothing of b, and uses the lists of m again.
func (m *report) read(b []byte) error {
	if len(b) < 2 || b[0] != version || b[1] < kindTell || b[1] > kindLost {
		return fmt.Errorf("cannot read a report: %w: another kind or version", ErrMessage)
	}
	r := reader{b: b[2:]}
	*m = report{
		kind: b[1], node: r.text(), id: r.word(), epoch: r.word(), at: r.number(), next: r.number(), kinds: m.kinds[:0], changes: m.changes[:0],
	}
	const leastKind = 8 + 1 + 1 + 1
	n := r.number()
	if n > mostKinds || n*leastKind > uint64(len(r.b)) {
		r.fail("a list of kinds")
		n = 0
	}
	for range n {
		k := store.Kind{ID: r.word(), Model: r.text(), Tokens: int(r.number()), Open: r.byte() != 0}
		if k.Tokens == 0 {
			r.fail("a page of no tokens")
		}
		m.kinds = append(m.kinds, k)
	}
	for len(r.b) > 0 {
		m.readRun(&r)
	}
	return r.err
}

// readRun reads changes of one kind and direction.
func (m *report) readRun(r *reader) {
	head, n := r.number(), r.number()
	if head>>1 >= uint64(len(m.kinds)) || n == 0 || n > uint64(len(r.b)/8) || len(m.changes)+int(n) > mostChanges {
		r.fail("a list of pages")
		return
	}
	for range n {
		m.changes = append(m.changes, store.Change{Page: r.word(), Kind: uint32(head >> 1), Gone: head&1 == 1})
	}
}

// ask is what a router asks an announcer for.
type ask struct {
	kind   byte
	epoch  uint64
	number uint64
}

// text returns the question as it is sent.
func (a *ask) text() []byte {
	b := binary.LittleEndian.AppendUint64([]byte{version, a.kind}, a.epoch)
	return binary.AppendUvarint(b, a.number)
}

func readAsk(b []byte) (ask, error) {
	if len(b) < 2 || b[0] != version || (b[1] != askContents && b[1] != askMissed) {
		return ask{}, fmt.Errorf("cannot read a question: %w: another kind or version", ErrMessage)
	}
	r := reader{b: b[2:]}
	a := ask{kind: b[1], epoch: r.word(), number: r.number()}
	if len(r.b) > 0 {
		r.fail("more than a question")
	}
	return a, r.err
}

// reader takes a message apart. After the first fault it returns zeros.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("cannot read a message: %w: %s", ErrMessage, what)
	}
	r.b = nil
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > largest {
		r.fail("a number")
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) word() uint64 {
	if len(r.b) < 8 {
		r.fail("a word")
		return 0
	}
	w := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return w
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail("a byte")
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) text() string {
	n := r.number()
	if n > longest || n > uint64(len(r.b)) {
		r.fail("a string")
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}
