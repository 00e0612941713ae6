package kvevent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Encoding names the release whose bytes [Append] writes.
type Encoding uint8

// The encodings. Each name is the last release checked that sends this shape.
const (
	SGLang0508 Encoding = iota + 1 // SGLang <= 0.5.8: arrays.
	SGLang0515                     // SGLang 0.5.10 to 0.5.15: arrays with the medium.
	SGLang0518                     // SGLang 0.5.18: the same, and {cache_salt} on salted blocks.
	SGLang0521                     // SGLang 0.5.20 and 0.5.21: maps.
	SGLang0523                     // SGLang 0.5.22 and 0.5.23: maps with lora_name.
	VLLM032                        // vLLM 0.32: maps, more fields, byte-string hashes.
)

// encodingNames has the names of each encoding: the one that String returns comes first.
var encodingNames = [...][]string{
	0: {"unknown"}, SGLang0508: {"0.5.8"}, SGLang0515: {"0.5.15", "0.5.10"}, SGLang0518: {"0.5.18"},
	SGLang0521: {"0.5.21", "0.5.20"}, SGLang0523: {"0.5.23", "0.5.22"}, VLLM032: {"vllm", "vllm-0.32"},
}

// ErrUnknownEncoding is returned by [ParseEncoding].
var ErrUnknownEncoding = errors.New("kvevent: unknown encoding")

// ParseEncoding returns the encoding of a release as flags and files name it: "0.5.8",
// "0.5.15", "0.5.18", "0.5.21", "0.5.23", "vllm", or another release of the ranges above.
func ParseEncoding(s string) (Encoding, error) {
	for e, names := range encodingNames {
		if e > 0 && slices.Contains(names, s) {
			return Encoding(e), nil
		}
	}
	return 0, fmt.Errorf("cannot parse encoding %q: %w", s, ErrUnknownEncoding)
}

// String returns a name that [ParseEncoding] reads.
func (e Encoding) String() string {
	if int(e) < len(encodingNames) {
		return encodingNames[e][0]
	}
	return encodingNames[0][0]
}

// Append appends b exactly as the release enc sends it, and returns the extended slice. Fields
// that the release does not have are left out, and so are events of unknown kinds.
func Append(dst []byte, b *Batch, enc Encoding) []byte {
	if enc == VLLM032 && !b.HasRank {
		dst = appendArray(dst, 2) // vLLM omits defaults; SGLang sends nil.
	} else {
		dst = appendArray(dst, 3)
	}
	dst = appendFloat(dst, b.Time)
	dst = appendArray(dst, countKnown(b.Events))
	for i := range b.Events {
		e := &b.Events[i]
		switch {
		case e.Kind < Stored || e.Kind > Cleared:
		case enc <= SGLang0518:
			dst = appendArrayEvent(dst, e, enc)
		default:
			dst = appendMapEvent(dst, e, enc)
		}
	}
	switch {
	case b.HasRank:
		dst = appendInt(dst, int64(b.Rank))
	case enc != VLLM032:
		dst = append(dst, codeNil)
	}
	return dst
}

func countKnown(events []Event) int {
	n := 0
	for i := range events {
		if k := events[i].Kind; k >= Stored && k <= Cleared {
			n++
		}
	}
	return n
}

func appendHash(dst []byte, v uint64, raw []byte, enc Encoding) []byte {
	switch {
	case enc == VLLM032 && raw != nil:
		return appendBin(dst, raw)
	case enc == VLLM032:
		return appendUint(dst, v)
	}
	return appendInt(dst, int64(v))
}

func appendHashes(dst []byte, e *Event, enc Encoding) []byte {
	dst = appendArray(dst, len(e.Hashes))
	for i, v := range e.Hashes {
		var raw []byte
		if e.RawHashes != nil {
			raw = e.RawHashes[i]
		}
		dst = appendHash(dst, v, raw, enc)
	}
	return dst
}

func appendParent(dst []byte, e *Event, enc Encoding) []byte {
	if !e.HasParent {
		return append(dst, codeNil)
	}
	return appendHash(dst, e.Parent, e.RawParent, enc)
}

func appendTokens(dst []byte, e *Event) []byte {
	if !e.Bigram {
		dst = appendArray(dst, len(e.Tokens))
		for _, t := range e.Tokens {
			dst = appendUint(dst, uint64(t))
		}
		return dst
	}
	dst = appendArray(dst, len(e.Tokens)/2)
	for i := 0; i+1 < len(e.Tokens); i += 2 {
		dst = appendArray(dst, 2)
		dst = appendUint(dst, uint64(e.Tokens[i]))
		dst = appendUint(dst, uint64(e.Tokens[i+1]))
	}
	return dst
}

// mediumName returns the name by which the engine of enc calls e's tier, or "" for none.
func mediumName(e *Event, enc Encoding) string {
	switch {
	case e.MediumName != nil:
		return string(e.MediumName)
	case e.Medium == MediumGPU:
		return nameGPU
	case e.Medium == MediumCPU && enc == VLLM032:
		return nameCPUvLLM
	case e.Medium == MediumCPU:
		return nameCPU
	case e.Medium == MediumStorage && enc == VLLM032:
		return nameStorage
	case e.Medium == MediumStorage:
		return nameDisk
	}
	return ""
}

// appendMedium appends the tier's name, or nil.
func appendMedium(dst []byte, e *Event, enc Encoding) []byte {
	if e.Medium == MediumNone {
		return append(dst, codeNil)
	}
	return appendStr(dst, mediumName(e, enc))
}

func appendFloat(dst []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, f64), math.Float64bits(f))
}
