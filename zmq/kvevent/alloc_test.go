//go:build !race

package kvevent_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/zmq/kvevent"
)

func TestDecodeDoesNotAllocate(t *testing.T) {
	var payloads [][]byte
	for _, v := range eventVectors(t) {
		payloads = append(payloads, v.payload(t))
	}
	for _, s := range shapeTests {
		payloads = append(payloads, s.payload())
	}
	var b kvevent.Batch
	n := testing.AllocsPerRun(20, func() { // Its first run, not counted, is where b grows.
		for _, p := range payloads {
			if err := b.Decode(p); err != nil {
				t.Fatal(err)
			}
		}
	})
	require.Zero(t, n)
}

func TestEncodeDoesNotAllocate(t *testing.T) {
	var b kvevent.Batch
	require.NoError(t, b.Decode(benchPayload(kvevent.SGLang0523)))
	buf := make([]byte, 0, 1<<16)
	load := kvevent.Load{Running: 3, MaxTotal: 4096}
	chain := kvevent.NewChain("salt")
	page := make([]uint32, 64)
	chain.Next(page)
	for name, f := range map[string]func(){
		"Append":     func() { buf = kvevent.Append(buf[:0], &b, kvevent.SGLang0523) },
		"AppendJSON": func() { buf = kvevent.AppendJSON(buf[:0], &b) },
		"AppendLoad": func() { buf = kvevent.AppendLoad(buf[:0], &load) },
		"Load":       func() { require.NoError(t, load.Decode(buf)) },
		"Chain":      func() { chain.Next(page) },
	} {
		if name == "Load" {
			buf = kvevent.AppendLoad(buf[:0], &load)
		}
		require.Zero(t, testing.AllocsPerRun(50, f), name)
	}
}

// TestHostileLengthsDoNotAllocate sends headers that announce more than there is: memory may
// only follow the bytes.
func TestHostileLengthsDoNotAllocate(t *testing.T) {
	huge := packed{0xdd, 0x7f, 0xff, 0xff, 0xff}
	for _, events := range []packed{
		huge,
		{0x91, 0x92, "BlockRemoved", huge},
		{0x91, 0x95, "BlockStored", 0x90, 0xc0, huge, 1},
		{0x91, store(9, packed{0xc0, 0xc0, 0xc0, huge})},
		{0x91, 0xdf, 0x7f, 0xff, 0xff, 0xff, "type", "New"},
	} {
		payload := shapeTest{events: events}.payload()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 10 {
			var batch kvevent.Batch
			require.Error(t, batch.Decode(payload))
		}
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
	}
}
