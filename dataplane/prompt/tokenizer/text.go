package tokenizer

import (
	"strconv"
	"strings"
)

// Text is the text of tokens for people to read: added tokens as they are spelled, markers of
// spaces as spaces, and U+FFFD for bytes that are not UTF-8. The decoder of the file is not
// applied. Ids that are no token are left out.
func (t *Tokenizer) Text(ids []uint32) string {
	var out []byte
	for _, id := range ids {
		spelled := t.model.vocab.bytes(id)
		token, added := t.added.byID[id]
		b, isByte := fallbackByte(spelled)
		switch {
		case added:
			out = append(out, token.Content...)
		case t.model.bytes:
			out = append(out, spelled...)
		case isByte:
			out = append(out, b)
		default:
			out = append(out, strings.ReplaceAll(string(spelled), string(metaMarker), " ")...)
		}
	}
	return strings.ToValidUTF8(string(out), "\uFFFD")
}

// fallbackByte is the byte of a token such as <0xE2>.
func fallbackByte(spelled []byte) (byte, bool) {
	if len(spelled) != 6 || string(spelled[:3]) != "<0x" {
		return 0, false
	}
	b, err := strconv.ParseUint(string(spelled[3:5]), 16, 8)
	return byte(b), err == nil
}
