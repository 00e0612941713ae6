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
