package promptcache_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/leaktest"
	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
	"github.com/warmpath/warmpath/radix"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// runs is a tokenizer with runs of one letter as tokens, so that a text cut inside of one has other
// ids. It may be cut before and after a bar, unless another bar follows.
type runs struct {
	salt    uint32
	encoded int // bytes
}

func (r *runs) Cut(rest []byte) int {
	const least = 40
	for i := least; i < len(rest); i++ {
		if rest[i] == '|' && rest[i-1] != '|' || rest[i-1] == '|' && rest[i] != '|' {
			return i
		}
	}
	return 0
}

func (r *runs) Append(ids []uint32, text []byte) ([]uint32, error) {
	r.encoded += len(text)
	if bytes.Contains(text, bomb) {
		return append(ids, 666), errBomb
	}
	for i := 0; i < len(text); {
		n := 1
		for i+n < len(text) && text[i+n] == text[i] {
			n++
		}
		ids = append(ids, r.salt+uint32(text[i])<<16|uint32(n))
		i += n
	}
	return ids, nil
}

// bomb is a text that runs refuse.
var (
	bomb    = []byte("bomb")
	errBomb = errors.New("a bomb")
)

// idsOf returns the ids of a text without a cache.
func idsOf(text []byte, salt uint32) []uint32 {
	ids, _ := (&runs{salt: salt}).Append(nil, text)
	return ids
}

// TestRefusedTexts: the ids of a piece that the tokenizer gives up are not remembered.
func TestRefusedTexts(t *testing.T) {
	c, _ := textCache(t, 1<<20, 16)
	cur, enc, root := c.NewCursor(), &runs{}, c.NewRoot()
	bad := slices.Concat(said(1, 9), bomb, said(2, 9))
	for range 3 {
		_, err := cur.Encode(root, nil, bad, enc)
		require.ErrorIs(t, err, errBomb)
		ids, err := cur.Encode(root, nil, said(1, 9), enc)
		require.NoError(t, err)
		require.Equal(t, idsOf(said(1, 9), 0), ids)
	}
	_, err := cur.Encode(root, nil, bomb, enc)
	require.ErrorIs(t, err, errBomb, "the last piece")
	require.Empty(t, c.Check())
}

func textCache(t testing.TB, room int64, block int) (*promptcache.Cache, *radix.Index) {
	t.Helper()
	x := radix.New(radix.Config{Seed: 1})
	c, err := promptcache.New(promptcache.Config{MaxBytes: room, Index: x, BlockSize: func() int { return block }})
	require.NoError(t, err)
	return c, x
}

// said returns n messages that no other seed's are.
func said(seed, n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "|%d-%d|%s", seed, i, strings.Repeat("some words, ", 1+i%9))
	}
	return b.Bytes()
}

// TestTurnsCostTheirNewText: of a conversation that grows, each turn encodes its new text, and the
// piece in which it ends.
func TestTurnsCostTheirNewText(t *testing.T) {
	c, x := textCache(t, 1<<20, 16)
	cur, enc, root := c.NewCursor(), &runs{}, c.NewRoot()
	var ids []uint32
	before := 0
	for turn := 1; turn <= 30; turn++ {
		text := said(1, 4*turn)
		want := idsOf(text, 0)
		enc.encoded = 0
		var err error
		ids, err = cur.Encode(root, ids[:0], text, enc)
		require.NoError(t, err)
		require.Equal(t, want, ids)
		assert.Less(t, enc.encoded, len(text)-before+300, "turn %d", turn)
		before = len(text)
		chain, block := cur.Chain()
		require.Equal(t, 16, block)
		require.Equal(t, x.AppendHashes(nil, ids, 16)[:len(chain)], chain)
	}
	other := c.NewRoot()
	salted := &runs{salt: 7}
	ids, err := cur.Encode(other, nil, said(1, 20), salted)
	require.NoError(t, err)
	assert.Equal(t, idsOf(said(1, 20), 7), ids, "another tokenizer's")
	assert.Empty(t, c.Check())
}

// TestTextsAtOnce: many requests read, write and overwrite the same pieces.
func TestTextsAtOnce(t *testing.T) {
	c, _ := textCache(t, 128<<10, 16)
	root := c.NewRoot()
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			cur, enc := c.NewCursor(), &runs{}
			for i := range 300 {
				text := said((g+i)%12, 3+i%40)
				if ids, err := cur.Encode(root, nil, text, enc); err != nil || !slices.Equal(idsOf(text, 0), ids) {
					t.Errorf("goroutine %d, text %d has other ids than without a cache", g, i)
					return
				}
			}
		})
	}
	all.Wait()
	assert.Empty(t, c.Check())
}

// TestForgets has more texts than fit: the one in use stays.
func TestForgets(t *testing.T) {
	const limit = 1 << 20
	c, _ := textCache(t, limit, 16)
	cur, enc, root := c.NewCursor(), &runs{}, c.NewRoot()
	encoded := func(text []byte) int {
		enc.encoded = 0
		ids, err := cur.Encode(root, nil, text, enc)
		require.NoError(t, err)
		require.Equal(t, idsOf(text, 0), ids)
		return enc.encoded
	}
	hot, lost := said(1, 100), 0
	encoded(hot)
	for seed := range 300 {
		encoded(said(10+seed, 100))
		if encoded(hot) > len(hot)/2 {
			lost++
		}
		require.LessOrEqual(t, c.Stats().Bytes, int64(limit))
	}
	assert.LessOrEqual(t, lost, 15, "a text in use was forgotten")
	oldest := said(10, 100)
	assert.Equal(t, len(oldest), encoded(oldest))
	st := c.Stats()
	assert.Positive(t, st.Evicted)
	assert.Positive(t, st.Pieces)
	assert.Empty(t, c.Check())
}

// TestBlockSizeChanges: pieces with hashes of another block size are encoded again.
func TestBlockSizeChanges(t *testing.T) {
	x, size := radix.New(radix.Config{Seed: 1}), 0
	c, err := promptcache.New(promptcache.Config{Index: x, BlockSize: func() int { return size }})
	require.NoError(t, err)
	cur, enc, root, text := c.NewCursor(), &runs{}, c.NewRoot(), said(1, 100)
	encode := func() (encoded int) {
		enc.encoded = 0
		ids, err := cur.Encode(root, nil, text, enc)
		require.NoError(t, err)
		chain, block := cur.Chain()
		require.Equal(t, size, block)
		if size > 0 {
			require.Greater(t, len(chain), len(ids)/size/2)
			require.Equal(t, x.AppendHashes(nil, ids, size)[:len(chain)], chain)
		}
		return enc.encoded
	}
	for _, size = range []int{0, 16, 64, 1} {
		require.Equal(t, len(text), encode(), "block size %d: nothing is known with another one", size)
		require.Less(t, encode(), len(text)/10, "block size %d", size)
	}
}

func TestNewRefuses(t *testing.T) {
	_, err := promptcache.New(promptcache.Config{})
	require.Error(t, err)
}

// FuzzEncodeWithCacheAgainstWithout makes a history of texts, each an edit of an earlier one.
func FuzzEncodeWithCacheAgainstWithout(f *testing.F) {
	f.Add(uint16(16), []byte("\x00\x00\x00\x00"))
	f.Add(uint16(1), []byte("\x01\x20\x00|\x02\xff\x0f|\x00\x00\x10|\x03\x00\x20-\x01\x00\x00\x00"))
	f.Add(uint16(7), []byte("\x40\x00\x01|\x82\x00\x01|\x03\x01\x101\xc2\x02\x01o\x01\x00\x18m\x05\x08\x00 "))
	f.Fuzz(func(t *testing.T, size uint16, edits []byte) {
		block := int(size) % 100
		c, x := textCache(t, 300<<10, block)
		cur, enc, root := c.NewCursor(), &runs{}, c.NewRoot()
		texts := [][]byte{said(1, 30)}
		for ; len(edits) >= 4 && len(texts) < 40; edits = edits[4:] {
			old := texts[int(edits[0]&63)%len(texts)]
			at := int(binary.LittleEndian.Uint16(edits[1:])) % (len(old) + 1)
			switch edits[0] >> 6 {
			case 0:
				texts = append(texts, slices.Concat(old[:at], edits[3:4], old[at:]))
			case 1:
				texts = append(texts, old[:at])
			case 2:
				texts = append(texts, slices.Concat(old[:at], said(int(edits[3]), 5)))
			case 3:
				texts = append(texts, slices.Concat(old[:at], bytes.Repeat(edits[3:4], 100), old[at:]))
			}
		}
		for range 2 {
			for _, text := range texts {
				want := idsOf(text, 0)
				got, err := cur.Encode(root, nil, text, enc)
				if refused := bytes.Contains(text, bomb); refused || err != nil {
					continue
				}
				if !slices.Equal(got, want) {
					t.Fatalf("ids of %.200q differ from those without a cache", text)
				}
				if chain, _ := cur.Chain(); block > 0 && !slices.Equal(chain, x.AppendHashes(nil, got, block)[:len(chain)]) {
					t.Fatalf("hashes of %.200q are others", text)
				}
			}
		}
		if msg := c.Check(); msg != "" {
			t.Error(msg)
		}
	})
}
