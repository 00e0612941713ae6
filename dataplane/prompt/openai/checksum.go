package openai

import (
	"hash/crc32"
	"strconv"
)

// castagnoli is the polynomial that processors compute: 10 GB/s.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendChecksum appends "crc32c:" and a checksum of a medium, which stands for it in the text by
// which prompts are routed.
func AppendChecksum(dst, medium []byte) []byte {
	return strconv.AppendUint(append(dst, "crc32c:"...), uint64(crc32.Checksum(medium, castagnoli)), 16)
}
