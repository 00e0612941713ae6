package wire

import "bytes"

// maxSizeLine is beyond the size of any chunk with any extension that is used.
const maxSizeLine = 64

// ChunkSize reads a chunk's first line: the chunk's size and the line's length, 0 for an incomplete
// line.
func ChunkSize(b []byte) (size, line int, ok bool) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return 0, 0, len(b) < maxSizeLine
	}
	digits, _, _ := bytes.Cut(b[:end], []byte(";"))
	size, ok = hex(bytes.TrimSpace(digits))
	return size, end + 1, ok
}

func hex(b []byte) (n int, ok bool) {
	for _, c := range b {
		d := int(c) - '0'
		switch {
		case '0' <= c && c <= '9':
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			d = int(c|0x20-'a') + 10
		default:
			return 0, false
		}
		if n = n<<4 | d; n > maxNumber {
			return 0, false
		}
	}
	return n, len(b) > 0
}

// Dechunk joins a chunked body. size is its length in b, or -1 for an incomplete one. Trailers are
// refused.
func Dechunk(b []byte) (body []byte, size int, ok bool) {
	for at := 0; ; {
		n, line, ok := ChunkSize(b[at:])
		if !ok {
			return nil, 0, false
		}
		if at += line; line == 0 || len(b) < at+n+2 {
			return nil, -1, true
		}
		if string(b[at+n:at+n+2]) != "\r\n" {
			return nil, 0, false
		}
		body = append(body, b[at:at+n]...)
		if at += n + 2; n == 0 {
			return body, at, true
		}
	}
}
