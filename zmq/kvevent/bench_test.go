package kvevent_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/warmpath/warmpath/zmq/kvevent"
)

// benchBatch is one store of 32 pages of 16 tokens, with hashes and ids as wide as real ones.
func benchBatch() *kvevent.Batch {
	e := kvevent.Event{Kind: kvevent.Stored, Medium: kvevent.MediumGPU, BlockSize: 16, HasParent: true, Parent: 1 << 62}
	for i := range uint32(512) {
		e.Tokens = append(e.Tokens, i*i*7919%150_000)
	}
	e.Hashes = sglangHashes(e.Tokens, e.BlockSize, "")
	return &kvevent.Batch{Time: 1.5, HasRank: true, Events: []kvevent.Event{e}}
}

func benchPayload(enc kvevent.Encoding) []byte { return kvevent.Append(nil, benchBatch(), enc) }

func BenchmarkDecode(b *testing.B) {
	for _, enc := range []kvevent.Encoding{kvevent.SGLang0515, kvevent.SGLang0523, kvevent.VLLM032} {
		b.Run("hashes=32/tokens=512/enc="+enc.String(), func(b *testing.B) {
			payload := benchPayload(enc)
			var batch kvevent.Batch
			b.ReportAllocs()
			b.SetBytes(int64(len(payload)))
			b.ResetTimer()
			for range b.N {
				if err := batch.Decode(payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("hashes=32/tokens=512/random", func(b *testing.B) { // No two alike, as in life: branches cannot be learnt.
		rng := rand.New(rand.NewPCG(1, 2))
		var payloads [][]byte
		for range 256 {
			batch := benchBatch()
			for i := range batch.Events[0].Tokens {
				batch.Events[0].Tokens[i] = rng.Uint32N(128_000)
			}
			payloads = append(payloads, kvevent.Append(nil, batch, kvevent.SGLang0523))
		}
		var batch kvevent.Batch
		b.ReportAllocs()
		for i := range b.N {
			if err := batch.Decode(payloads[i%len(payloads)]); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, below := range []uint32{1 << 16, 1 << 17} { // Long prompts: ids of three bytes, and half of them of five.
		b.Run(fmt.Sprintf("hashes=750/tokens=12000/below=%d", below), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			e := kvevent.Event{Kind: kvevent.Stored, Medium: kvevent.MediumGPU, BlockSize: 16}
			for range 12000 {
				e.Tokens = append(e.Tokens, 256+rng.Uint32N(below-256))
			}
			e.Hashes = sglangHashes(e.Tokens, e.BlockSize, "")
			payload := kvevent.Append(nil, &kvevent.Batch{HasRank: true, Events: []kvevent.Event{e}}, kvevent.SGLang0523)
			var batch kvevent.Batch
			b.ReportAllocs()
			b.SetBytes(int64(len(payload)))
			for b.Loop() {
				if err := batch.Decode(payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("removed=700", func(b *testing.B) {
		e := kvevent.Event{Kind: kvevent.Removed, Medium: kvevent.MediumGPU}
		rng := rand.New(rand.NewPCG(1, 2))
		for range 700 {
			e.Hashes = append(e.Hashes, rng.Uint64())
		}
		payload := kvevent.Append(nil, &kvevent.Batch{Time: 1.5, Events: []kvevent.Event{e}}, kvevent.SGLang0523)
		var batch kvevent.Batch
		b.ReportAllocs()
		for range b.N {
			if err := batch.Decode(payload); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("hashes=1/tokens=4", func(b *testing.B) {
		payload := shapeTests[0].payload()
		var batch kvevent.Batch
		b.ReportAllocs()
		for range b.N {
			if err := batch.Decode(payload); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	batch := benchBatch()
	var buf []byte
	b.ReportAllocs()
	for range b.N {
		buf = kvevent.Append(buf[:0], batch, kvevent.SGLang0523)
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkChain(b *testing.B) {
	batch := benchBatch()
	chain := kvevent.NewChain("")
	b.ReportAllocs()
	for range b.N {
		chain.Next(batch.Events[0].Tokens[:16])
	}
}

func BenchmarkLoad(b *testing.B) {
	payload := kvevent.AppendLoad(nil, &kvevent.Load{Running: 3, MaxTotal: 400_000, PrefillBusyMicros: 1 << 40})
	var load kvevent.Load
	b.ReportAllocs()
	for range b.N {
		if err := load.Decode(payload); err != nil {
			b.Fatal(err)
		}
	}
}
