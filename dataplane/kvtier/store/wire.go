package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// The protocol between an engine's backend and its sidecar, version 2, on a Unix stream socket. All numbers are little-endian.
//
//	frame    length u32 (of the body) | op u8 | flags u8 | status u16 | sequence u64 | body
//
//	hello    version u32 | page tokens u32 | pieces u32 | name bytes u16 | regions u16 | name | pieces × (region u16 | 0 u16 | bytes u32 | base u64 | stride u64)
//	         with the regions' descriptors beside the first byte (SCM_RIGHTS)
//	         -> version u32 | page bytes u32 | instance u64 | arena bytes u64, with the arena's descriptor
//	exists   wait ms u32 | n u32 | n × hash                  -> n u32, of the leading pages that are here
//	get      lease ms u32 | wait ms u32 | n u32 | n × hash   -> n u32 | n × offset u64 in the arena, or 2^64-1
//	release  sequence u64 of a get                           no answer
//	set      n u32 | flags&1: hash of the page before | n × hash | n × token u64   -> n u32 | n × u8 (0 no room, 1 copied, 2 was here)
//	commit   sequence u64 of a set                           no answer
//	stats                                                    -> JSON
//	clear    wait ms u32                                     -> pages u64 dropped here | peers u32 that did so too | peers u32 out of reach
//	retire                                                   no answer; the engine's weights are others now
//
// An answer has the request's op and sequence. Its status is 0, or 1 with a text as its body; the connection ends after that.
//
// A page's bytes are its pieces one after the other: piece p of the page whose first token has the number t lies in its
// region at base + t × stride.
const (
	wireVersion = 2
	headerBytes = 16
	maxBody     = 16 << 20 // 400,000 pages in one question
	maxPieces   = 4096     // K and V of 2,048 layers
	maxRegions  = 8
	maxName     = 1024
)

const (
	opHello = iota + 1
	opExists
	opGet
	opRelease
	opSet
	opCommit
	opStats
	opClear
	opRetire
)

const (
	flagParent   = 1
	statusFailed = 1
)

// absent is the offset of a page that is not here.
const absent = ^uint64(0)

// What became of a page that was to be stored.
const (
	setFull = iota
	setCopied
	setPresent
)

// ErrWire is a message that is not one of the protocol.
var ErrWire = errors.New("tier: bad message")

// header precedes each body.
type header struct {
	length uint32
	op     uint8
	flags  uint8
	status uint16
	seq    uint64
}

func (h header) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, h.length)
	dst = append(dst, h.op, h.flags)
	dst = binary.LittleEndian.AppendUint16(dst, h.status)
	return binary.LittleEndian.AppendUint64(dst, h.seq)
}

func parseHeader(b []byte) (header, error) {
	h := header{
		binary.LittleEndian.Uint32(b), b[4], b[5], binary.LittleEndian.Uint16(b[6:]), binary.LittleEndian.Uint64(b[8:]),
	}
	if h.length > maxBody {
		return h, fmt.Errorf("%w: a body of %d bytes, and %d are the most", ErrWire, h.length, maxBody)
	}
	return h, nil
}

// piece says where a part of every page lies.
type piece struct {
	region int
	bytes  int
	base   uint64
	stride uint64 // bytes from one token to the next
}

// hello opens a connection.
type hello struct {
	version, pageTokens uint32
	regions             int
	name                string
	pieces              []piece
}

// pageBytes is the size of a page.
func (m hello) pageBytes() int {
	n := 0
	for _, p := range m.pieces {
		n += p.bytes
	}
	return n
}

const helloBytes, pieceBytes = 16, 24

func parseHello(b []byte) (m hello, err error) {
	if len(b) < helloBytes {
		return m, fmt.Errorf("%w: hello of %d bytes", ErrWire, len(b))
	}
	m.version, m.pageTokens = binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	pieces, name := binary.LittleEndian.Uint32(b[8:]), int(binary.LittleEndian.Uint16(b[12:]))
	m.regions = int(binary.LittleEndian.Uint16(b[14:]))
	switch {
	case m.version != wireVersion:
		return m, fmt.Errorf("%w: version %d, and this sidecar speaks %d: install warmpath-sglang and warmpath of one release", ErrWire, m.version, wireVersion)
	case pieces == 0 || pieces > maxPieces || name > maxName || m.regions > maxRegions || m.pageTokens == 0:
		return m, fmt.Errorf("%w: hello with %d pieces, %d regions, %d tokens a page", ErrWire, pieces, m.regions, m.pageTokens)
	case len(b) != helloBytes+name+int(pieces)*pieceBytes:
		return m, fmt.Errorf("%w: hello of %d bytes with %d pieces", ErrWire, len(b), pieces)
	}
	m.name = string(b[helloBytes : helloBytes+name])
	for b = b[helloBytes+name:]; len(b) > 0; b = b[pieceBytes:] {
		p := piece{
			int(binary.LittleEndian.Uint16(b)), int(binary.LittleEndian.Uint32(b[4:])), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]),
		}
		// 64 MiB is the largest slab, and a sum of 4,096 of them fits an int.
		if p.region >= m.regions || p.bytes == 0 || p.bytes > maxSlab || binary.LittleEndian.Uint16(b[2:]) != 0 {
			return m, fmt.Errorf("%w: a piece of %d bytes in region %d of %d", ErrWire, p.bytes, p.region, m.regions)
		}
		m.pieces = append(m.pieces, p)
	}
	return m, nil
}

func (m hello) encode() (dst []byte) {
	dst = binary.LittleEndian.AppendUint32(dst, m.version)
	dst = binary.LittleEndian.AppendUint32(dst, m.pageTokens)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(m.pieces)))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(m.name)))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(m.regions))
	dst = append(dst, m.name...)
	for _, p := range m.pieces {
		dst = binary.LittleEndian.AppendUint16(dst, uint16(p.region))
		dst = append(dst, 0, 0)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(p.bytes))
		dst = binary.LittleEndian.AppendUint64(dst, p.base)
		dst = binary.LittleEndian.AppendUint64(dst, p.stride)
	}
	return dst
}

// sequence is the body of what ends an earlier message.
func sequence(seq uint64) []byte { return binary.LittleEndian.AppendUint64(nil, seq) }

// request is the body of exists, get or set. Its slices are reused by the next parse.
type request struct {
	lease, wait uint32 // ms
	hasParent   bool
	parent      proto.Hash
	hashes      []proto.Hash
	tokens      []uint64 // of set: number of each page's first token
}

// parse reads a body whole.
func (r *request) parse(op, flags uint8, b []byte) error {
	*r = request{hashes: r.hashes[:0], tokens: r.tokens[:0]}
	numbers := map[uint8]int{opExists: 2, opGet: 3, opSet: 1}[op] * 4
	if len(b) < numbers {
		return fmt.Errorf("%w: op %d with %d bytes", ErrWire, op, len(b))
	}
	n := int(binary.LittleEndian.Uint32(b[numbers-4:]))
	each := len(proto.Hash{})
	switch op {
	case opExists:
		r.wait = binary.LittleEndian.Uint32(b)
	case opGet:
		r.lease, r.wait = binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	case opSet:
		each += 8
		r.hasParent = flags&flagParent != 0
	}
	b = b[numbers:]
	if r.hasParent {
		if len(b) < len(r.parent) {
			return fmt.Errorf("%w: no room for the page before", ErrWire)
		}
		b = b[copy(r.parent[:], b):]
	}
	if len(b) != n*each { // n is at most 2^32, and int has 64 bits
		return fmt.Errorf("%w: op %d with %d bytes for %d pages", ErrWire, op, len(b), n)
	}
	for i := range n {
		r.hashes = append(r.hashes, proto.Hash(b[i*len(proto.Hash{}):]))
	}
	if op == opSet {
		for b = b[n*len(proto.Hash{}):]; len(b) > 0; b = b[8:] {
			r.tokens = append(r.tokens, binary.LittleEndian.Uint64(b))
		}
	}
	return nil
}

// append writes what parse reads.
func (r *request) encode(op uint8) (dst []byte) {
	switch op {
	case opExists:
		dst = binary.LittleEndian.AppendUint32(dst, r.wait)
	case opGet:
		dst = binary.LittleEndian.AppendUint32(dst, r.lease)
		dst = binary.LittleEndian.AppendUint32(dst, r.wait)
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(r.hashes)))
	if r.hasParent {
		dst = append(dst, r.parent[:]...)
	}
	for _, h := range r.hashes {
		dst = append(dst, h[:]...)
	}
	for _, t := range r.tokens {
		dst = binary.LittleEndian.AppendUint64(dst, t)
	}
	return dst
}
