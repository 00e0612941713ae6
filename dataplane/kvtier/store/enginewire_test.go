package store

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

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

// encode writes the body that parse reads.
func (q *request) encode(op uint8) (dst []byte) {
	switch op {
	case opExists:
		dst = binary.LittleEndian.AppendUint32(dst, q.wait)
	case opGet:
		dst = binary.LittleEndian.AppendUint32(dst, q.lease)
		dst = binary.LittleEndian.AppendUint32(dst, q.wait)
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(q.hashes)))
	if q.hasParent {
		dst = append(dst, q.parent[:]...)
	}
	for _, h := range q.hashes {
		dst = append(dst, h[:]...)
	}
	for _, t := range q.tokens {
		dst = binary.LittleEndian.AppendUint64(dst, t)
	}
	return dst
}

// FuzzRequest: a body that parse accepts is written again byte for byte, so parse neither reads
// beyond it nor leaves a part out.
func FuzzRequest(f *testing.F) {
	parent := proto.Hash{1}
	for _, r := range []request{
		{wait: 3, hashes: chain(1, 2)},
		{lease: 1, wait: 2, hashes: chain(1, 1)},
		{hashes: chain(1, 2), tokens: []uint64{1, 2}, hasParent: true, parent: parent},
	} {
		for op := uint8(opExists); op <= opSet; op++ {
			f.Add(op, uint8(flagParent), r.encode(op))
		}
	}
	f.Fuzz(func(t *testing.T, op, flags uint8, body []byte) {
		if op != opExists && op != opGet && op != opSet {
			return
		}
		var r request
		if err := r.parse(op, flags, body); err != nil {
			return
		}
		if got := r.encode(op); !bytes.Equal(got, body) {
			t.Errorf("op %d, flags %d: %x reads as %+v, which is written %x", op, flags, body, r, got)
		}
		if op == opSet && len(r.tokens) != len(r.hashes) {
			t.Errorf("%d tokens for %d pages", len(r.tokens), len(r.hashes))
		}
	})
}

func FuzzHello(f *testing.F) {
	f.Add(hello{version: wireVersion, pageTokens: 4, regions: 1, name: "m", pieces: layerFirst()}.encode())
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := parseHello(body)
		if err != nil {
			return
		}
		if got := m.encode(); !bytes.Equal(got, body) {
			t.Errorf("%x reads as %+v, which is written %x", body, m, got)
		}
		if m.pageBytes() <= 0 {
			t.Errorf("pages of %d bytes", m.pageBytes())
		}
	})
}

// FuzzPeerMessages is FuzzRequest for the messages between sidecars.
func FuzzPeerMessages(f *testing.F) {
	r := pageRequest{lease: 5, bytes: 1536, stamp: 7, name: "m", hashes: chain(1, 3)}
	f.Add(r.encode())
	f.Add(clears{"m": 5, "": 1 << 63}.encode())
	f.Add(welcome{1, 2, true, 3, []byte("metadata")}.encode())
	f.Fuzz(func(t *testing.T, body []byte) {
		if r, err := parsePageRequest(body); err == nil && !bytes.Equal(r.encode(), body) {
			t.Errorf("%x reads as %+v, which is written %x", body, r, r.encode())
		}
		if w, err := parseWelcome(body); err == nil && !bytes.Equal(w.encode(), body) {
			t.Errorf("%x reads as %+v, which is written %x", body, w, w.encode())
		}
		if c, err := parseClears(body); err == nil {
			again, err := parseClears(c.encode())
			if err != nil || !reflect.DeepEqual(again, c) || len(c) > maxNamespaces || len(c.encode()) > len(body) {
				t.Errorf("%x reads as %v, which is written %x", body, c, c.encode())
			}
		}
		if offsets, err := parseOffsets(body, 2); err == nil && len(offsets) != 2 {
			t.Errorf("%d offsets of 2", len(offsets))
		}
		if n, err := parseCount(body, 7); err == nil && (n < 0 || n > 7) {
			t.Errorf("%d of 7 pages", n)
		}
	})
}

func TestHeader(t *testing.T) {
	h := header{length: 5, op: opGet, flags: 1, status: 1, seq: 1 << 40}
	if got, err := parseHeader(h.append(nil)); err != nil || !reflect.DeepEqual(got, h) {
		t.Errorf("%+v is read as %+v, %v", h, got, err)
	}
	if _, err := parseHeader(header{length: maxBody + 1}.append(nil)); err == nil {
		t.Error("a body beyond the bound is accepted")
	}
}
