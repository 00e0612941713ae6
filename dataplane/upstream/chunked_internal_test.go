package upstream

import (
	"bytes"
	"strings"
	"testing"
)

// decodeAll feeds src in pieces of at most step bytes, in place, as Response.next does.
func decodeAll(src []byte, step int) (body []byte, used int, done bool, err error) {
	d := chunkDecoder{limit: 64}
	for used < len(src) && !d.done() && err == nil {
		piece := bytes.Clone(src[used:min(used+step, len(src))])
		var nd, ns int
		nd, ns, err = d.decode(piece, piece)
		body = append(body, piece[:nd]...)
		used += ns
	}
	return body, used, d.done(), err
}

func TestChunkDecoder(t *testing.T) {
	tests := []struct {
		name, in, body string
		rest           int // bytes behind the end
		done, bad      bool
	}{
		{name: "empty", in: "0\r\n\r\n", done: true},
		{name: "two chunks", in: "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", body: "abcde", done: true},
		{name: "upper case and zeros", in: "000A\r\n0123456789\r\n00\r\n\r\n", body: "0123456789", done: true},
		{name: "extension", in: "1;a=b;c\r\nx\r\n0 \r\n\r\n", body: "x", done: true},
		{name: "trailers", in: "1\r\nx\r\n0\r\nA: b\r\nC: d\r\n\r\n", body: "x", done: true},
		{name: "next answer behind", in: "1\r\nx\r\n0\r\n\r\nHTTP", body: "x", done: true, rest: 4},
		{name: "unfinished", in: "5\r\nabc", body: "abc"},
		{name: "no size", in: "\r\n", bad: true},
		{name: "sign", in: "-1\r\n", bad: true},
		{name: "hex prefix", in: "0x1\r\n", bad: true},
		{name: "space first", in: " 1\r\nx\r\n", bad: true},
		{name: "size too large", in: "8000000000000000\r\n", bad: true},
		{name: "bare LF", in: "1\nx\r\n", bad: true},
		{name: "bare LF in extension", in: "1;a\nx\r\n", bad: true},
		{name: "data too long", in: "1\r\nxy\r\n", body: "x", bad: true},
		{name: "bare LF after data", in: "1\r\nx\n0\r\n\r\n", body: "x", bad: true},
		{name: "bare LF at the end", in: "0\r\n\n", bad: true},
		{name: "endless extension", in: "1;" + strings.Repeat("a", 5000), bad: true},
		{name: "endless trailer", in: "0\r\n" + strings.Repeat("a", 100), bad: true},
	}
	for _, tt := range tests {
		for _, step := range []int{1, 2, 3, 1 << 20} {
			body, used, done, err := decodeAll([]byte(tt.in), step)
			if string(body) != tt.body || done != tt.done || (err != nil) != tt.bad || done && len(tt.in)-used != tt.rest {
				t.Errorf("%s by %d = %q, used %d, done %v, %v; want %q done %v bad %v", tt.name, step, body, used, done, err, tt.body, tt.done, tt.bad)
			}
		}
	}
}

// FuzzChunkWhole: whole returns the data that decode finds in one chunk; input that it refuses
// leaves the decoder unchanged.
func FuzzChunkWhole(f *testing.F) {
	for _, s := range []string{
		"3\r\nabc\r\n", "00A\r\n0123456789\r\n", "3\r\nabc\r\n1\r\nx\r\n", "3\r\nabc\r", "3\r\nabcd\r", "3\r\nab\r\n", "3\r\n\r\n", "3\r\n", "\r\n",
		"3;x\r\nabc\r\n", "0\r\n\r\n", "3\nabc\n", "fffffffff\r\n\r\n", "",
	} {
		f.Add([]byte(s), uint8(0))
		f.Add([]byte("4\r\nbody\r\n"+s), uint8(9))
	}
	f.Fuzz(func(t *testing.T, src []byte, before uint8) {
		d, begin := chunkDecoder{limit: 64}, min(int(before), len(src))
		if _, used, err := d.decode(make([]byte, begin), src[:begin]); err != nil || used < begin {
			return
		}
		src = src[begin:]
		was := d
		body := d.whole(src)
		want, oracle := make([]byte, len(src)), was
		n, used, err := oracle.decode(want, src)
		between := was.state == chunkSize && was.digits == 0
		if body == nil {
			if d.state != was.state || d.left != was.left || d.digits != was.digits || d.line != was.line {
				t.Errorf("%q: decoder was %+v, is %+v", src, was, d)
			}
			return
		}
		if !between || err != nil || used != len(src) || !bytes.Equal(body, want[:n]) || oracle.state != d.state || oracle.left != d.left ||
			oracle.digits != d.digits || oracle.line != d.line {
			t.Errorf("%q = %q and %+v, want %q and %+v (used %d, %v)", src, body, d, want[:n], oracle, used, err)
		}
		if bytes.Count(src[:len(src)-len(body)-2], []byte("\n")) != 1 {
			t.Errorf("%q = %q is more than one chunk", src, body)
		}
	})
}
