package store

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// The protocol between sidecars, on TCP, has the frames of the engines' one:
//
//	peer hello   version u32                         -> version u32 | instance u64 | place u64 | RDMA u32 | memory u32 | metadata of the NIXL agent, if any
//	has          page request                        -> n u32, of the leading pages that are here
//	pin          page request                        -> n u32 | n × offset u64 in the memory, or 2^64-1
//	unpin        sequence u64 of a pin               no answer
//	fetch        page request                        -> n u32 | n × u8 (1: here) | the bytes of those
//	hottest      page request without hashes         -> n u32 | n × (hash of the page before, or zeros | hash)
//	cleared      clears                              -> clears
//
//	page request  lease or limit u32 | page bytes u32 | stamp u64 | name bytes u16 | name | n u32 | n × hash
//	clears        n × (stamp u64 | family bytes u16 | family)
//
// A clear has a stamp, which is larger than all before. Pages are given to who knows of the same
// clears only: clear.go.
//
// The greeting comes first. All of it goes through TLS with both sides proved where the tier has [Trust]. Without, who reaches the endpoint reads the pages whose hashes he
// knows, which are as good as the prompts: then it listens on loopback only, unless the operator insists.
const (
	opPeerHello = iota + 16
	opHas
	opPin
	opUnpin
	opFetch
	opHottest
	opCleared
)

// pageRequest names pages of one namespace.
type pageRequest struct {
	lease  uint32 // ms; of hottest, how many pages are wanted
	bytes  uint32
	stamp  uint64 // of the last clear
	name   string
	hashes []proto.Hash
}

func (r *pageRequest) encode() (dst []byte) {
	dst = binary.LittleEndian.AppendUint32(dst, r.lease)
	dst = binary.LittleEndian.AppendUint32(dst, r.bytes)
	dst = binary.LittleEndian.AppendUint64(dst, r.stamp)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(r.name)))
	dst = append(dst, r.name...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(r.hashes)))
	for _, h := range r.hashes {
		dst = append(dst, h[:]...)
	}
	return dst
}

func parsePageRequest(b []byte) (r pageRequest, err error) {
	const fixed = 18
	if len(b) < fixed {
		return r, fmt.Errorf("%w: a page request of %d bytes", ErrWire, len(b))
	}
	r.lease, r.bytes = binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	r.stamp = binary.LittleEndian.Uint64(b[8:])
	name := int(binary.LittleEndian.Uint16(b[16:]))
	if name > maxName || len(b) < fixed+name+4 {
		return r, fmt.Errorf("%w: a page request of %d bytes with a name of %d", ErrWire, len(b), name)
	}
	r.name = string(b[fixed : fixed+name])
	n := int(binary.LittleEndian.Uint32(b[fixed+name:]))
	b = b[fixed+name+4:]
	if len(b) != n*len(proto.Hash{}) {
		return r, fmt.Errorf("%w: %d bytes for %d pages", ErrWire, len(b), n)
	}
	r.hashes = make([]proto.Hash, n)
	for i := range r.hashes {
		r.hashes[i] = proto.Hash(b[i*len(proto.Hash{}):])
	}
	return r, nil
}

// clears are the stamps of clears by family.
type clears map[string]uint64

func (c clears) encode() (dst []byte) {
	for _, family := range slices.Sorted(maps.Keys(c)) {
		dst = binary.LittleEndian.AppendUint64(dst, c[family])
		dst = binary.LittleEndian.AppendUint16(dst, uint16(len(family)))
		dst = append(dst, family...)
	}
	return dst
}

func parseClears(b []byte) (clears, error) {
	c := clears{}
	for len(b) > 0 {
		const fixed = 10
		if len(b) < fixed {
			return nil, fmt.Errorf("%w: a clear of %d bytes", ErrWire, len(b))
		}
		stamp, n := binary.LittleEndian.Uint64(b), int(binary.LittleEndian.Uint16(b[8:]))
		if n > maxName || len(b) < fixed+n || len(c) == maxNamespaces {
			return nil, fmt.Errorf("%w: a clear of %d bytes with a name of %d, after %d", ErrWire, len(b), n, len(c))
		}
		family := string(b[fixed : fixed+n])
		c[family] = max(c[family], stamp)
		b = b[fixed+n:]
	}
	return c, nil
}

// parseCount reads the answer to has.
func parseCount(b []byte, limit int) (int, error) {
	if len(b) != 4 || binary.LittleEndian.Uint32(b) > uint32(limit) {
		return 0, fmt.Errorf("%w: %d bytes tell how many of %d pages are there", ErrWire, len(b), limit)
	}
	return int(binary.LittleEndian.Uint32(b)), nil
}

// parseOffsets reads the answer to pin.
func parseOffsets(b []byte, n int) ([]uint64, error) {
	if len(b) != 4+8*n || binary.LittleEndian.Uint32(b) != uint32(n) {
		return nil, fmt.Errorf("%w: %d bytes for the places of %d pages", ErrWire, len(b), n)
	}
	offsets := make([]uint64, n)
	for i := range offsets {
		offsets[i] = binary.LittleEndian.Uint64(b[4+8*i:])
	}
	return offsets, nil
}

// followed is a page and the one before it; zeros where that is not known.
type followed struct{ parent, hash proto.Hash }

func parseHottest(b []byte) ([]followed, error) {
	const each = 2 * len(proto.Hash{})
	if len(b) < 4 || len(b)-4 != int(binary.LittleEndian.Uint32(b))*each {
		return nil, fmt.Errorf("%w: %d bytes of hot pages", ErrWire, len(b))
	}
	var pages []followed
	for b = b[4:]; len(b) > 0; b = b[each:] {
		pages = append(pages, followed{proto.Hash(b), proto.Hash(b[len(proto.Hash{}):])})
	}
	return pages, nil
}

func appendHottest(dst []byte, pages []followed) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(pages)))
	for _, p := range pages {
		dst = append(append(dst, p.parent[:]...), p.hash[:]...)
	}
	return dst
}

// peerWelcome is the answer to a peer's hello.
type peerWelcome struct {
	instance uint64
	place    uint64 // equal where one process may read the other's memory; see placeOf
	rdma     bool
	memory   uint32 // of the agent
	metadata []byte // empty where there is no NIXL
}

func (w peerWelcome) encode() (dst []byte) {
	dst = binary.LittleEndian.AppendUint32(dst, wireVersion)
	dst = binary.LittleEndian.AppendUint64(dst, w.instance)
	dst = binary.LittleEndian.AppendUint64(dst, w.place)
	rdma := uint32(0)
	if w.rdma {
		rdma = 1
	}
	dst = binary.LittleEndian.AppendUint32(dst, rdma)
	dst = binary.LittleEndian.AppendUint32(dst, w.memory)
	return append(dst, w.metadata...)
}

func parsePeerWelcome(b []byte) (w peerWelcome, err error) {
	const fixed = 28
	if len(b) < fixed {
		return w, fmt.Errorf("%w: a welcome of %d bytes", ErrWire, len(b))
	}
	if v := binary.LittleEndian.Uint32(b); v != wireVersion {
		return w, fmt.Errorf("%w: the peer speaks version %d, this sidecar %d", ErrWire, v, wireVersion)
	}
	rdma := binary.LittleEndian.Uint32(b[20:])
	if rdma > 1 {
		return w, fmt.Errorf("%w: RDMA %d in a welcome", ErrWire, rdma)
	}
	return peerWelcome{
		binary.LittleEndian.Uint64(b[4:]), binary.LittleEndian.Uint64(b[12:]), rdma == 1, binary.LittleEndian.Uint32(b[24:]), b[fixed:],
	}, nil
}
