package openai

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// ridPrefix marks request ids made here, so that they stand out in a worker's log.
const ridPrefix = "wp-"

// RIDLen is the length of every id that AppendRID makes. A worker's abort matches ids by prefix, so
// ids of one length can never abort each other.
const RIDLen = len(ridPrefix) + 24

const (
	// ResponsePrefix begins the id of every response: SGLang refuses other ids as
	// previous_response_id.
	ResponsePrefix = "resp_"
	// ResponseIDLen is the length of the ids that the router makes, and of those that SGLang makes.
	// No id is the beginning of another one, which an abort would end too.
	ResponseIDLen = len(ResponsePrefix) + 32
)

// comma parts a spliced field from the members after it. Never written to.
var comma = []byte{','}

// AppendRID appends a request id: "wp-" and 24 lowercase hex digits. Both numbers must be random;
// 96 bits keep ids apart and unguessable by other clients, which could abort requests by guessed
// ids.
func AppendRID(dst []byte, hi uint64, lo uint32) []byte {
	var random [12]byte
	binary.BigEndian.PutUint64(random[:], hi)
	binary.BigEndian.PutUint32(random[8:], lo)
	return hex.AppendEncode(append(dst, ridPrefix...), random[:])
}

// AppendItemRID appends the id that a worker gives prompt i of a batch that came with one rid.
// SGLang 0.5.23 aborts a batch only by these ids, one by one: an abort of rid itself does nothing.
// With n > 1 the worker makes ids of its own, and only closing the connection stops the work.
func AppendItemRID(dst []byte, rid string, i int) []byte {
	dst = append(dst, rid...)
	dst = append(dst, '_')
	return strconv.AppendInt(dst, int64(i), 10)
}

// RIDKey returns hi of an id that AppendRID has made, of another one that begins with it, too.
func RIDKey(id string) (hi uint64, ok bool) {
	const digits = 16
	if len(id) < RIDLen || id[:len(ridPrefix)] != ridPrefix {
		return 0, false
	}
	hi, err := strconv.ParseUint(id[len(ridPrefix):][:digits], 16, 64)
	return hi, err == nil
}

// AppendRIDsField appends `"rid":["wp-…",…]` for SpliceField: n ids, of which none begins another
// one.
func AppendRIDsField(dst []byte, hi uint64, lo uint32, n int) []byte {
	dst = append(dst, `"rid":[`...)
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendRID(append(dst, '"'), hi, lo+uint32(i)), '"')
	}
	return append(dst, ']')
}

// AppendRIDField appends `"rid":"wp-…"` for SpliceField: an id of AppendRID.
func AppendRIDField(dst, rid []byte) []byte {
	return append(append(append(dst, `"rid":"`...), rid...), '"')
}

// SpliceField appends the pieces of body with field (`"name":value`) as its last member, where it
// wins over a member of the same name: the workers' readers take the last of equal names. Nothing
// is copied: the pieces alias body and field. The body must have passed Parse.
func SpliceField(dst [][]byte, body, field []byte) [][]byte {
	last := bytes.LastIndexByte(body, '}')
	if last < 0 {
		return append(dst, body)
	}
	dst = append(dst, body[:last])
	if i := skipSpace(body, bytes.IndexByte(body, '{')+1); i < last {
		dst = append(dst, comma)
	}
	return append(dst, field, body[last:])
}
