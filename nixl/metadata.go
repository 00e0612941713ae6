package nixl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/warmpath/warmpath/cgo"
)

// ErrMetadata is returned for metadata that is damaged, of another version, or not metadata at all.
var ErrMetadata = errors.New("nixl: bad metadata")

// RemoteMemory is memory that a peer has registered.
type RemoteMemory struct {
	ID   uint32 // as the peer's Memory.ID; unique among the memories of one agent
	Kind cgo.Kind
	Addr uint64 // in the peer's address space
	Len  uint64
	Dev  uint64
}

// metadata is what an agent tells its peers. On the wire, numbers little-endian:
//
//	"WPNX" version(1) | len(4) name | count(4) { id(4) kind(4) addr(8) len(8) dev(8) }* | len(4) blob of the library | CRC-32C of all before (4)
//
// The library's own blob has no checksum, and its reader is not made for hostile bytes: garbage must not reach it.
type metadata struct {
	name     string
	memories []RemoteMemory
	blob     []byte
}

const (
	metadataMagic   = "WPNX\x01"
	memoryBytes     = 32
	maxMetadataName = 255
	// maxMetadata is far above what an agent needs, about 500 bytes and 100 for each memory.
	maxMetadata = 4 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// append writes the metadata behind dst.
func (m *metadata) append(dst []byte) []byte {
	begin := len(dst)
	dst = append(dst, metadataMagic...)
	dst = appendSized(dst, []byte(m.name))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(m.memories)))
	for _, r := range m.memories {
		dst = binary.LittleEndian.AppendUint32(dst, r.ID)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(r.Kind))
		dst = binary.LittleEndian.AppendUint64(dst, r.Addr)
		dst = binary.LittleEndian.AppendUint64(dst, r.Len)
		dst = binary.LittleEndian.AppendUint64(dst, r.Dev)
	}
	dst = appendSized(dst, m.blob)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[begin:], castagnoli))
}

func appendSized(dst, data []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(dst, uint32(len(data))), data...)
}

// decodeMetadata reads what append wrote. The result aliases data.
func decodeMetadata(data []byte) (*metadata, error) {
	if len(data) > maxMetadata {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are taken", ErrMetadata, len(data), maxMetadata)
	}
	if len(data) < len(metadataMagic)+4 || string(data[:4]) != metadataMagic[:4] {
		return nil, fmt.Errorf("%w: it does not begin as metadata does", ErrMetadata)
	}
	if data[4] != metadataMagic[4] {
		return nil, fmt.Errorf("%w: version %d, this process knows %d; run the same version on all nodes", ErrMetadata, data[4], metadataMagic[4])
	}
	body := data[:len(data)-4]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(data[len(body):]) {
		return nil, fmt.Errorf("%w: its checksum is wrong", ErrMetadata)
	}
	r := reader{rest: body[len(metadataMagic):]}
	m := metadata{name: string(r.sized())}
	count := r.uint32()
	if uint64(count)*memoryBytes > uint64(len(r.rest)) {
		return nil, fmt.Errorf("%w: it is cut off", ErrMetadata)
	}
	for range count {
		m.memories = append(m.memories, RemoteMemory{ID: r.uint32(), Kind: cgo.Kind(r.uint32()), Addr: r.uint64(), Len: r.uint64(), Dev: r.uint64()})
	}
	m.blob = r.sized()
	if r.short || len(r.rest) != 0 {
		return nil, fmt.Errorf("%w: its lengths do not add up", ErrMetadata)
	}
	return &m, m.check()
}

// check refuses what no agent says of itself.
func (m *metadata) check() error {
	if m.name == "" || len(m.name) > maxMetadataName {
		return fmt.Errorf("%w: a name of %d bytes", ErrMetadata, len(m.name))
	}
	for _, r := range m.memories {
		if r.Kind != cgo.Host && r.Kind != cgo.Device || r.Len == 0 || r.Addr > math.MaxUint64-r.Len {
			return fmt.Errorf("%w: memory %d cannot be", ErrMetadata, r.ID)
		}
	}
	return nil
}

// reader takes numbers off bytes; short tells that there were too few.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.rest) {
		r.short, r.rest = true, nil
		return make([]byte, min(n, 8))
	}
	head := r.rest[:n]
	r.rest = r.rest[n:]
	return head
}

func (r *reader) uint32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *reader) uint64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }
func (r *reader) sized() []byte  { return r.take(int(r.uint32())) }
