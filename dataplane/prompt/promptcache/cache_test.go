package promptcache_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/dataplane/leaktest"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
	"github.com/warmpath/warmpath/radix"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const block = 16

// cache returns a cache of so many bytes with blocks of 16 tokens.
func cache(tb testing.TB, size int64) (*promptcache.Cache, *radix.Index) {
	tb.Helper()
	x := radix.New(radix.Config{Seed: 1})
	c, err := promptcache.New(promptcache.Config{MaxBytes: size, Index: x, BlockSize: func() int { return block }})
	if err != nil {
		tb.Fatal(err)
	}
	return c, x
}

// ids returns n ids; equal seeds begin alike.
func ids(seed uint64, n int) []uint32 {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]uint32, n)
	for i := range out {
		out[i] = r.Uint32N(128_000)
	}
	return out
}

// list writes ids as clients do, and returns where the first one begins.
func list(ids []uint32, separator string) (body []byte, first int) {
	body = []byte(`{"input_ids":[`)
	first = len(body)
	for i, id := range ids {
		if i > 0 {
			body = append(body, separator...)
		}
		body = strconv.AppendUint(body, uint64(id), 10)
	}
	return append(body, `],"stream":true}`...), first
}

// reader parses bodies with a cursor and checks the result.
type reader struct {
	tb     testing.TB
	x      *radix.Index
	cursor *promptcache.Cursor
	req    openai.Request
}

func newReader(tb testing.TB, c *promptcache.Cache, x *radix.Index) *reader {
	tb.Helper()
	r := &reader{tb: tb, x: x, cursor: c.NewCursor()}
	r.req.Memory = r.cursor
	return r
}

// read parses a list and returns how many of its bytes were known.
func (r *reader) read(want []uint32, separator string) (known int) {
	r.tb.Helper()
	body, first := list(want, separator)
	_, known = r.cursor.Recall(nil, body[first:])
	if err := r.req.Parse(openai.APIGenerate, body); err != nil || !slices.Equal(r.req.InputIDs, want) {
		r.tb.Errorf("Parse = %d ids, %v, want the %d of the body", len(r.req.InputIDs), err, len(want))
	}
	r.checkChain(want)
	return known
}

// learn reads a list until it is remembered.
func (r *reader) learn(ids []uint32, separator string) {
	r.tb.Helper()
	r.read(ids, separator)
	r.read(ids, separator)
}

// checkChain compares the chain with the hashes of the ids.
func (r *reader) checkChain(ids []uint32) {
	r.tb.Helper()
	chain, size := r.cursor.Chain()
	if size == 0 && len(chain) == 0 {
		return
	}
	if want := r.x.AppendHashes(nil, ids, size); len(chain) > len(want) || !slices.Equal(chain, want[:len(chain)]) {
		r.tb.Errorf("Chain has %d hashes that are not those of the %d ids in blocks of %d", len(chain), len(ids), size)
	}
}

func TestRecallOfGrowingPrompts(t *testing.T) {
	for _, separator := range []string{",", ", ", " ,\n\t"} {
		c, x := cache(t, 0)
		r := newReader(t, c, x)
		if known := r.read(ids(1, 10_000), separator); known != 0 {
			t.Fatalf("a cold prompt has %d known bytes", known)
		}
		r.read(ids(1, 10_000), separator)
		for n := 10_000; n < 12_000; n += 97 {
			body, first := list(ids(1, n), separator)
			whole := len(body) - first
			if known := r.read(ids(1, n+97), separator); known < whole-2*promptcache.Window || known > whole {
				t.Errorf("separator %q: %d bytes are known of a prompt that extends %d", separator, known, whole)
			}
			if chain, _ := r.cursor.Chain(); len(chain) < (n-2*promptcache.Window/6)/block {
				t.Errorf("the chain of %d ids has %d blocks", n+97, len(chain))
			}
		}
		if msg := c.Check(); msg != "" {
			t.Error(msg)
		}
	}
}

// TestRecallAtTheSeam changes or cuts the bytes behind the known ones in all ways that could be
// misread.
func TestRecallAtTheSeam(t *testing.T) {
	c, x := cache(t, 0)
	r := newReader(t, c, x)
	known := ids(1, 3_000)
	r.learn(known, ",")
	body, first := list(known, ",")
	_, n := r.cursor.Recall(nil, body[first:])
	if n == 0 || body[first+n-1] != ',' {
		t.Fatalf("%d bytes are known, want some, up to a comma", n)
	}
	head := body[:first+n]
	for _, tail := range []string{
		"", " ", "]", "]}", ",]}", "-1]}", "1]}", "12", "12]", " 7 ]}", "\n7\t,8]}", "01]}", "1.5]}", "4294967295]}", "4294967296]}", "null]}",
		"[1]]}", "1,]}", `"a"]}`, "1 2]}", "99999999999]}", "\x00]}", "1]", "1]]}", "1]}x",
	} {
		text := slices.Concat(head, []byte(tail))
		var plain openai.Request
		want := plain.Parse(openai.APIGenerate, text)
		got := r.req.Parse(openai.APIGenerate, text)
		if (got == nil) != (want == nil) || got != nil && got.Error() != want.Error() {
			t.Errorf("tail %q: %v, without a cache %v", tail, got, want)
		}
		if want == nil && !slices.Equal(r.req.InputIDs, plain.InputIDs) {
			t.Errorf("tail %q: other ids than without a cache", tail)
		}
	}
}

// TestRecallOfABranch has prompts that share a beginning and go on differently, in the middle of a
// piece.
func TestRecallOfABranch(t *testing.T) {
	c, x := cache(t, 0)
	r := newReader(t, c, x)
	shared := ids(1, 4_000)
	prompt := func(seed uint64) []uint32 { return slices.Concat(shared, ids(100+seed, 4_000)) }
	r.read(prompt(0), ",") // noted
	r.read(prompt(1), ",") // remembered, for its part in common with the first
	for seed := range uint64(20) {
		known := r.read(prompt(seed), ",")
		if seed != 1 && (known < 4*promptcache.Window || known > 6*promptcache.Window) {
			t.Errorf("%d bytes are known of a prompt that shares some 23,000", known)
		}
	}
	for seed := range uint64(20) {
		r.read(prompt(seed), ",")
	}
	for seed := range uint64(20) {
		if known := r.read(prompt(seed), ","); known < 10*promptcache.Window {
			t.Errorf("prompt %d, seen before, has %d known bytes", seed, known)
		}
	}
	st := c.Stats()
	if st.Known != 60 || st.Fresh != 2 || st.RecalledBytes < st.ParsedBytes {
		t.Errorf("stats %+v, want 60 known lists and 2 fresh ones", st)
	}
}

// TestForgets has more prompts than fit: the ones in use stay.
func TestForgets(t *testing.T) {
	const limit = 1 << 20
	c, x := cache(t, limit)
	r := newReader(t, c, x)
	hot := ids(1, 6_000)
	r.learn(hot, ",")
	lost := 0
	for seed := range uint64(300) {
		r.learn(ids(10+seed, 3_000), ",")
		if r.read(hot, ",") < 7*promptcache.Window {
			lost++
		}
		if st := c.Stats(); st.Bytes > limit {
			t.Fatalf("%d bytes, want at most %d", st.Bytes, limit)
		}
	}
	if lost > 15 {
		t.Errorf("a prompt in use was forgotten %d times of 300", lost)
	}
	if st := c.Stats(); st.Evicted == 0 || st.Pieces == 0 {
		t.Errorf("stats %+v, want evictions", st)
	}
	if known := r.read(ids(10, 3_000), ","); known != 0 {
		t.Errorf("the oldest prompt has %d known bytes", known)
	}
	if msg := c.Check(); msg != "" {
		t.Error(msg)
	}
}

// TestOnceIsNotRemembered has prompts that never come again, of which some begin like one that did:
// they take no room.
func TestOnceIsNotRemembered(t *testing.T) {
	c, x := cache(t, 0)
	r := newReader(t, c, x)
	shared := ids(1, 2_000)
	r.learn(shared, ",")
	before := c.Stats()
	for seed := range uint64(50) {
		r.read(ids(10+seed, 3_000), ",")
		if known := r.read(slices.Concat(shared, ids(100+seed, 3_000)), ","); known == 0 {
			t.Error("the shared beginning is not known")
		}
	}
	if st := c.Stats(); st.Pieces != before.Pieces || st.Bytes != before.Bytes || st.Evicted != 0 {
		t.Errorf("stats %+v after %+v, want no piece more", st, before)
	}
}

// TestNotRemembered has lists of which nothing can be known, and budgets in which nothing fits.
func TestNotRemembered(t *testing.T) {
	long := ids(1, 3_000)
	tests := []struct {
		name string
		ids  []uint32
		sep  string
		size int64
	}{
		{"short", long[:100], ",", 0},
		{"mostly white space", long[:40], string(bytes.Repeat([]byte{' '}, 5000)) + ",", 0},
		{"no room", long, ",", 1},
		{"no room for a piece", long, ",", 16 * 4096},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, x := cache(t, tt.size)
			r := newReader(t, c, x)
			for range 3 {
				if known := r.read(tt.ids, tt.sep); known != 0 {
					t.Errorf("%d bytes are known", known)
				}
			}
			if st := c.Stats(); st.Pieces != 0 || st.Bytes != 0 {
				t.Errorf("stats %+v, want nothing", st)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := promptcache.New(promptcache.Config{}); err == nil {
		t.Error("New without an index gave no error")
	}
}

// TestBlockSizeChanges: pieces with hashes of another block size are read again.
func TestBlockSizeChanges(t *testing.T) {
	x, size := radix.New(radix.Config{Seed: 1}), 0
	c, err := promptcache.New(promptcache.Config{Index: x, BlockSize: func() int { return size }})
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(t, c, x)
	prompt := ids(1, 3_000)
	for _, size = range []int{0, 16, 64, 1, 16} {
		if known := r.read(prompt, ","); known != 0 && size != 16 {
			t.Errorf("block size %d: %d bytes are known with another one", size, known)
		}
		r.read(prompt, ",")
		if known := r.read(prompt, ","); known == 0 {
			t.Errorf("block size %d: nothing is known of the prompt just read", size)
		}
		if chain, got := r.cursor.Chain(); got != size || size > 0 && len(chain) < 2_000/size {
			t.Errorf("a chain of %d blocks of %d tokens, want blocks of %d", len(chain), got, size)
		}
	}
}

// TestConcurrently has readers and writers of prompts that share beginnings, in a cache with room
// for a third of them.
func TestConcurrently(t *testing.T) {
	c, x := cache(t, 1<<20)
	var wg sync.WaitGroup
	for worker := range uint64(8) {
		wg.Go(func() {
			r := newReader(t, c, x)
			rng := rand.New(rand.NewPCG(worker, 2))
			for range 60 {
				shared := ids(rng.Uint64N(3), 2_000)
				r.read(slices.Concat(shared, ids(10+rng.Uint64N(40), 1_000+rng.IntN(2_000))), ",")
			}
		})
	}
	wg.Wait()
	if msg := c.Check(); msg != "" {
		t.Error(msg)
	}
	if st := c.Stats(); st.Known == 0 || st.Evicted == 0 {
		t.Errorf("stats %+v, want known lists and evictions", st)
	}
}
