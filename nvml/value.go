package nvml

import (
	"encoding/binary"
	"math"
)

// The kinds of nvmlValueType_t.
const (
	kindDouble = iota
	kindUint
	kindUlong
	kindUlongLong
	kindLongLong
	kindInt
	kindUshort
)

// decodeValue reads the union nvmlValue_t as a count. Negative values and NaN are unknown: some
// drivers use them for "none".
func decodeValue(kind uint32, raw [8]byte) Opt[uint64] {
	bits := binary.NativeEndian.Uint64(raw[:])
	switch kind {
	case kindDouble:
		if f := math.Float64frombits(bits); f >= 0 && f < 1<<63 {
			return Some(uint64(f))
		}
	case kindUint:
		return Some(uint64(binary.NativeEndian.Uint32(raw[:])))
	case kindUlong, kindUlongLong: // long has 64 bits on every Linux platform of NVIDIA
		return Some(bits)
	case kindLongLong:
		if v := int64(bits); v >= 0 {
			return Some(uint64(v))
		}
	case kindInt:
		if v := int32(binary.NativeEndian.Uint32(raw[:])); v >= 0 {
			return Some(uint64(v))
		}
	case kindUshort:
		return Some(uint64(binary.NativeEndian.Uint16(raw[:])))
	}
	return Opt[uint64]{}
}

// rate is bytes a second between two counts. A count that fell has wrapped or was reset: the
// rate is then unknown.
func rate(from, to Opt[uint64], seconds float64) Opt[float64] {
	if !from.OK || !to.OK || to.Value < from.Value || seconds <= 0 {
		return Opt[float64]{}
	}
	return Some(float64(to.Value-from.Value) / seconds)
}
