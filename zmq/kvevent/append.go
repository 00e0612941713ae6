package kvevent

import (
	"encoding/binary"
	"math"
)

// The functions below write each value in the shortest form, as msgspec does; msgp's writers
// prefer signed forms for positive int64 and would not give the engines' bytes.

func appendUint(dst []byte, v uint64) []byte {
	switch {
	case v < fixMap:
		return append(dst, byte(v))
	case v <= math.MaxUint8:
		return append(dst, uint8c, byte(v))
	case v <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, uint16c), uint16(v))
	case v <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, uint32c), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, uint64c), v)
}

func appendInt(dst []byte, v int64) []byte {
	switch {
	case v >= 0:
		return appendUint(dst, uint64(v))
	case v >= -32:
		return append(dst, byte(v))
	case v >= math.MinInt8:
		return append(dst, int8c, byte(v))
	case v >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(dst, int16c), uint16(v))
	case v >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(dst, int32c), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, int64c), uint64(v))
}

func appendArray(dst []byte, n int) []byte {
	switch {
	case n < 16:
		return append(dst, fixArr|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, arr16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, arr32), uint32(n))
}

// appendDict appends the header of a map of n < 16 pairs: an event has no more fields than that.
func appendDict(dst []byte, n int) []byte { return append(dst, fixMap|byte(n)) }

func appendStr[S string | []byte](dst []byte, s S) []byte {
	if n := len(s); n < 32 {
		dst = append(dst, fixStr|byte(n))
	} else {
		dst = appendLength(dst, str8, n)
	}
	return append(dst, s...)
}

func appendBin(dst, s []byte) []byte { return append(appendLength(dst, bin8, len(s)), s...) }

// appendLength appends a length in one byte, two or four, behind code, code+1 or code+2.
func appendLength(dst []byte, code byte, n int) []byte {
	switch {
	case n <= math.MaxUint8:
		return append(dst, code, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, code+1), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, code+2), uint32(n))
}
