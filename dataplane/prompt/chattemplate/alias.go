package chattemplate

import "unsafe"

// view returns the string that shares the bytes of b. The caller sees to it that they do not change while the string is in use: requests
// are only read during a render, and bytesSlab never writes where it has written.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// bytesOf returns the bytes of a string, which the caller only reads.
func bytesOf(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }

// bytesSlab makes strings in large pieces.
type bytesSlab struct {
	buf   []byte
	grown int // bytes taken since the last reset
}

// textChunk is the least size of a piece.
const textChunk = 16 << 10

// room sees to it that n bytes can be appended to buf without moving it.
func (b *bytesSlab) room(n int) {
	if cap(b.buf)-len(b.buf) < n {
		b.buf = make([]byte, 0, max(n, min(2*cap(b.buf), 1<<20), textChunk))
	}
	b.grown += n
}

// concat returns a followed by c.
func (b *bytesSlab) concat(a, c string) string {
	b.room(len(a) + len(c))
	from := len(b.buf)
	b.buf = append(append(b.buf, a...), c...)
	return view(b.buf[from:])
}

// reset makes the piece in use anew, unless it is larger than keep. Strings made before are invalid.
func (b *bytesSlab) reset(keep int) {
	if cap(b.buf) > keep {
		b.buf = nil
	}
	b.buf, b.grown = b.buf[:0], 0
}
