package chattemplate

// slab hands out pieces of large slices, and takes all of them back at once.
type slab[T any] struct {
	chunks [][]T
	at     int // the chunk in use
	used   int // of it
}

// bytesSlab makes strings in large pieces.
type bytesSlab struct {
	buf   []byte
	grown int // bytes taken since the last reset
}

const textChunk = 16 << 10

// room makes room to append n bytes to buf without moving it.
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

// reset makes the piece in use anew, unless it is larger than keep. Strings made before are
// invalid.
func (b *bytesSlab) reset(keep int) {
	if cap(b.buf) > keep {
		b.buf = nil
	}
	b.buf, b.grown = b.buf[:0], 0
}

const slabChunk = 256

func (b *slab[T]) take(n int) []T {
	if n == 0 {
		return []T{}
	}
	for b.at < len(b.chunks) {
		if c := b.chunks[b.at]; b.used+n <= len(c) {
			b.used += n
			return c[b.used-n : b.used : b.used]
		}
		b.at, b.used = b.at+1, 0
	}
	b.chunks = append(b.chunks, make([]T, max(n, slabChunk<<min(b.at, 6))))
	b.used = n
	return b.chunks[b.at][:n:n]
}

// reset takes all elements back and clears them, so that no value of a request is kept. Chunks
// beyond keep elements are dropped.
func (b *slab[T]) reset(keep int) {
	total := 0
	for i, c := range b.chunks {
		if i < b.at {
			clear(c)
		} else if i == b.at {
			clear(c[:b.used])
		}
		if total += len(c); total > keep {
			clear(b.chunks[i:])
			b.chunks = b.chunks[:i]
			break
		}
	}
	b.at, b.used = 0, 0
}
