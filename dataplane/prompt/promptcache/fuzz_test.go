package promptcache_test

import (
	"encoding/binary"
	"slices"
	"strconv"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
	"github.com/warmpath/warmpath/radix"
)

// FuzzParseWithCacheAgainstWithout makes a history of lists, each an edit of an earlier one, and
// parses each with a small cache and without: ids, errors and hashes must be the same for any
// content of the cache.
func FuzzParseWithCacheAgainstWithout(f *testing.F) {
	f.Add(uint16(16), []byte("\x00\x00\x00\x00"))
	f.Add(uint16(64), []byte("\x01\x20\x00,\x02\xff\x0f \x00\x00\x10]\x03\x00\x20-\x01\x00\x00\x00"))
	f.Add(uint16(1), []byte("\x00\x00\x10]\x02\x00\x10,\x03\x01\x101\x02\x02\x10,\x01\x00\x18[\x05\x08\x00 "))
	f.Add(uint16(0), []byte("\x04\x00\x00\x00\x04\x00\x00\x00\x01\x07\x00x\x02\x08\x000"))
	f.Fuzz(func(t *testing.T, size uint16, edits []byte) {
		x := radix.New(radix.Config{Seed: 1})
		tokens := int(size) % 100
		c, err := promptcache.New(promptcache.Config{MaxBytes: 400 << 10, Index: x, BlockSize: func() int { return tokens }})
		if err != nil {
			t.Fatal(err)
		}
		r := newReader(t, c, x)
		texts := [][]byte{seedText()}
		for ; len(edits) >= 4 && len(texts) < 40; edits = edits[4:] {
			text := edit(texts[int(edits[0])%len(texts)], int(binary.LittleEndian.Uint16(edits[1:])), edits[0]>>6, edits[3])
			texts = append(texts, text)
		}
		for range 2 {
			for _, text := range texts {
				compare(t, r, text)
			}
		}
		if msg := c.Check(); msg != "" {
			t.Error(msg)
		}
	})
}

// seedText is the body of some five pieces.
func seedText() []byte {
	body, _ := list(ids(1, 3_500), ",")
	return body
}

// edit changes a text at a place: a byte put in, replaced, many ids put in, or all that follows
// cut.
func edit(text []byte, at int, kind, b byte) []byte {
	at = len(text) - 1 - at%len(text)
	switch kind {
	case 0:
		return slices.Concat(text[:at], []byte{b}, text[at:])
	case 1:
		return slices.Concat(text[:at], []byte{b}, text[at+1:])
	case 2:
		var more []byte
		for i := range 100 * int(b) {
			more = append(strconv.AppendInt(more, int64(i)*int64(b), 10), ',')
		}
		return slices.Concat(text[:at], more, text[at:])
	}
	return slices.Concat(text[:at], []byte("]}"))
}

func compare(t *testing.T, r *reader, text []byte) {
	t.Helper()
	var plain openai.Request
	want := plain.Parse(openai.APIGenerate, text)
	got := r.req.Parse(openai.APIGenerate, text)
	if (got == nil) != (want == nil) || got != nil && got.Error() != want.Error() {
		t.Fatalf("Parse(%.100q) = %v, without a cache %v", text, got, want)
	}
	if want != nil {
		return
	}
	if !slices.Equal(r.req.InputIDs, plain.InputIDs) || r.req.HasIDs != plain.HasIDs || r.req.Prompts != plain.Prompts {
		t.Fatalf("Parse(%.100q) has other ids than without a cache", text)
	}
	if r.req.HasIDs && !r.req.Batch {
		r.checkChain(plain.InputIDs)
	}
}
