package kvevent

import (
	"encoding/hex"
	"math"
	"strconv"
	"unicode/utf8"
)

// AppendJSON appends b as one JSON object with the engines' field names:
// {"ts":…,"rank":…,"events":[{"type":…}]}. Hashes are signed, as in SGLang's own JSON, unless
// Event.Unsigned is set. Byte strings, and extra keys as msgpack, are hexadecimal. Absent
// fields are left out.
func AppendJSON(dst []byte, b *Batch) []byte {
	dst = appendJSONFloat(append(dst, `{"ts":`...), b.Time)
	if b.HasRank {
		dst = strconv.AppendInt(append(dst, `,"rank":`...), int64(b.Rank), 10)
	}
	dst = append(dst, `,"events":[`...)
	for i := range b.Events {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendJSONEvent(dst, &b.Events[i])
	}
	dst = append(dst, ']')
	dst = appendJSONCount(dst, "unknown_events", b.UnknownEvents)
	dst = appendJSONCount(dst, "unknown_fields", b.UnknownFields)
	dst = appendJSONCount(dst, "bad_events", b.BadEvents)
	dst = appendJSONCount(dst, "wide_tokens", b.WideTokens)
	return append(dst, '}')
}

func appendJSONEvent(dst []byte, e *Event) []byte {
	dst = append(append(append(dst, `{"type":"`...), e.Kind.String()...), '"')
	if e.Kind == Cleared {
		return append(dst, '}')
	}
	dst = append(dst, `,"block_hashes":[`...)
	for i, h := range e.Hashes {
		if i > 0 {
			dst = append(dst, ',')
		}
		var raw []byte
		if e.RawHashes != nil {
			raw = e.RawHashes[i]
		}
		dst = appendJSONHash(dst, h, raw, e.Unsigned)
	}
	dst = append(dst, ']')
	if e.Kind == Stored {
		dst = appendJSONStored(dst, e)
	}
	if e.Medium != MediumNone {
		dst = appendJSONName(append(dst, `,"medium":`...), mediumName(e, SGLang0523))
	}
	if e.HasGroup {
		dst = strconv.AppendInt(append(dst, `,"group_idx":`...), int64(e.Group), 10)
	}
	dst = appendJSONOptional(dst, "locality", e.Locality)
	dst = appendJSONOptional(dst, "ownership", e.Ownership)
	return append(dst, '}')
}

func appendJSONStored(dst []byte, e *Event) []byte {
	if e.HasParent {
		dst = appendJSONHash(append(dst, `,"parent_block_hash":`...), e.Parent, e.RawParent, e.Unsigned)
	}
	dst = appendJSONTokens(append(dst, `,"token_ids":`...), e)
	dst = strconv.AppendInt(append(dst, `,"block_size":`...), int64(e.BlockSize), 10)
	if e.HasLoRAID {
		dst = strconv.AppendInt(append(dst, `,"lora_id":`...), e.LoRAID, 10)
	}
	dst = appendJSONOptional(dst, "lora_name", e.LoRAName)
	dst = appendJSONOptional(dst, "cache_salt", e.CacheSalt)
	dst = appendJSONOptional(dst, "session_id", e.SessionID)
	if e.ExtraKeys != nil {
		dst = appendJSONKeys(append(dst, `,"extra_keys":`...), e.ExtraKeys)
	}
	if e.ExtraKey != nil {
		dst = append(hex.AppendEncode(append(dst, `,"extra_key":"`...), e.ExtraKey), '"')
	}
	dst = appendJSONOptional(dst, "kv_cache_spec_kind", e.SpecKind)
	return appendJSONCount(dst, "kv_cache_spec_sliding_window", e.SlidingWindow)
}

func appendJSONTokens(dst []byte, e *Event) []byte {
	dst = append(dst, '[')
	for i, t := range e.Tokens {
		if i > 0 {
			dst = append(dst, ',')
		}
		if e.Bigram && i%2 == 0 {
			dst = append(dst, '[')
		}
		dst = strconv.AppendUint(dst, uint64(t), 10)
		if e.Bigram && i%2 == 1 {
			dst = append(dst, ']')
		}
	}
	return append(dst, ']')
}

func appendJSONHash(dst []byte, h uint64, raw []byte, unsigned bool) []byte {
	switch {
	case raw != nil:
		return append(hex.AppendEncode(append(dst, '"'), raw), '"')
	case unsigned:
		return strconv.AppendUint(dst, h, 10)
	}
	return strconv.AppendInt(dst, int64(h), 10)
}

func appendJSONKeys(dst []byte, keys [][]byte) []byte {
	dst = append(dst, '[')
	for i, raw := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		if raw == nil {
			dst = append(dst, "null"...)
			continue
		}
		dst = append(hex.AppendEncode(append(dst, '"'), raw), '"')
	}
	return append(dst, ']')
}

func appendJSONCount(dst []byte, name string, n int) []byte {
	if n == 0 {
		return dst
	}
	return strconv.AppendInt(append(append(append(dst, `,"`...), name...), `":`...), int64(n), 10)
}

func appendJSONOptional(dst []byte, name string, v []byte) []byte {
	if v == nil {
		return dst
	}
	return appendJSONName(append(append(append(dst, `,"`...), name...), `":`...), v)
}

// appendJSONFloat writes null for NaN and infinities, which JSON does not have.
func appendJSONFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}

// appendJSONName appends a quoted string; bytes that are not UTF-8 become U+FFFD.
func appendJSONName[S string | []byte](dst []byte, s S) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for _, c := range string(s) {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', byte(c))
		case c < 0x20 || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&0xf])
		default:
			dst = utf8.AppendRune(dst, c)
		}
	}
	return append(dst, '"')
}
