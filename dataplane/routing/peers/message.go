package peers

import (
	"encoding/binary"
	"math"

	"github.com/warmpath/warmpath/dataplane/cluster/codec"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// A message begins with the version of this format and its kind. Numbers are varints, hashes
// and floats have 8 bytes. Version 3 has no hash of the prompt's beginning in a request.
const (
	version     = 3
	kindLoad    = 1
	kindRequest = 2
	kindReply   = 3
	kindPrompt  = 4

	// maxName bounds names of models, adapters and routers.
	maxName = 1024
)

// open checks the version and the kind of a message.
func open(message []byte, kind byte) codec.Reader {
	r := codec.NewReader(message)
	if r.Byte() != version || r.Byte() != kind {
		r.Fail("the version and kind of a message")
	}
	return r
}

// appendFingerprints appends fingerprints of a prompt.
func appendFingerprints(b []byte, fingerprints []uint32) []byte {
	b = codec.AppendUvarint(b, len(fingerprints))
	for _, f := range fingerprints {
		b = binary.LittleEndian.AppendUint32(b, f)
	}
	return b
}

// readFingerprints reads them into dst.
func readFingerprints(r *codec.Reader, dst []uint32) []uint32 {
	n := r.Count(4)
	if n > routing.MaxFingerprints {
		r.Fail("fingerprints")
		return dst[:0]
	}
	dst = dst[:0]
	for range n {
		dst = append(dst, r.Uint32())
	}
	return dst
}

// promptMessage tells the leader of a prompt that was sent without its choice.
type promptMessage struct {
	id           string // of the router
	number       uint64
	rank         uint64
	tokens       int
	fingerprints []uint32
}

func (m *promptMessage) encode() []byte {
	b := codec.AppendUvarint(codec.AppendBytes([]byte{version, kindPrompt}, m.id, maxName), m.number)
	b = codec.AppendUvarint(binary.LittleEndian.AppendUint64(b, m.rank), m.tokens)
	return appendFingerprints(b, m.fingerprints)
}

func (m *promptMessage) decode(b []byte) error {
	r := open(b, kindPrompt)
	m.id, m.number = string(r.Bytes(maxName)), r.Uvarint()
	m.rank, m.tokens = r.Uint64(), int(r.Uvarint())
	m.fingerprints = readFingerprints(&r, m.fingerprints)
	return r.End()
}

// appendReply appends the reply to a request.
func appendReply(b []byte, a *routing.PeerReply) []byte {
	b = codec.AppendUvarint(append(b, version, kindReply), a.Number)
	b = binary.LittleEndian.AppendUint64(b, a.Rank)
	b = binary.LittleEndian.AppendUint64(b, a.Decode)
	return codec.AppendFloat(b, a.Cost)
}

func readReply(b []byte) (a routing.PeerReply, err error) {
	r := open(b, kindReply)
	a = routing.PeerReply{Number: r.Uvarint(), Rank: r.Uint64(), Decode: r.Uint64(), Cost: r.Float()}
	return a, r.End()
}

// micros returns whole microseconds, at most 2^31: 36 minutes.
func micros(seconds float32) int {
	return int(math.Round(min(max(float64(seconds)*1e6, 0), math.MaxInt32)))
}

// readInt32 returns a number of 31 bits.
func readInt32(r *codec.Reader) int32 {
	n := r.Uvarint()
	if n > math.MaxInt32 {
		r.Fail("a number of 31 bits")
		return 0
	}
	return int32(n)
}

// readSeconds returns microseconds as seconds.
func readSeconds(r *codec.Reader) float32 { return float32(float64(readInt32(r)) / 1e6) }
