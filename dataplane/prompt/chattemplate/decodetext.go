package chattemplate

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// plainRun returns how many bytes from pos on are neither a quote, a backslash nor a control
// character, eight at a time.
func (d *decoder) plainRun() int {
	src := d.src[d.pos:]
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(src); i += 8 {
		w := binary.LittleEndian.Uint64(src[i:])
		quote, slash := w^('"'*ones), w^('\\'*ones)
		// A byte of x is below n exactly where the top bit of (x - n) &^ x is set, as long as no
		// lower byte borrows. A borrow only comes from a byte that is itself a find, so the answer
		// "none" is right; the loop below checks a find byte by byte.
		if ((quote-ones)&^quote|(slash-ones)&^slash|(w-0x20*ones)&^w)&tops != 0 {
			break
		}
	}
	for i < len(src) && src[i] >= ' ' && src[i] != '"' && src[i] != '\\' {
		i++
	}
	return i
}

func (d *decoder) text() string {
	d.pos++
	from := d.pos
	d.pos += d.plainRun()
	if d.pos < len(d.src) && d.src[d.pos] == '"' {
		d.pos++
		return view(d.src[from : d.pos-1])
	}
	// Slow path: with escapes. The result is never longer than its source.
	slab := &d.s.text
	slab.room(d.textEnd() - from)
	at := len(slab.buf)
	slab.buf = append(slab.buf, d.src[from:d.pos]...)
	for d.pos < len(d.src) && d.s.err == nil {
		switch c := d.src[d.pos]; {
		case c == '"':
			d.pos++
			return view(slab.buf[at:])
		case c == '\\':
			slab.buf = utf8.AppendRune(slab.buf, d.escape())
		case c < ' ':
			d.fail("control character in a string")
		default:
			n := d.plainRun()
			slab.buf = append(slab.buf, d.src[d.pos:d.pos+n]...)
			d.pos += n
		}
	}
	d.fail("string without end")
	return ""
}

// textEnd returns where the string that pos is in ends: at a quote behind an even number of
// backslashes.
func (d *decoder) textEnd() int {
	for end := d.pos; ; end++ {
		n := bytes.IndexByte(d.src[end:], '"')
		if n < 0 {
			return len(d.src)
		}
		end += n
		slashes := end
		for slashes > d.pos && d.src[slashes-1] == '\\' {
			slashes--
		}
		if (end-slashes)%2 == 0 {
			return end
		}
	}
}

func (d *decoder) escape() rune {
	if d.pos+1 >= len(d.src) {
		d.fail("string without end")
		return 0
	}
	c := d.src[d.pos+1]
	if c == 'u' {
		return d.unicode()
	}
	at := strings.IndexByte(`"\/bfnrt`, c)
	if at < 0 {
		d.fail("invalid escape")
		return 0
	}
	d.pos += 2
	return rune("\"\\/\b\f\n\r\t"[at])
}

// unicode decodes \uXXXX. Half a surrogate pair alone is no text that could be tokenized.
func (d *decoder) unicode() rune {
	r, ok := d.hex4(d.pos)
	if !ok {
		d.fail("invalid escape")
		return 0
	}
	d.pos += 6
	if !utf16.IsSurrogate(r) {
		return r
	}
	low, ok := d.hex4(d.pos)
	if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
		d.fail("half a surrogate pair")
	}
	d.pos += 6
	return r
}

// hex4 reads \uXXXX at a place.
func (d *decoder) hex4(at int) (rune, bool) {
	if at+6 > len(d.src) || d.src[at] != '\\' || d.src[at+1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range d.src[at+2 : at+6] {
		n := strings.IndexByte("0123456789abcdef", c|0x20)
		if n < 0 || c < '0' {
			return 0, false
		}
		r = r<<4 | rune(n)
	}
	return r, true
}
