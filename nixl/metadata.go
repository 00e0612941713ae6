package nixl

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// ErrMetadata is returned for metadata that is damaged, or of another version.
var ErrMetadata = errors.New("nixl: bad metadata")

// RemoteMemory is memory that a peer has registered.
type RemoteMemory struct {
	ID   uint32 `json:"id"`   // as the peer's Memory.ID; unique among the memories of one agent
	Addr uint64 `json:"addr"` // in the peer's address space
	Len  uint64 `json:"len"`
}

// metadata is an agent's description for its peers. On the wire it is
//
//	"WPNX" version(1) | CRC-32C of the rest(4, little-endian) | JSON
//
// The library's own part has no checksum, and its reader does not withstand hostile bytes: no
// garbage may reach it.
type metadata struct {
	Name     string         `json:"name"`
	Memories []RemoteMemory `json:"memories"`
	Library  []byte         `json:"library"` // the engine's own metadata
}

const (
	metadataMagic   = "WPNX\x02"
	metadataHeader  = len(metadataMagic) + 4
	maxMetadataName = 255
	// maxMetadata is far above the needs of an agent, about 700 bytes and 150 for each memory.
	maxMetadata = 4 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (m *metadata) encode() ([]byte, error) {
	body, err := json.Marshal(m)
	return sealMetadata(body), err
}

// sealMetadata puts the header before a body.
func sealMetadata(body []byte) []byte {
	data := binary.LittleEndian.AppendUint32([]byte(metadataMagic), crc32.Checksum(body, castagnoli))
	return append(data, body...)
}

func decodeMetadata(data []byte) (*metadata, error) {
	if len(data) > maxMetadata {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", ErrMetadata, len(data), maxMetadata)
	}
	if len(data) < metadataHeader || string(data[:4]) != metadataMagic[:4] {
		return nil, fmt.Errorf("%w: it lacks the header", ErrMetadata)
	}
	if data[4] != metadataMagic[4] {
		return nil, fmt.Errorf("%w: version %d, this process reads %d; run the same version on all nodes",
			ErrMetadata, data[4], metadataMagic[4])
	}
	body := data[metadataHeader:]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(data[len(metadataMagic):]) {
		return nil, fmt.Errorf("%w: its checksum is wrong", ErrMetadata)
	}
	var m metadata
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMetadata, err)
	}
	return &m, m.check()
}

// check refuses values that no agent sends.
func (m *metadata) check() error {
	if m.Name == "" || len(m.Name) > maxMetadataName {
		return fmt.Errorf("%w: a name of %d bytes", ErrMetadata, len(m.Name))
	}
	for _, r := range m.Memories {
		if r.Len == 0 || r.Addr > math.MaxUint64-r.Len {
			return fmt.Errorf("%w: impossible memory %d", ErrMetadata, r.ID)
		}
	}
	return nil
}
