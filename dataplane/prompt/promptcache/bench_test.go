package promptcache_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
	"github.com/warmpath/warmpath/radix"
)

const (
	benchIDs = 16_384
	// benchTurn is how many of them are new where a prompt extends a known one.
	benchTurn = 512
)

// held is an index in which one worker holds the prompts.
func held(b *testing.B, x *radix.Index, size int, prompts [][]uint32) radix.Domain {
	b.Helper()
	domain, w, name := x.Domain(radix.DomainKey{BlockSize: size}), x.AddWorker(), uint64(0)
	for _, p := range prompts {
		chain := x.AppendHashes(nil, p, size)
		names := make([]uint64, len(chain))
		for i := range names {
			name++
			names[i] = name
		}
		if err := x.Store(radix.Store{Worker: w, Domain: domain, Tier: radix.TierGPU, Engine: names, Blocks: chain}); err != nil {
			b.Fatal(err)
		}
	}
	return domain
}

// turn is a body with 512 new ids at its end each time.
type turn struct {
	body  []byte
	fresh []int // where some of the last turn's ids begin
}

func newTurn(prompt []uint32) turn {
	body, first := list(prompt, ",")
	t := turn{body: body}
	for i, at := 0, first; i < benchIDs; i++ {
		if i%64 == 0 && i > benchIDs-benchTurn && body[at] >= '1' {
			t.fresh = append(t.fresh, at)
		}
		at += bytes.IndexByte(body[at:], ',') + 1
	}
	return t
}

// next writes the round's number over first digits, which stay digits other than 0.
func (t *turn) next(round int) []byte {
	for _, at := range t.fresh {
		t.body[at] = '1' + byte(round%9)
		round /= 9
	}
	return t.body
}

// BenchmarkPrompt takes bodies of 16,384 ids from their bytes to the overlap of a worker that holds
// the prompt but for its last turn of 512 ids: parsed, hashed and matched. plain has no cache, new
// comes for the first time, cold came before and was evicted, and known finds all but the last
// turn. With 256 prompts, neither bodies nor pieces are in the processor's caches.
func BenchmarkPrompt(b *testing.B) {
	cases := []struct {
		name    string
		cache   int64 // bytes; 0 is none
		prompts int
		turns   bool // the cache knows the prompts' beginnings
		unseen  bool // it takes each prompt for one that comes for the first time
	}{
		{"plain", 0, 16, false, false},
		{"new", 2 << 20, 16, false, true},
		{"cold", 2 << 20, 16, false, false},
		{"known", 64 << 20, 16, true, false},
		{"plain", 0, 256, false, false},
		{"known", 64 << 20, 256, true, false},
	}
	for _, size := range []int{16, 64} {
		for _, c := range cases {
			b.Run(fmt.Sprintf("%s/prompts=%d/block=%d", c.name, c.prompts, size), func(b *testing.B) {
				benchPrompts(b, size, c.cache, c.prompts, c.turns, c.unseen)
			})
		}
	}
}

func benchPrompts(b *testing.B, size int, room int64, n int, turns, unseen bool) {
	b.Helper()
	x := radix.New(radix.Config{Seed: 1})
	c, err := promptcache.New(promptcache.Config{MaxBytes: room, Index: x, BlockSize: func() int { return size }})
	if err != nil {
		b.Fatal(err)
	}
	cursor := c.NewCursor()
	var req openai.Request
	var prompts [][]uint32
	var all []turn
	for i := range n {
		begin := ids(uint64(i), benchIDs-benchTurn)
		if turns {
			req.Memory = cursor
			body, _ := list(begin, ",")
			for range 2 { // noted, remembered
				if err := req.Parse(openai.APIGenerate, body); err != nil {
					b.Fatal(err)
				}
			}
		}
		prompts = append(prompts, begin)
		all = append(all, newTurn(slices.Concat(begin, ids(uint64(1000+i), benchTurn))))
	}
	if room > 0 {
		req.Memory = cursor
	}
	domain := held(b, x, size, prompts)
	var chain []radix.Hash
	var overlaps []radix.Overlap
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := req.Parse(openai.APIGenerate, all[i%n].next(i/n)); err != nil {
			b.Fatal(err)
		}
		i++
		if unseen {
			cursor.Unsee()
		}
		chain = chain[:0]
		if room > 0 {
			known, _ := cursor.Chain()
			chain = append(chain, known...)
		}
		chain = x.AppendHashes(chain, req.InputIDs[len(chain)*size:], size)
		overlaps = x.Match(overlaps[:0], domain, chain)
		if len(overlaps) != 1 || int(overlaps[0].Blocks) != (benchIDs-benchTurn)/size {
			b.Fatalf("overlaps %v", overlaps)
		}
	}
}
