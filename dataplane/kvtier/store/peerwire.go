package store

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/warmpath/warmpath/dataplane/cluster/codec"
	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// The protocol between sidecars, on TCP, has the frames of the engines' protocol:
//
//	peer hello   version u32                         -> version u32 | instance u64 | locality u64 | RDMA u32 | memory u32 | metadata of the NIXL agent, if any
//	has          page request                        -> n u32, leading pages that are present
//	pin          page request                        -> n u32 | n × offset u64 in the memory, or 2^64-1
//	unpin        sequence u64 of a pin               no answer
//	fetch        page request                        -> n u32 | n × u8 (1: present) | the bytes of those
//	cleared      clears                              -> clears
//
//	page request  lease u32 | page bytes u32 | stamp u64 | name bytes u16 | name | n u32 | n × hash
//	clears        n × (stamp u64 | model bytes u16 | model)
//
// The stamps of clears are explained in clear.go: pages go only to a peer that knows of the same
// clears.
//
// The greeting comes first. With [PeerTLS] all messages go through TLS with both sides
// authenticated. Without, a client of the endpoint reads the pages whose hashes it knows, which
// are as good as the prompts; the store then listens on loopback only, unless the operator
// insists.
const (
	opPeerHello = iota + 16
	opHas
	opPin
	opUnpin
	opFetch
	_ // was another request
	opCleared
)

// pageRequest names pages of one namespace.
type pageRequest struct {
	lease  uint32 // ms
	bytes  uint32
	stamp  uint64 // of the last clear
	name   string
	hashes []proto.Hash
}

func (q *pageRequest) encode() (dst []byte) {
	dst = binary.LittleEndian.AppendUint32(dst, q.lease)
	dst = binary.LittleEndian.AppendUint32(dst, q.bytes)
	dst = binary.LittleEndian.AppendUint64(dst, q.stamp)
	dst = appendName(dst, q.name)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(q.hashes)))
	for _, h := range q.hashes {
		dst = append(dst, h[:]...)
	}
	return dst
}

func parsePageRequest(b []byte) (q pageRequest, err error) {
	r := codec.NewReader(b)
	q.lease, q.bytes, q.stamp, q.name = r.Uint32(), r.Uint32(), r.Uint64(), readName(&r)
	n := int(r.Uint32())
	if r.Len() != n*len(proto.Hash{}) {
		r.Fail("the hashes")
	} else {
		q.hashes = readHashes(&r, make([]proto.Hash, 0, n), n)
	}
	return q, badWire(r.End())
}

func appendName(dst []byte, name string) []byte {
	return append(binary.LittleEndian.AppendUint16(dst, uint16(len(name))), name...)
}

// readName reads a name of at most maxName bytes.
func readName(r *codec.Reader) string {
	n := int(r.Uint16())
	if n > maxName {
		r.Fail("a name")
		return ""
	}
	return string(r.Take(n))
}

// clears are stamps of clears by model.
type clears map[string]uint64

func (c clears) encode() (dst []byte) {
	for _, model := range slices.Sorted(maps.Keys(c)) {
		dst = binary.LittleEndian.AppendUint64(dst, c[model])
		dst = appendName(dst, model)
	}
	return dst
}

func parseClears(b []byte) (clears, error) {
	c := clears{}
	r := codec.NewReader(b)
	for r.Len() > 0 {
		stamp, model := r.Uint64(), readName(&r)
		if len(c) == maxNamespaces {
			r.Fail("more clears")
		}
		if r.Err() != nil {
			return nil, badWire(r.Err())
		}
		c[model] = max(c[model], stamp)
	}
	return c, nil
}

// parseCount reads the answer to has.
func parseCount(b []byte, limit int) (int, error) {
	r := codec.NewReader(b)
	n := r.Uint32()
	if n > uint32(limit) {
		r.Fail("the number of pages")
	}
	return int(n), badWire(r.End())
}

// parseOffsets reads the answer to pin.
func parseOffsets(b []byte, n int) ([]uint64, error) {
	r := codec.NewReader(b)
	if r.Uint32() != uint32(n) || r.Len() != 8*n {
		return nil, fmt.Errorf("%w: %d bytes for the offsets of %d pages", ErrWire, len(b), n)
	}
	offsets := make([]uint64, n)
	for i := range offsets {
		offsets[i] = r.Uint64()
	}
	return offsets, nil
}

// welcome is the answer to a peer's hello.
type welcome struct {
	instance uint64
	locality uint64 // equal where one process may read the other's memory: see localityOf
	rdma     bool
	memory   uint32 // of the NIXL agent
	metadata []byte // empty without NIXL
}

func (w welcome) encode() (dst []byte) {
	dst = binary.LittleEndian.AppendUint32(dst, wireVersion)
	dst = binary.LittleEndian.AppendUint64(dst, w.instance)
	dst = binary.LittleEndian.AppendUint64(dst, w.locality)
	rdma := uint32(0)
	if w.rdma {
		rdma = 1
	}
	dst = binary.LittleEndian.AppendUint32(dst, rdma)
	dst = binary.LittleEndian.AppendUint32(dst, w.memory)
	return append(dst, w.metadata...)
}

func parseWelcome(b []byte) (w welcome, err error) {
	r := codec.NewReader(b)
	if v := r.Uint32(); r.Err() == nil && v != wireVersion {
		return w, fmt.Errorf("%w: the peer speaks version %d, this sidecar %d", ErrWire, v, wireVersion)
	}
	w.instance, w.locality = r.Uint64(), r.Uint64()
	rdma := r.Uint32()
	if rdma > 1 {
		r.Fail("the RDMA flag")
	}
	w.rdma, w.memory, w.metadata = rdma == 1, r.Uint32(), r.Rest()
	if err := badWire(r.Err()); err != nil {
		return welcome{}, err
	}
	return w, nil
}
