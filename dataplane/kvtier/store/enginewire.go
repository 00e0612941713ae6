package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/warmpath/warmpath/dataplane/cluster/codec"
	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// The protocol between an engine's backend and its sidecar, version 2, on a Unix stream socket. All
// numbers are little-endian.
//
//	frame    length u32 (of the body) | op u8 | flags u8 | status u16 | sequence u64 | body
//
//	hello    version u32 | page tokens u32 | pieces u32 | name bytes u16 | regions u16 | name | pieces × (region u16 | 0 u16 | bytes u32 | base u64 | stride u64)
//	         with the regions' descriptors beside the first byte (SCM_RIGHTS)
//	         -> version u32 | page bytes u32 | instance u64 | arena bytes u64, with the arena's descriptor
//	exists   wait ms u32 | n u32 | n × hash                  -> n u32, leading pages that are present
//	get      lease ms u32 | wait ms u32 | n u32 | n × hash   -> n u32 | n × offset u64 in the arena, or 2^64-1
//	release  sequence u64 of a get                           no answer
//	set      n u32 | flags&1: hash of the page before | n × hash | n × token u64   -> n u32 | n × u8 (0 no room, 1 copied, 2 was present)
//	commit   sequence u64 of a set                           no answer
//	stats                                                    -> JSON
//	clear    wait ms u32                                     -> pages u64 dropped | peers u32 that cleared too | peers u32 out of reach
//	retire                                                   no answer; the engine has loaded other weights
//
// An answer has the request's op and sequence. Its status is 0, or 1 with a text as its body; the
// connection ends after that.
//
// The bytes of a page are its pieces one after the other: piece p of the page whose first token has
// the number t lies in its region at base + t × stride.
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

// absent is the offset of a page that is not in the store.
const absent = ^uint64(0)

// Results of a set, for each page.
const (
	setFull = iota
	setCopied
	setPresent
)

// ErrWire is a message that breaks the protocol.
var ErrWire = errors.New("store: bad message")

// badWire wraps a fault of the codec; nil stays nil.
func badWire(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrWire, err)
}

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

// frame returns a whole message.
func (h header) frame(body []byte) []byte {
	h.length = uint32(len(body))
	return append(h.append(make([]byte, 0, headerBytes+len(body))), body...)
}

func parseHeader(b []byte) (header, error) {
	r := codec.NewReader(b)
	h := header{r.Uint32(), r.Byte(), r.Byte(), r.Uint16(), r.Uint64()}
	if h.length > maxBody {
		return h, fmt.Errorf("%w: a body of %d bytes, and the most are %d", ErrWire, h.length, maxBody)
	}
	return h, badWire(r.Err())
}

// piece is the layout of one part of all pages.
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

// pageBytes returns the size of a page.
func (m hello) pageBytes() int {
	n := 0
	for _, p := range m.pieces {
		n += p.bytes
	}
	return n
}

const pieceBytes = 24

func parseHello(b []byte) (m hello, err error) {
	r := codec.NewReader(b)
	m.version, m.pageTokens = r.Uint32(), r.Uint32()
	pieces, name := int(r.Uint32()), int(r.Uint16())
	m.regions = int(r.Uint16())
	switch {
	case r.Err() != nil:
		return m, badWire(r.Err())
	case m.version != wireVersion:
		return m, fmt.Errorf("%w: version %d, and this sidecar speaks %d: install warmpath-sglang and warmpath of one release", ErrWire, m.version, wireVersion)
	case pieces == 0 || pieces > maxPieces || name > maxName || m.regions > maxRegions || m.pageTokens == 0:
		return m, fmt.Errorf("%w: hello with %d pieces, %d regions, %d tokens a page", ErrWire, pieces, m.regions, m.pageTokens)
	case r.Len() != name+pieces*pieceBytes:
		return m, fmt.Errorf("%w: hello of %d bytes with %d pieces", ErrWire, len(b), pieces)
	}
	m.name = string(r.Take(name))
	for range pieces {
		p := piece{region: int(r.Uint16())}
		zero := r.Uint16()
		p.bytes, p.base, p.stride = int(r.Uint32()), r.Uint64(), r.Uint64()
		// 64 MiB is the largest slab, and a sum of 4,096 of them fits an int.
		if p.region >= m.regions || p.bytes == 0 || p.bytes > maxSlab || zero != 0 {
			return m, fmt.Errorf("%w: a piece of %d bytes in region %d of %d", ErrWire, p.bytes, p.region, m.regions)
		}
		m.pieces = append(m.pieces, p)
	}
	return m, nil
}

// sequence is the body of an unpin.
func sequence(seq uint64) []byte { return binary.LittleEndian.AppendUint64(nil, seq) }

// request is the body of exists, get or set. The next parse reuses its slices.
type request struct {
	lease, wait uint32 // ms
	hasParent   bool
	parent      proto.Hash
	hashes      []proto.Hash
	tokens      []uint64 // of set: number of each page's first token
}

// parse reads a whole body.
func (q *request) parse(op, flags uint8, b []byte) error {
	*q = request{hashes: q.hashes[:0], tokens: q.tokens[:0]}
	r := codec.NewReader(b)
	if op == opGet {
		q.lease = r.Uint32()
	}
	if op == opGet || op == opExists {
		q.wait = r.Uint32()
	}
	n := int(r.Uint32())
	if op == opSet && flags&flagParent != 0 {
		q.hasParent = copy(q.parent[:], r.Take(len(q.parent))) > 0
	}
	q.hashes = readHashes(&r, q.hashes, n)
	if op == opSet {
		tokens := codec.NewReader(r.Take(8 * n))
		for tokens.Len() > 0 {
			q.tokens = append(q.tokens, tokens.Uint64())
		}
	}
	return badWire(r.End())
}

// readHashes appends n hashes.
func readHashes(r *codec.Reader, dst []proto.Hash, n int) []proto.Hash {
	b := r.Take(n * len(proto.Hash{})) // n is at most 2^32, and int has 64 bits
	for ; len(b) > 0; b = b[len(proto.Hash{}):] {
		dst = append(dst, proto.Hash(b))
	}
	return dst
}
