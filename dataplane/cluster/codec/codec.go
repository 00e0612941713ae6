package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// ErrMessage is a message that is cut off, too long or out of its bounds.
var ErrMessage = errors.New("codec: malformed message")

// Largest bounds varints: sums of 1,024 of them fit an int64, and float64 holds each exactly.
const Largest = 1 << 53

// Owned reports whether id may be that of a process with the token of owner: the name in the token
// and 16 hexadecimal digits. "" is the owner of all.
func Owned(id []byte, owner string) bool {
	if owner == "" {
		return true
	}
	digits, ok := bytes.CutPrefix(id, []byte(owner+"-"))
	return ok && len(digits) == 16 && len(bytes.Trim(digits, "0123456789abcdef")) == 0
}

// Reader decodes a message from its first byte to its last.
type Reader struct {
	rest []byte
	err  error
}

// NewReader returns a Reader of message.
func NewReader(message []byte) Reader { return Reader{rest: message} }

// Fail records a fault in the named field. Only the first one is kept.
func (r *Reader) Fail(field string) {
	if r.err == nil {
		r.err = fmt.Errorf("cannot read %s: %w", field, ErrMessage)
	}
	r.rest = nil
}

// Err returns the first fault.
func (r *Reader) Err() error { return r.err }

// Len returns the number of bytes left.
func (r *Reader) Len() int { return len(r.rest) }

// End returns the first fault; bytes that are left over are one.
func (r *Reader) End() error {
	if len(r.rest) > 0 {
		r.Fail("the end of the message")
	}
	return r.err
}

// Take returns the next n bytes.
func (r *Reader) Take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.rest) {
		r.Fail("bytes")
		return nil
	}
	taken := r.rest[:n:n]
	r.rest = r.rest[n:]
	return taken
}

// Rest returns all bytes that are left.
func (r *Reader) Rest() []byte { return r.Take(len(r.rest)) }

// Byte returns the next byte.
func (r *Reader) Byte() byte {
	if b := r.Take(1); b != nil {
		return b[0]
	}
	return 0
}

// Uint16 returns a number of two bytes.
func (r *Reader) Uint16() uint16 {
	if b := r.Take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

// Uint32 returns a number of four bytes.
func (r *Reader) Uint32() uint32 {
	if b := r.Take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// Uint64 returns a number of eight bytes.
func (r *Reader) Uint64() uint64 {
	if b := r.Take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Float returns a finite float64.
func (r *Reader) Float() float64 {
	f := math.Float64frombits(r.Uint64())
	if math.IsNaN(f) || math.IsInf(f, 0) {
		r.Fail("a number that is not finite")
		return 0
	}
	return f
}

// Uvarint returns a varint of at most Largest.
func (r *Reader) Uvarint() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > Largest {
		r.Fail("a varint")
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// Bytes returns a text of at most limit bytes behind its varint length.
func (r *Reader) Bytes(limit int) []byte {
	n := r.Uvarint()
	if n > uint64(limit) {
		r.Fail("a text")
		return nil
	}
	return r.Take(int(n))
}

// Text returns UTF-8 of at most limit bytes behind its varint length. Metrics take no other.
func (r *Reader) Text(limit int) []byte {
	text := r.Bytes(limit)
	if !utf8.Valid(text) {
		r.Fail("a text in UTF-8")
		return nil
	}
	return text
}

// Count returns the varint length of a list with entries of at least size bytes. A length that
// the rest of the message cannot hold is a fault, so a caller may allocate that many entries.
func (r *Reader) Count(size int) int {
	n := r.Uvarint()
	if n > uint64(len(r.rest)/size) {
		r.Fail("a list")
		return 0
	}
	return int(n)
}

// AppendBytes appends a text behind its varint length, cut to limit bytes.
func AppendBytes[T string | []byte](dst []byte, text T, limit int) []byte {
	text = text[:min(len(text), limit)]
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// AppendUvarint appends n as a varint, bounded to 0 … Largest.
func AppendUvarint[T int | int64 | uint64](dst []byte, n T) []byte {
	return binary.AppendUvarint(dst, uint64(min(max(n, 0), Largest)))
}

// AppendFloat appends f, which must be finite.
func AppendFloat(dst []byte, f float64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(f))
}
