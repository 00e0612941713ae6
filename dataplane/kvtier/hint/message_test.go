package hint_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/kvtier/hint"
)

// naive reads the fields of doc.go's table one by one from a stream.
func naive(data []byte) (m hint.Message, ok bool) {
	if len(data) > hint.MaxBytes {
		return m, false
	}
	r := bytes.NewReader(data)
	var version uint8
	var page, have, tokens uint32
	text := func() []byte {
		var n uint16
		if binary.Read(r, binary.LittleEndian, &n) != nil {
			return nil
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil
		}
		return b
	}
	for _, field := range []any{&version, &page, &have} {
		if binary.Read(r, binary.LittleEndian, field) != nil {
			return m, false
		}
	}
	if m.Model = text(); m.Model == nil {
		return m, false
	}
	if m.Salt = text(); m.Salt == nil {
		return m, false
	}
	if binary.Read(r, binary.LittleEndian, &tokens) != nil || int64(tokens)*4 > int64(r.Len()) {
		return m, false
	}
	m.IDs = make([]byte, 4*tokens)
	if _, err := io.ReadFull(r, m.IDs); err != nil {
		return m, false
	}
	m.From, _ = io.ReadAll(r)
	m.PageSize, m.Have, m.Pages = int(page), int(have), data[:len(data)-len(m.From)]
	fits := page == 0 || tokens%page == 0
	return m, version == 1 && page <= math.MaxInt32 && have < tokens && fits && len(m.From) <= 255
}

// whole returns a message as routers make it.
func whole(p hint.Pages, from string) []byte {
	data, n := hint.Append(nil, &p)
	if n == 0 {
		return nil
	}
	return hint.AppendFrom(data, from)
}

func ids(n int) []uint32 {
	all := make([]uint32, n)
	for i := range all {
		all[i] = uint32(i)*2654435761 + 1
	}
	return all
}

func FuzzParse(f *testing.F) {
	f.Add(whole(hint.Pages{PageSize: 16, Have: 32, Model: "m", Salt: "s", Tokens: ids(64)}, "node"))
	f.Add(whole(hint.Pages{Tokens: ids(1)}, ""))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := hint.Parse(data)
		want, ok := naive(data)
		if (err == nil) != ok {
			t.Fatalf("Parse says %v, and the table %v", err, ok)
		}
		if err != nil {
			if !errors.Is(err, hint.ErrMalformed) {
				t.Fatalf("an error without a name: %v", err)
			}
			return
		}
		for i, pair := range [][2][]byte{{got.Model, want.Model}, {got.Salt, want.Salt}, {got.IDs, want.IDs}, {got.From, want.From}, {got.Pages, want.Pages}} {
			if !bytes.Equal(pair[0], pair[1]) {
				t.Fatalf("text %d is %q, want %q", i, pair[0], pair[1])
			}
		}
		if got.PageSize != want.PageSize || got.Have != want.Have {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		tokens := make([]uint32, got.Tokens())
		for i := range tokens {
			tokens[i] = binary.LittleEndian.Uint32(got.IDs[4*i:])
		}
		again := whole(hint.Pages{PageSize: got.PageSize, Have: got.Have, Model: string(got.Model), Salt: string(got.Salt), Tokens: tokens}, string(got.From))
		if len(again) > 0 && len(tokens) <= hint.MaxBytes/4-1024*64 && !bytes.Equal(again, data) {
			t.Fatalf("%x is written as %x", data, again)
		}
	})
}

func TestLongPromptsAreCutToWholePages(t *testing.T) {
	p := hint.Pages{PageSize: 64, Have: 128, Model: strings.Repeat("m", 300), Salt: "s", Tokens: ids(1 << 20)}
	data, n := hint.Append(nil, &p)
	data = hint.AppendFrom(data, strings.Repeat("n", 255))
	require.LessOrEqual(t, len(data), hint.MaxBytes)
	require.Greater(t, len(data), hint.MaxBytes-64*4-255)
	require.Zero(t, n%64)
	m, err := hint.Parse(data)
	require.NoError(t, err)
	assert.Equal(t, n, m.Tokens())
	assert.Equal(t, p.Tokens[n-1], binary.LittleEndian.Uint32(m.IDs[4*(n-1):]))

	p.Tokens = p.Tokens[:200]
	_, n = hint.Append(nil, &p)
	assert.Equal(t, 192, n, "the last page is not whole")
	assert.Nil(t, hint.AppendFrom(nil, strings.Repeat("n", 256)), "a name that cannot be")
}

func TestNothingToHint(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	for name, p := range map[string]hint.Pages{
		"no token": {PageSize: 16}, "no whole page": {PageSize: 16, Tokens: ids(15)}, "all is there": {PageSize: 16, Have: 32, Tokens: ids(40)},
		"less than nothing is there": {Have: -1, Tokens: ids(1)}, "model": {Model: long, Tokens: ids(1)}, "salt": {Salt: long, Tokens: ids(1)},
		"page": {PageSize: -1, Tokens: ids(1)},
	} {
		data, n := hint.Append([]byte("before"), &p)
		assert.Zero(t, n, name)
		assert.Equal(t, "before", string(data), name)
	}
}

// Hints for the same pages differ in the expected node alone.
func TestPagesOfEqualHints(t *testing.T) {
	p := hint.Pages{PageSize: 4, Model: "m", Tokens: ids(8)}
	a, err := hint.Parse(whole(p, "a"))
	require.NoError(t, err)
	b, err := hint.Parse(whole(p, "other"))
	require.NoError(t, err)
	assert.Equal(t, a.Pages, b.Pages)
	p.Salt = "s"
	c, err := hint.Parse(whole(p, "a"))
	require.NoError(t, err)
	assert.NotEqual(t, a.Pages, c.Pages)
}

func TestSubject(t *testing.T) {
	assert.Equal(t, "hint.6e2e31203e", hint.Subject("n.1 >"))
	assert.NotEqual(t, hint.Subject("ab"), hint.Subject("AB"))
}

func BenchmarkAppend(b *testing.B) {
	p := hint.Pages{Model: "meta-llama/Llama-3.1-8B-Instruct", Tokens: ids(16384)}
	var buf []byte
	b.SetBytes(int64(4 * len(p.Tokens)))
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = hint.Append(buf[:0], &p)
	}
}

func BenchmarkParse(b *testing.B) {
	data := whole(hint.Pages{Model: "m", Tokens: ids(16384)}, "n")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := hint.Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}
