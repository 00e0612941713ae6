package nvml

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzDecodeValue compares with an arbitrary-precision reading of the bytes.
func FuzzDecodeValue(f *testing.F) {
	for kind := range uint32(8) {
		f.Add(kind, uint64(1))
		f.Add(kind, uint64(math.MaxUint64))
		f.Add(kind, math.Float64bits(1e18))
	}
	f.Fuzz(func(t *testing.T, kind uint32, bits uint64) {
		var raw [8]byte
		binary.NativeEndian.PutUint64(raw[:], bits)
		want, ok := new(big.Int), false
		switch size := map[uint32]uint{1: 32, 2: 64, 3: 64, 4: 64, 5: 32, 6: 16}[kind]; {
		case kind == 0:
			v := math.Float64frombits(bits)
			if ok = !math.IsNaN(v) && !math.IsInf(v, 0); ok {
				want, _ = big.NewFloat(v).Int(nil)
				ok = !math.Signbit(v) || v == 0
			}
		case size > 0:
			want.And(new(big.Int).SetUint64(bits), new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), size), big.NewInt(1)))
			ok = (kind != 4 && kind != 5) || want.Bit(int(size)-1) == 0
		}
		ok = ok && (kind != 0 || want.IsInt64()) && want.IsUint64()
		got := decodeValue(kind, raw)
		if got.OK != ok || (ok && got.Value != want.Uint64()) {
			t.Errorf("decodeValue(%d, %#x) = %v, want %v, %t", kind, bits, got, want, ok)
		}
	})
}

// FuzzDecodeHealth rebuilds the mask from the decoded health.
func FuzzDecodeHealth(f *testing.F) {
	f.Add(uint32(0), uint8(0))
	f.Add(uint32(0x1AA), uint8(1))
	f.Add(uint32(math.MaxUint32), uint8(255))
	f.Fuzz(func(t *testing.T, mask uint32, summary uint8) {
		h := decodeHealth(mask, summary)
		for shift, v := range map[int]Opt[bool]{0: h.BandwidthDegraded, 4: h.RouteUnhealthy} {
			want := map[uint32]Opt[bool]{1: Some(true), 2: Some(false)}[mask>>shift&3]
			if v != want {
				t.Errorf("mask %#x at %d = %v, want %v", mask, shift, v, want)
			}
		}
		if code := mask >> 8 & 15; h.Misconfigured.OK != (code != 0) || (h.Misconfigured.Value == "no") != (code == 1) {
			t.Errorf("mask %#x is %v", mask, h.Misconfigured)
		}
		if h.Summary.OK != (summary != 0) || (h.Summary.Value == "healthy") != (summary == 1) {
			t.Errorf("summary %d is %v", summary, h.Summary)
		}
	})
}

func TestOptJSON(t *testing.T) {
	data, err := json.Marshal(struct{ A, B Opt[int] }{A: Some(0)})
	require.NoError(t, err)
	assert.JSONEq(t, `{"A":0,"B":null}`, string(data))
	assert.Equal(t, 7, Opt[int]{}.Or(7))
	assert.Equal(t, 1, Some(1).Or(7))
}

func TestThrottleNames(t *testing.T) {
	assert.Equal(t, "sw_power_cap, hw_thermal, bit_40", (SWPowerCap | HWThermal | 1<<40).String())
	assert.True(t, (HWThermal | Idle).Has(HWThermal|PowerBrake))
	assert.False(t, Idle.Has(HWThermal))
	data, err := json.Marshal(SWPowerCap | 1<<40)
	require.NoError(t, err)
	assert.JSONEq(t, `["sw_power_cap","bit_40"]`, string(data))
}

func TestNames(t *testing.T) {
	assert.Equal(t, "drain peer-to-peer", named(recoveries, uint64(3)))
	assert.Equal(t, "unknown (8)", named(recoveries, uint64(8)))
	assert.Equal(t, "4.0", named(linkVersions, 6))
	assert.Equal(t, "unknown (99)", named(linkVersions, 99))
}

func TestRate(t *testing.T) {
	assert.Equal(t, Some(5.0), rate(Some(uint64(10)), Some(uint64(20)), 2))
	for _, unknown := range []Opt[float64]{
		rate(Opt[uint64]{}, Some(uint64(20)), 2), rate(Some(uint64(10)), Opt[uint64]{}, 2),
		rate(Some(uint64(20)), Some(uint64(10)), 2), rate(Some(uint64(10)), Some(uint64(20)), 0),
	} {
		assert.False(t, unknown.OK)
	}
}
