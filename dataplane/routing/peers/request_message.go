package peers

import (
	"encoding/binary"

	"github.com/warmpath/warmpath/dataplane/cluster/codec"
	"github.com/warmpath/warmpath/dataplane/routing"
)

const (
	flagExact = 1 << iota
	flagUnpaired
	flagStored // each overlap has the tokens to fetch too

	requestFlags = flagExact | flagUnpaired | flagStored
)

// overlapSize is the least size of one rank's overlap.
const overlapSize = 8 + 3

// appendRequest appends the request with that number of router id.
func appendRequest(b []byte, id string, number uint64, a *routing.PeerRequest) []byte {
	b = append(b, version, kindRequest)
	b = codec.AppendUvarint(codec.AppendBytes(b, id, maxName), number)
	flags := byte(0)
	if a.Exact {
		flags |= flagExact
	}
	if a.Unpaired {
		flags |= flagUnpaired
	}
	if a.Stored {
		flags |= flagStored
	}
	b = append(b, flags)
	b = codec.AppendBytes(codec.AppendBytes(b, a.Model, maxName), a.LoRA, maxName)
	b = codec.AppendUvarint(codec.AppendUvarint(codec.AppendUvarint(b, a.Tokens), a.Output), a.DP+1)
	b = binary.LittleEndian.AppendUint64(b, a.Home)
	b = appendOverlap(b, &a.Common, a.Stored)
	b = codec.AppendUvarint(b, len(a.Overlaps))
	for i := range a.Overlaps {
		b = binary.LittleEndian.AppendUint64(b, a.Overlaps[i].Rank)
		b = appendOverlap(b, &a.Overlaps[i].PeerOverlap, a.Stored)
	}
	return appendFingerprints(b, a.Fingerprints)
}

func appendOverlap(b []byte, o *routing.PeerOverlap, stored bool) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(codec.AppendUvarint(b, o.Cached), o.Host), o.Predicted)
	if !stored {
		return b
	}
	b = codec.AppendUvarint(codec.AppendUvarint(b, int(o.Tier)), int(o.Remote))
	return codec.AppendUvarint(codec.AppendUvarint(b, micros(o.TierTime)), micros(o.RemoteTime))
}

// request is a request of another router.
type request struct {
	id     []byte // of the router; aliases the message
	number uint64
	routing.PeerRequest
}

// decode fills q. It keeps the strings of the request before where they are equal: there are
// few models and many requests.
func (q *request) decode(b []byte) error {
	r := open(b, kindRequest)
	q.id, q.number = r.Bytes(maxName), r.Uvarint()
	flags := r.Byte()
	if flags&^requestFlags != 0 {
		r.Fail("flags")
	}
	q.Exact, q.Unpaired, q.Stored = flags&flagExact != 0, flags&flagUnpaired != 0, flags&flagStored != 0
	q.Model, q.LoRA = intern(q.Model, r.Bytes(maxName)), intern(q.LoRA, r.Bytes(maxName))
	q.Tokens, q.Output, q.DP = int(r.Uvarint()), int(r.Uvarint()), int(r.Uvarint())-1
	q.Home = r.Uint64()
	q.Common, q.Overlaps = readOverlap(&r, q.Stored), q.Overlaps[:0]
	for range r.Count(overlapSize) {
		q.Overlaps = append(q.Overlaps, routing.RankOverlap{Rank: r.Uint64(), PeerOverlap: readOverlap(&r, q.Stored)})
	}
	q.Fingerprints = readFingerprints(&r, q.Fingerprints)
	return r.End()
}

// readOverlap reads an overlap. A choice by an impossible one would be meaningless, so it is a
// fault.
func readOverlap(r *codec.Reader, stored bool) routing.PeerOverlap {
	o := routing.PeerOverlap{Cached: int(r.Uvarint()), Host: int(r.Uvarint()), Predicted: int(r.Uvarint())}
	if o.Host > o.Cached {
		r.Fail("tokens in host memory")
	}
	if stored {
		o.Tier, o.Remote, o.TierTime, o.RemoteTime = readInt32(r), readInt32(r), readSeconds(r), readSeconds(r)
	}
	return o
}

// intern returns s where b equals it.
func intern(s string, b []byte) string {
	if s == string(b) {
		return s
	}
	return string(b)
}
