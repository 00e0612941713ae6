package openai

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// scanIDList reads a list of ids from its first element; 0 when it is none.
func (in *Input) scanIDList(b []byte, l *promptValue, i int) (end int) {
	in.reserveLong((len(b) - i) / bytesPerID)
	if in.InputIDs, end = l.scanIDs(in.InputIDs, b, i); end == 0 {
		return 0
	}
	l.kind, l.n, in.maxID = kindIDs, 1, maxOf(in.InputIDs)
	return end
}

// scanIDs appends the token ids of a list from its first element and returns the index after its
// bracket, 0 when it is not a list of ids.
func (l *promptValue) scanIDs(dst []uint32, b []byte, i int) (ids []uint32, end int) {
	for {
		// Fast path: the spelling of programs.
		dst, i = scanGroups(dst, b, i)
		// Slow path: the list's end, long numbers, other white space.
		for stop := i + group; i < stop; {
			start, v := i, uint64(0)
			for i < len(b) && isDigit(b[i]) {
				v = v*10 + uint64(b[i]-'0')
				i++
			}
			// Ten digits cannot overflow v, and 2³²-1 has ten.
			if n := i - start; n == 0 || n > 10 || v > math.MaxUint32 || n > 1 && b[start] == '0' {
				l.why, l.at = whyNotID(b, start, i), start
				return dst, 0
			}
			dst = append(dst, uint32(v))
			i = skipSpace(b, i)
			switch {
			case i < len(b) && b[i] == ',':
				i = skipSpace(b, i+1)
			case i < len(b) && b[i] == ']':
				return dst, i + 1
			default:
				l.why, l.at = "must hold integers only", start
				return dst, 0
			}
		}
	}
}

// bytesPerID is an id of four digits and a comma, the shortest mean of real prompts.
const bytesPerID = 5

const (
	// group is the number of bytes that scanGroup reads at once: one bit of a word for each.
	group = 64
	// margin is the number of bytes that it may read before and behind them.
	margin = 8
	// groupIDs bounds the ids that end in a group.
	groupIDs = group / 2
)

// scanGroups appends ids while they are of at most seven digits (or eight), with a comma and at
// most one space behind each. It stops in front of an element.
func scanGroups(dst []uint32, b []byte, i int) ([]uint32, int) {
	dst, i = scanBlocks(dst, b, i)
	for i >= margin && i+group+margin <= len(b) {
		if cap(dst)-len(dst) < groupIDs {
			dst = slices.Grow(dst, groupIDs)
		}
		out := (*[groupIDs]uint32)(dst[len(dst):cap(dst)])
		n, next := scanGroup(out, (*[margin + group + margin]byte)(b[i-margin:]))
		if n == 0 {
			break
		}
		dst = dst[:len(dst)+int(n)]
		i += int(next)
	}
	return dst, skipSpace(b, i)
}

// scanGroup reads the ids that begin and end in a group, which begins with one, up to the first
// that is not plain. It returns their number, and the index behind the last one's comma and space.
func scanGroup(out *[groupIDs]uint32, b *[margin + group + margin]byte) (n, next uint) {
	start := uint(0) // of an id, from the group's begin
	for m := commas((*[group]byte)(b[margin:])); m != 0; m &= m - 1 {
		end := uint(bits.TrailingZeros64(m))
		digits := end - start
		if digits-1 >= 7 {
			break
		}
		// The eight bytes before the comma, the first digits in the lower ones; bytes before this
		// id become 0.
		d := (binary.LittleEndian.Uint64(b[end:end+8]) ^ lowBits*'0') & lastBytes[digits&7]
		// A byte above 9; all are below 128, or their own bit is set.
		notDigits := (d + lowBits*(0x7f-9) | d) & highBits
		// Pairs of digits, then of pairs, then of those.
		d = d * (10<<8 + 1) >> 8 & 0x00ff00ff00ff00ff
		d = d * (100<<16 + 1) >> 16 & 0x0000ffff0000ffff
		v := uint32(d * (10000<<32 + 1) >> 32)
		if notDigits != 0 || v < smallestOfDigits[digits&7] {
			break
		}
		out[n%groupIDs] = v
		n++
		if start = end + 1; b[margin+start] == ' ' {
			start++
		}
	}
	return n, start
}

// lastBytes has the mask of a word's last bytes, by their number.
var lastBytes = [8]uint64{
	0, 0xff << 56, 0xffff << 48, 0xffffff << 40, 0xffffffff << 32, 0xffffffffff << 24, 0xffffffffffff << 16, 0xffffffffffffff << 8,
}

// smallestOfDigits has the smallest number of so many digits: a number below it has a leading zero.
var smallestOfDigits = [8]uint32{0, 0, 10, 100, 1_000, 10_000, 100_000, 1_000_000}

// commas has a bit set for each comma in b, the first byte's being the lowest.
func commas(b *[group]byte) uint64 {
	return commaBits(b[0:]) | commaBits(b[8:])<<8 | commaBits(b[16:])<<16 | commaBits(b[24:])<<24 |
		commaBits(b[32:])<<32 | commaBits(b[40:])<<40 | commaBits(b[48:])<<48 | commaBits(b[56:])<<56
}

// commaBits is commas for eight bytes.
func commaBits(b []byte) uint64 {
	const low = 0x7f7f7f7f7f7f7f7f
	w := binary.LittleEndian.Uint64(b) ^ lowBits*','
	zero := ^((w & low) + low | w) & highBits // the bit of each byte that is 0
	return zero >> 7 * 0x0102040810204080 >> 56
}

func whyNotID(b []byte, start, end int) string {
	switch {
	case start < len(b) && b[start] == '-':
		return "must hold no negative token id"
	case end > start:
		return "must hold token ids below 2³²"
	}
	return "must hold integers only"
}
