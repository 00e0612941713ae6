package peers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrMessage is a message that cannot be read.
var ErrMessage = errors.New("replica: bad message")

// A message begins with the version of this format and its kind. Numbers are unsigned varints, hashes and floats 8 bytes, little endian,
// strings and lists have their length in front.
const (
	version    = 2
	kindState  = 1
	kindAsk    = 2
	kindAnswer = 3
	kindTold   = 4

	// largest bounds what a number may be: sums over mostPeers are still right, and microseconds since 1970 fit for 285 years.
	largest = 1 << 53
	// longest bounds names: of models, adapters and routers.
	longest = 1024
)

func appendString(b []byte, s string) []byte {
	if len(s) > longest {
		s = s[:longest]
	}
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendNumber[T int | int64 | uint64](b []byte, n T) []byte {
	return binary.AppendUvarint(b, uint64(min(max(n, 0), largest)))
}

// reader takes a message apart. After the first fault it returns zeros.
type reader struct {
	b   []byte
	err error
}

// open checks what a message begins with.
func open(b []byte, kind byte) reader {
	if len(b) < 2 || b[0] != version || b[1] != kind {
		return reader{err: fmt.Errorf("cannot read message of kind %d: %w: another kind or version", kind, ErrMessage)}
	}
	return reader{b: b[2:]}
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("cannot read message: %w: %s", ErrMessage, what)
	}
	r.b = nil
}

func (r *reader) number() int64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > largest {
		r.fail("a number")
		return 0
	}
	r.b = r.b[size:]
	return int64(n)
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

func (r *reader) float() float64 {
	f := math.Float64frombits(r.word())
	if math.IsNaN(f) || math.IsInf(f, 0) {
		r.fail("a float")
		return 0
	}
	return f
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

// bytes aliases the message.
func (r *reader) bytes() []byte {
	n := r.number()
	if n > longest || n > int64(len(r.b)) {
		r.fail("a string")
		return nil
	}
	s := r.b[:n]
	r.b = r.b[n:]
	return s
}

// count is the length of a list whose entries have at least size bytes.
func (r *reader) count(size int) int {
	n := r.number()
	if n > int64(len(r.b)/size) {
		r.fail("a list")
		return 0
	}
	return int(n)
}

// end checks that nothing is left.
func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		r.fail("more than a message")
	}
	return r.err
}
