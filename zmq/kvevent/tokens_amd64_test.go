//go:build !purego

package kvevent

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// withoutSIMD runs f as on a CPU that has none of the instructions.
func withoutSIMD(f func()) {
	wide, narrow := hasTokens512, hasTokens256
	hasTokens512, hasTokens256 = false, false
	f()
	hasTokens512, hasTokens256 = wide, narrow
}

// withoutAVX512 runs f as on a CPU that has the older ones only.
func withoutAVX512(f func()) {
	had := hasTokens512
	hasTokens512 = false
	f()
	hasTokens512 = had
}

// tokenPayload is a list of n ids in all forms that have at most five bytes, and then what is given.
func tokenPayload(rng *rand.Rand, n int, behind []byte) []byte {
	b := []byte{arr32, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
	for range n {
		switch v := rng.Uint32(); v % 8 {
		case 0:
			b = append(b, byte(v>>8)&0x7f)
		case 1:
			b = append(b, uint8c, byte(v>>8))
		case 2, 3, 4:
			b = append(b, uint16c, byte(v>>8), byte(v>>16))
		default:
			b = append(b, uint32c, byte(v>>8), byte(v>>16), byte(v>>24), byte(v))
		}
	}
	return append(b, behind...)
}

// FuzzTokensAgainstGo reads lists of ids with the assembly and without: good ones, and those of which some bytes are others.
func FuzzTokensAgainstGo(f *testing.F) {
	for i, put := range [][]byte{
		nil, {0}, {uint64c, 0, 0, 0, 1, 0, 0, 0, 7}, {codeNil}, {uint32c, 0xff}, {negFix, int32c, 1, 2, 3, 4}, {fixMap}, {0xcb}, {0x7f, 0xcf},
	} {
		f.Add(uint64(i), uint16(13*i), uint16(5+40*i), put)
	}
	f.Fuzz(func(t *testing.T, seed uint64, n, at uint16, put []byte) {
		rng := rand.New(rand.NewPCG(seed, 1))
		payload := tokenPayload(rng, int(n%2048), make([]byte, seed%80))
		if len(put) > 0 {
			copy(payload[int(at)%len(payload):], put)
		}
		var want Batch
		var wantE Event
		wantR := reader{b: payload}
		withoutSIMD(func() { want.tokens.read(&wantR, &wantE) })
		check := func() {
			var got Batch
			var e Event
			r := reader{b: payload}
			got.tokens.read(&r, &e)
			if r.p != wantR.p || r.bad != wantR.bad || got.tokens.wide != want.tokens.wide || !slices.Equal(e.Tokens, wantE.Tokens) {
				t.Fatalf("read %d ids to %d (bad %v), want %d to %d (bad %v): %x",
					len(e.Tokens), r.p, r.bad, len(wantE.Tokens), wantR.p, wantR.bad, payload)
			}
		}
		check()
		withoutAVX512(check)
	})
}

// TestTokensFastPath makes sure that the assembly reads nearly all of a list, where the CPU has what it needs.
func TestTokensFastPath(t *testing.T) {
	if !hasTokens512 {
		t.Skip("no AVX-512 VBMI")
	}
	const n = 1000
	payload := tokenPayload(rand.New(rand.NewPCG(1, 2)), n, make([]byte, 64))
	dst := make([]uint32, n)
	count, used := tokenGroups(dst, payload[5:])
	if count > n || count <= n-tokenGroup || used > len(payload)-5-64 {
		t.Errorf("read %d ids in %d bytes, want all but %d at most", count, used, tokenGroup-1)
	}
	for room := range 40 { // it writes nothing behind its room
		out := make([]uint32, room+16)
		count, _ := tokenGroups(out[:room], payload[5:])
		if count > room || slices.ContainsFunc(out[count:], func(v uint32) bool { return v != 0 }) {
			t.Errorf("with room for %d: %d ids, %v", room, count, out)
		}
	}
}

// TestTokensOfMixedWidths has groups of all lengths, those of which the next begins just where the bytes at hand end among them.
func TestTokensOfMixedWidths(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for widths := range 1 << 4 { // which there are: of 1, 2, 3 and 5 bytes
		for round := range 64 {
			n := 12 + rng.IntN(60)
			payload := []byte{arr32, 0, 0, 0, byte(n)}
			var want []uint32
			for len(want) < n {
				v := rng.Uint32()
				switch kind := rng.IntN(4); {
				case widths>>kind&1 == 0 && widths != 0:
					continue
				case kind == 0:
					v &= 0x7f
					payload = append(payload, byte(v))
				case kind == 1:
					v &= 0xff
					payload = append(payload, uint8c, byte(v))
				case kind == 2:
					v &= 0xffff
					payload = append(payload, uint16c, byte(v>>8), byte(v))
				default:
					payload = append(payload, uint32c, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
				}
				want = append(want, v)
			}
			payload = append(payload, make([]byte, 2*round)...)
			var got Batch
			var e Event
			r := reader{b: payload}
			got.tokens.read(&r, &e)
			if r.bad || r.p != len(payload)-2*round || !slices.Equal(e.Tokens, want) {
				t.Fatalf("%04b: read %d to %d (bad %v), want %d: %x", widths, e.Tokens, r.p, r.bad, want, payload)
			}
		}
	}
}

// TestNarrowTokens does the same for the CPUs that have AVX2 only, with ids of two and four bytes.
func TestNarrowTokens(t *testing.T) {
	if !hasTokens256 {
		t.Skip("no AVX2")
	}
	const n = 1000
	rng := rand.New(rand.NewPCG(1, 2))
	var payload []byte
	var want []uint32
	for range n {
		v := rng.Uint32N(128_000)
		want = append(want, v)
		if v < 1<<16 {
			payload = append(payload, uint16c, byte(v>>8), byte(v))
		} else {
			payload = append(payload, uint32c, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
		}
	}
	withoutAVX512(func() {
		dst := make([]uint32, n)
		count, used := tokenGroups(dst, payload)
		if count < n-narrowGroup-narrowBytes/3 || used > len(payload) || !slices.Equal(dst[:count], want[:count]) {
			t.Errorf("read %d ids in %d bytes, want %d: %d", count, used, n, dst[:count])
		}
		for room := range 60 { // it writes nothing behind its room
			out := make([]uint32, room+16)
			count, _ := tokenGroups(out[:room], payload)
			if count > room || slices.ContainsFunc(out[count:], func(v uint32) bool { return v != 0 }) {
				t.Errorf("with room for %d: %d ids, %v", room, count, out)
			}
		}
	})
}
