//go:build !race

package promptcache_test

import (
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
)

// TestDoesNotAllocate: neither where a prompt comes for the first time, nor where one that came
// before overwrites another one in a full cache, nor where it is known.
func TestDoesNotAllocate(t *testing.T) {
	c, x := cache(t, 1<<20)
	r := newReader(t, c, x)
	var bodies [][]byte
	for seed := range uint64(100) {
		body, _ := list(ids(seed, 3_000), ",")
		bodies = append(bodies, body)
	}
	i := 0
	parse := func() {
		i++
		if err := r.req.Parse(openai.APIGenerate, bodies[i%len(bodies)]); err != nil {
			t.Error(err)
		}
	}
	parse()
	if n := testing.AllocsPerRun(len(bodies)-2, parse); n != 0 {
		t.Errorf("a new prompt allocates %v times, want 0", n)
	}
	for range 2 * len(bodies) {
		parse()
	}
	before := c.Stats()
	if n := testing.AllocsPerRun(300, parse); n != 0 {
		t.Errorf("a cold prompt allocates %v times, want 0", n)
	}
	if st := c.Stats(); st.Known != before.Known || st.Fresh != before.Fresh+301 {
		t.Errorf("stats %+v after %+v, want 301 fresh lists", st, before)
	}
	bodies = bodies[:2]
	for range 4 {
		parse()
	}
	if n := testing.AllocsPerRun(300, parse); n != 0 {
		t.Errorf("a known prompt allocates %v times, want 0", n)
	}
}

func TestShardsAreApart(t *testing.T) {
	if promptcache.ShardSize%64 != 0 {
		t.Errorf("a shard is %d bytes, want a multiple of 64", promptcache.ShardSize)
	}
}
