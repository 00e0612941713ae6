package upstream

import "bytes"

// maxEvent is the most of an event that is held back until all of it is there. SGLang's have
// some hundred bytes, those of /generate the text so far; longer ones pass in pieces.
const maxEvent = 64 << 10

// keptEvent bounds the memory for events that a pooled Response keeps.
const keptEvent = 8 << 10

// events holds half an event back until the other half has come. A worker that dies inside an
// event would otherwise leave the client with half a line: the next bytes would belong to that
// line or, behind a line break, make it a broken document. Events nearly always come whole, and
// then nothing is copied.
type events struct {
	on    bool
	lines bool   // each line is an event
	drop  bool   // the rest of the stream
	open  bool   // the client has the beginning of an event that was too long
	tail  []byte // bytes held back
	spare []byte // of tail, swapped with it
}

// pass takes the next piece of the stream and returns the bytes that can be sent: of p, or a
// copy that is valid until the next call.
func (v *events) pass(p []byte) []byte {
	if !v.on {
		return p
	}
	if v.drop {
		v.tail = v.tail[:0]
		return nil
	}
	held := len(v.tail)
	if held == 0 && v.endsEvent(p) { // fast path
		v.open = false
		return p
	}
	b := p
	if held > 0 {
		v.tail = append(v.tail, p...)
		b = v.tail
	}
	cut := 0
	if !v.lines {
		cut = lastEvent(b, held)
	} else if i := bytes.LastIndexByte(p, '\n'); i >= 0 {
		cut = held + i + 1
	}
	if cut > 0 {
		v.open = false
	}
	if v.open || len(b)-cut > maxEvent {
		// All but the line breaks at its end, which may be half of an empty line.
		cut, v.open = len(bytes.TrimRight(b, "\r\n")), true
	}
	v.spare = append(v.spare[:0], b[cut:]...)
	v.tail, v.spare = v.spare, v.tail
	return b[:cut]
}

// end returns the bytes held back at a clean end of the stream; they pass unchanged.
func (v *events) end() []byte { return v.tail }

// breakOff forgets the bytes held back, and returns an end for the event whose beginning the
// client has.
func (v *events) breakOff() []byte {
	v.tail = v.tail[:0]
	if !v.open {
		return nil
	}
	v.open = false
	if v.lines {
		return []byte("\n")
	}
	return []byte("\n\n")
}

// reset makes v ready for the next answer.
func (v *events) reset() {
	v.on, v.lines, v.drop, v.open = false, false, false, false
	if v.tail = v.tail[:0]; cap(v.tail) > keptEvent {
		v.tail = nil
	}
	if v.spare = v.spare[:0]; cap(v.spare) > keptEvent {
		v.spare = nil
	}
}

// endsEvent reports whether p ends an event: with an empty line in one of the two usual ways.
func (v *events) endsEvent(p []byte) bool {
	n := len(p)
	if v.lines {
		return n > 0 && p[n-1] == '\n'
	}
	return n >= 2 && p[n-1] == '\n' && (p[n-2] == '\n' || n >= 4 && p[n-2] == '\r' && p[n-3] == '\n')
}

// lastEvent returns the index behind the last empty line of b that ends at or behind from, 0 if
// there is none. A line ends with CRLF, LF or CR.
func lastEvent(b []byte, from int) int {
	for i := len(b) - 1; i >= max(from, 1); i-- {
		if b[i] != '\n' && b[i] != '\r' {
			continue
		}
		j := i - 1
		if b[i] == '\n' && b[j] == '\r' {
			j--
		}
		if j >= 0 && (b[j] == '\n' || b[j] == '\r') {
			return i + 1
		}
	}
	return 0
}
