//go:build !race

package promptcache_test

import (
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
)

// TestDoesNotAllocate: neither where a text overwrites another one in a full cache, nor where it is
// known.
func TestDoesNotAllocate(t *testing.T) {
	c, _ := textCache(t, 512<<10, 16)
	cur, enc, root := c.NewCursor(), &runs{}, c.NewRoot()
	var texts [][]byte
	for seed := range 100 {
		texts = append(texts, said(seed, 100))
	}
	var ids []uint32
	i := 0
	encode := func() {
		i++
		var err error
		if ids, err = cur.Encode(root, ids[:0], texts[i%len(texts)], enc); err != nil {
			t.Error(err)
		}
	}
	for range 4 * len(texts) {
		encode()
	}
	before := c.Stats()
	if n := testing.AllocsPerRun(300, encode); n != 0 {
		t.Errorf("a new text allocates %v times, want 0", n)
	}
	if st := c.Stats(); st.Known != before.Known || st.Fresh != before.Fresh+301 {
		t.Errorf("stats %+v after %+v, want 301 fresh texts", st, before)
	}
	texts = texts[:2]
	for range 4 {
		encode()
	}
	if n := testing.AllocsPerRun(300, encode); n != 0 {
		t.Errorf("a known text allocates %v times, want 0", n)
	}
}

func TestShardsAreApart(t *testing.T) {
	if promptcache.ShardSize%64 != 0 {
		t.Errorf("a shard is %d bytes, want a multiple of 64", promptcache.ShardSize)
	}
}
