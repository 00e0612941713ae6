package directory

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/warmpath/warmpath/dataplane/kvtier/announce"
	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/radix"
)

// stocked makes an index of nodes with random pages, and with all pages of the prompts: each page
// on two nodes, the first tokens on all.
func stocked(tb testing.TB, nodes, pages, pageTokens int, prompts ...[]uint32) *Index {
	tb.Helper()
	blocks := radix.New(radix.Config{})
	x := New(Config{Hash: func(ids []uint32) uint64 { return uint64(blocks.HashBlock(ids)) }})
	numbers := map[string]uint32{}
	rng := rand.New(rand.NewPCG(1, 2))
	kinds := []proto.Kind{{ID: 1, Model: "m", PageSize: pageTokens, Open: true}}
	for i := range nodes {
		name := "node" + strconv.Itoa(i)
		numbers[name] = uint32(i + 1)
		n := &node{name: name, known: true}
		x.contents.nodes[name] = n
		m := announce.Report{Type: announce.TypeChanges, Kinds: kinds}
		for range pages {
			m.Changes = append(m.Changes, proto.Change{Page: rng.Uint64()})
		}
		for j, ids := range prompts {
			for at, h := range proto.PageHashes(ids, pageTokens, "") {
				if at*pageTokens < 512 || (i+j)%max(nodes/2, 1) == 0 {
					m.Changes = append(m.Changes, proto.Change{Page: h.Name()})
				}
			}
		}
		x.contents.apply(n, &m)
	}
	x.SetNodes(numbers)
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
			k := x.contents.view.Load()
			without := *k
			without.models = map[string][]pageGroup{"m": {k.models["m"][0]}}
			without.models["m"][0].cache = nil
			x.contents.view.Store(&without)
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

// BenchmarkApply measures a report of 128 stored and 128 removed pages.
func BenchmarkApply(b *testing.B) {
	x := stocked(b, 8, 200_000, 64)
	n := x.contents.nodes["node0"]
	rng := rand.New(rand.NewPCG(3, 4))
	var before []proto.Change
	m := announce.Report{Type: announce.TypeChanges, Kinds: []proto.Kind{{ID: 1, Model: "m", PageSize: 64, Open: true}}}
	b.ResetTimer()
	for range b.N {
		m.Changes = m.Changes[:0]
		for i := range before {
			before[i].Removed = true
		}
		m.Changes = append(m.Changes, before...)
		before = before[:0]
		for range 128 {
			before = append(before, proto.Change{Page: rng.Uint64()})
		}
		m.Changes = append(m.Changes, before...)
		x.contents.apply(n, &m)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*256), "ns/change")
}

// BenchmarkStoredWorst measures prompts of 128,000 tokens that a tier holds and no lookup has
// hashed before; pages of one token are the worst case.
func BenchmarkStoredWorst(b *testing.B) {
	for _, page := range []int{1, 16, 64} {
		known := ids(1, 128_000)
		x := stocked(b, 2, 100_000, page, known)
		dst := make([]routing.TierMatch, 0, 8)
		g := &x.contents.view.Load().models["m"][0]
		cache := g.cache
		for _, how := range []string{"new", "known"} {
			b.Run(fmt.Sprintf("page=%d/%s", page, how), func(b *testing.B) {
				if g.cache = nil; how == "known" {
					g.cache = cache
				}
				for range b.N {
					dst = x.Stored(dst[:0], routing.TierQuery{Model: "m", Tokens: known})
				}
				b.ReportMetric(float64(dst[len(dst)-1].Tokens), "tokens")
			})
		}
	}
}
