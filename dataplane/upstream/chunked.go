package upstream

import (
	"errors"
	"fmt"
	"math"
)

var (
	errChunkSize    = errors.New("malformed chunk size")
	errChunkEnd     = errors.New("chunk does not end with CRLF")
	errChunkOverrun = errors.New("chunk size line or trailer too long")
)

// maxChunkLine bounds a size line with its extensions, which has a few bytes; net/http bounds
// it too.
const maxChunkLine = 4096

// maxChunkDigits bounds the digits of a size, leading zeros included, as net/http does.
const maxChunkDigits = 16

type chunkState uint8

const (
	chunkSize      chunkState = iota // hex digits of a size
	chunkSpace                       // white space behind them
	chunkExtension                   // the rest of the size line
	chunkSizeLF                      // LF after the size line's CR
	chunkData
	chunkDataCR
	chunkDataLF
	trailerStart // first byte of a trailer line, or the CR of the empty one
	trailerLine
	trailerLF // LF after a trailer line's CR
	trailerEndLF
	chunkDone
)

// chunkDecoder removes the chunked coding piece by piece. It looks at each byte once and needs
// no byte ahead, so a chunk is passed on as far as it has arrived. Trailers stay as they came.
type chunkDecoder struct {
	state  chunkState
	digits uint8
	left   int64 // data bytes of this chunk still to come
	line   int   // length of the current size line, or of all trailers
	limit  int   // most bytes of trailers

	trailer []byte // lines behind the last chunk, with their CRLF and without the empty one
}

func (d *chunkDecoder) done() bool { return d.state == chunkDone }

// decode moves body bytes from src to dst and returns how many it wrote and how many of src it
// used. It stops when dst is full, src is used up or the body ends. dst may begin where src
// begins: output never overtakes input.
func (d *chunkDecoder) decode(dst, src []byte) (nd, ns int, err error) {
	for ns < len(src) && d.state != chunkDone {
		if d.state == chunkData {
			n := int(min(d.left, int64(len(src)-ns)))
			n = copy(dst[nd:], src[ns:ns+n])
			if n == 0 {
				return nd, ns, nil
			}
			nd, ns, d.left = nd+n, ns+n, d.left-int64(n)
			if d.left == 0 {
				d.state = chunkDataCR
			}
			continue
		}
		if n := d.leap(src[ns:]); n > 0 {
			ns += n
			continue
		}
		if err := d.step(src[ns]); err != nil {
			return nd, ns, err
		}
		ns++
	}
	return nd, ns, nil
}

// leap takes the bytes between two chunks at once where they have the usual form, whole and
// without extensions. It returns 0 where step has to look.
func (d *chunkDecoder) leap(src []byte) (n int) {
	if d.state == chunkDataCR {
		if len(src) < 2 || src[0] != '\r' || src[1] != '\n' {
			return 0
		}
		d.state, d.digits, d.line = chunkSize, 0, 0
		return 2
	}
	if d.state != chunkSize || d.digits > 0 {
		return 0
	}
	size := int64(0)
	for n < len(src) && n < 8 { // 4 GiB; larger ones are rare enough to be stepped through.
		v := hexValue(src[n])
		if v < 0 {
			break
		}
		size = size<<4 | int64(v)
		n++
	}
	if size == 0 || len(src) < n+2 || src[n] != '\r' || src[n+1] != '\n' {
		return 0
	}
	d.state, d.left = chunkData, size
	return n + 2
}

// whole takes src if it is exactly one chunk in the usual form, and returns its data; else it
// takes nothing and returns nil.
func (d *chunkDecoder) whole(src []byte) []byte {
	if d.state != chunkSize {
		return nil
	}
	n := d.leap(src)
	if n == 0 {
		return nil
	}
	end := len(src) - len("\r\n")
	if int64(end-n) != d.left || src[end] != '\r' || src[end+1] != '\n' {
		d.state, d.left = chunkSize, 0
		return nil
	}
	d.state, d.left = chunkSize, 0
	return src[n:end]
}

// step takes one byte of the coding.
func (d *chunkDecoder) step(c byte) error {
	switch d.state {
	case chunkSize, chunkSpace, chunkExtension, chunkSizeLF:
		return d.stepSize(c)
	case chunkDataCR:
		if c != '\r' {
			return errChunkEnd
		}
		d.state = chunkDataLF
	case chunkDataLF:
		if c != '\n' {
			return errChunkEnd
		}
		d.state, d.digits, d.line = chunkSize, 0, 0
	default:
		return d.stepTrailer(c)
	}
	return nil
}

// stepSize takes one byte of a size line.
func (d *chunkDecoder) stepSize(c byte) error {
	if d.line++; d.line > maxChunkLine {
		return errChunkOverrun
	}
	switch d.state {
	case chunkSize:
		if v := hexValue(c); v >= 0 {
			if d.digits++; d.left > math.MaxInt64>>4 || d.digits > maxChunkDigits {
				return errChunkSize
			}
			d.left = d.left<<4 | int64(v)
			return nil
		}
		if d.digits == 0 {
			return fmt.Errorf("%w: byte %q", errChunkSize, c)
		}
		return d.endSize(c)
	case chunkSpace:
		return d.endSize(c)
	case chunkExtension:
		switch c {
		case '\r':
			d.state = chunkSizeLF
		case '\n':
			return errChunkSize // Some readers end the line at a bare LF, others do not: smuggling.
		}
	default:
		if c != '\n' {
			return errChunkSize
		}
		if d.left > 0 {
			d.state = chunkData
			return nil
		}
		d.state, d.line = trailerStart, 0
	}
	return nil
}

// endSize takes one byte behind a size.
func (d *chunkDecoder) endSize(c byte) error {
	switch c {
	case ' ', '\t':
		d.state = chunkSpace
	case ';':
		d.state = chunkExtension
	case '\r':
		d.state = chunkSizeLF
	default:
		return fmt.Errorf("%w: byte %q", errChunkSize, c)
	}
	return nil
}

// stepTrailer takes one byte after the last chunk.
func (d *chunkDecoder) stepTrailer(c byte) error {
	if d.line++; d.line > d.limit {
		return errChunkOverrun
	}
	// The empty line that ends the section is no part of it.
	if d.state != trailerEndLF && (d.state != trailerStart || c != '\r') {
		d.trailer = append(d.trailer, c)
	}
	switch d.state {
	case trailerStart:
		d.state = trailerLine
		if c == '\r' {
			d.state = trailerEndLF
		}
		if c == '\n' {
			return errChunkEnd
		}
	case trailerLine:
		if c == '\r' {
			d.state = trailerLF
		}
		if c == '\n' {
			return errChunkEnd
		}
	case trailerLF:
		if c != '\n' {
			return errChunkEnd
		}
		d.state = trailerStart
	default:
		if c != '\n' {
			return errChunkEnd
		}
		d.state = chunkDone
	}
	return nil
}

func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
