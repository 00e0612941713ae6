package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// filled returns a store without sockets that holds n pages of one prompt.
func filled(tb testing.TB, bytes int64, pages int) (*Store, uint32, []proto.Hash) {
	tb.Helper()
	tier, err := New(Config{Bytes: bytes})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = tier.Close() })
	ns, err := tier.pages.namespace("m", testBytes)
	if err != nil {
		tb.Fatal(err)
	}
	hashes := chain(1, pages)
	set, _ := tier.pages.reserve(ns, hashes, nil, nil, false)
	set.commit()
	return tier, ns, hashes
}

func BenchmarkExists(b *testing.B) {
	for _, pages := range []int{128, 2048} {
		b.Run(fmt.Sprintf("pages=%d", pages), func(b *testing.B) {
			tier, ns, hashes := filled(b, 64<<20, pages)
			b.ReportAllocs()
			for b.Loop() {
				if tier.engines.lookup(ns, hashes) != pages {
					b.Fatal("pages are missing")
				}
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	tier, ns, hashes := filled(b, 64<<20, 128)
	var offsets []uint64
	b.ReportAllocs()
	for b.Loop() {
		var l *lease
		offsets, l = tier.leases.get(offsets[:0], ns, hashes, time.Second)
		tier.leases.release(l)
	}
}

// BenchmarkStore measures a batch without its copy, in a full store.
func BenchmarkStore(b *testing.B) {
	tier, ns, _ := filled(b, minBytes, 4000)
	batches := make([][]proto.Hash, 64)
	for i := range batches {
		batches[i] = chain(uint32(100+i), 128)
	}
	var results []byte
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		var set *batch
		set, results = tier.pages.reserve(ns, batches[n%len(batches)], nil, results[:0], false)
		set.commit()
	}
}

// BenchmarkGather copies a page of 128 KiB from a pool with 64 pieces.
func BenchmarkGather(b *testing.B) {
	const layers, piece0, tokens = 32, 2 << 10, 1024
	r := &region{data: make([]byte, 2*layers*piece0*tokens/4)}
	f := layout{regions: []*region{r}}
	for i := range 2 * layers {
		f.pieces = append(f.pieces, piece{bytes: piece0, base: uint64(i * piece0 * tokens / 4), stride: piece0 / 4})
		f.bytes += piece0
	}
	dst := make([]byte, f.bytes)
	b.SetBytes(int64(f.bytes))
	b.ReportAllocs()
	for n := uint64(0); b.Loop(); n++ {
		if err := f.gather(dst, n%(tokens/4)*4); err != nil {
			b.Fatal(err)
		}
	}
}
