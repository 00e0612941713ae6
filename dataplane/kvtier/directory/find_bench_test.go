package directory

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/warmpath/warmpath/dataplane/kvtier/store"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/radix"
)

// stocked makes an index of nodes that hold so many pages of no prompt here, and all pages of the prompts: each one on two nodes, its first tokens on all.
func stocked(tb testing.TB, nodes, pages, pageTokens int, prompts ...[]uint32) *Index {
	tb.Helper()
	blocks := radix.New(radix.Config{})
	x := New(Config{Hash: func(ids []uint32) uint64 { return uint64(blocks.HashBlock(ids)) }})
	places := map[string]uint32{}
	rng := rand.New(rand.NewPCG(1, 2))
	kinds := []store.Kind{{ID: 1, Model: "m", Tokens: pageTokens, Open: true}}
	for i := range nodes {
		name := "node" + strconv.Itoa(i)
		places[name] = uint32(i + 1)
		n := &node{name: name, learnt: true}
		x.nodes[name] = n
		m := report{kind: kindTell, kinds: kinds}
		for range pages {
			m.changes = append(m.changes, store.Change{Page: rng.Uint64()})
		}
		for j, ids := range prompts {
			for at, h := range store.PageHashes(ids, pageTokens, "") {
				if at*pageTokens < 512 || (i+j)%max(nodes/2, 1) == 0 {
					m.changes = append(m.changes, store.Change{Page: binary.BigEndian.Uint64(h[:8])})
				}
			}
		}
		x.applyLocked(n, &m)
	}
	x.SetPlaces(places)
	return x
}

func ids(seed uint32, n int) []uint32 {
	list := make([]uint32, n)
	for i := range list {
		list[i] = seed<<16 + uint32(i)%50_000
	}
	return list
}

func BenchmarkStored(b *testing.B) {
	for _, page := range []int{16, 64} {
		for _, n := range []int{1000, 16_000, 128_000} {
			known := make([][]uint32, 16)
			for i := range known {
				known[i] = ids(uint32(i), n)
			}
			x := stocked(b, 8, 100_000, page, known...)
			unknown := ids(1000, n)
			dst := make([]routing.TierMatch, 0, 64)
			run := func(name string, ask func(i int) []uint32) {
				b.Run(fmt.Sprintf("page=%d/tokens=%d/%s", page, n, name), func(b *testing.B) {
					b.ReportAllocs()
					for i := range b.N {
						dst = x.Stored(dst[:0], routing.TierQuery{Model: "m", Tokens: ask(i)})
					}
				})
			}
			run("unknown", func(int) []uint32 { return unknown })
			run("known", func(i int) []uint32 { return known[i%len(known)] })
			k := x.known.Load()
			without := *k
			without.models = map[string][]group{"m": {k.models["m"][0]}}
			without.models["m"][0].memo = nil
			x.known.Store(&without)
			run("forgotten", func(i int) []uint32 { return known[i%len(known)] })
		}
	}
	var nothing Index
	b.Run("no tier", func(b *testing.B) {
		ask := routing.TierQuery{Model: "m", Tokens: ids(1, 1000)}
		for range b.N {
			nothing.Stored(nil, ask)
		}
	})
}

func BenchmarkStoredOfManyNodes(b *testing.B) {
	for _, nodes := range []int{8, 64, 256} {
		known := ids(1, 16_000)
		x := stocked(b, nodes, 10_000, 64, known)
		dst := make([]routing.TierMatch, 0, nodes)
		b.Run(strconv.Itoa(nodes), func(b *testing.B) {
			for range b.N {
				dst = x.Stored(dst[:0], routing.TierQuery{Model: "m", Tokens: known})
			}
		})
	}
}

// BenchmarkApply is what a message of 128 stored pages and 128 evicted ones takes.
func BenchmarkApply(b *testing.B) {
	x := stocked(b, 8, 200_000, 64)
	n := x.nodes["node0"]
	rng := rand.New(rand.NewPCG(3, 4))
	var before []store.Change
	m := report{kind: kindTell, kinds: []store.Kind{{ID: 1, Model: "m", Tokens: 64, Open: true}}}
	b.ResetTimer()
	for range b.N {
		m.changes = m.changes[:0]
		for i := range before {
			before[i].Gone = true
		}
		m.changes = append(m.changes, before...)
		before = before[:0]
		for range 128 {
			before = append(before, store.Change{Page: rng.Uint64()})
		}
		m.changes = append(m.changes, before...)
		x.applyLocked(n, &m)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*256), "ns/change")
}

// BenchmarkStoredWorst is what prompts of 128,000 tokens take that a tier knows and nobody has asked for: pages of one token are the worst.
func BenchmarkStoredWorst(b *testing.B) {
	for _, page := range []int{1, 16, 64} {
		known := ids(1, 128_000)
		x := stocked(b, 2, 100_000, page, known)
		dst := make([]routing.TierMatch, 0, 8)
		g := &x.known.Load().models["m"][0]
		memo := g.memo
		for _, how := range []string{"new", "known"} {
			b.Run(fmt.Sprintf("page=%d/%s", page, how), func(b *testing.B) {
				if g.memo = nil; how == "known" {
					g.memo = memo
				}
				for range b.N {
					dst = x.Stored(dst[:0], routing.TierQuery{Model: "m", Tokens: known})
				}
				b.ReportMetric(float64(dst[len(dst)-1].Tokens), "tokens")
			})
		}
	}
}
