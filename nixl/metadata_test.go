package nixl_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/nixl"
)

// FuzzMetadata: metadata with a valid checksum is refused with ErrMetadata, or reads the same
// when it is written again.
func FuzzMetadata(f *testing.F) {
	f.Add([]byte(`{"name":"peer","memories":[{"id":1,"addr":1099511627776,"len":4096}],"library":"YmxvYg=="}`))
	f.Add([]byte(`{"name":"p","memories":null,"library":null}`))
	f.Add([]byte(`{"name":""}`))
	f.Add([]byte(`{"name":"p","memories":[{"id":1,"addr":18446744073709551615,"len":1}]}`))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		name, memories, library, err := nixl.DecodeMetadata(nixl.SealMetadata(body))
		if err != nil {
			if !errors.Is(err, nixl.ErrMetadata) {
				t.Fatalf("%v, want %v", err, nixl.ErrMetadata)
			}
			return
		}
		again := nixl.EncodeMetadata(name, memories, library)
		name2, memories2, library2, err := nixl.DecodeMetadata(again)
		if err != nil || name2 != name || !slices.Equal(memories2, memories) || !bytes.Equal(library2, library) {
			t.Errorf("%q reads as %q, %v, %q; written again as %q, %v, %q, %v",
				body, name, memories, library, name2, memories2, library2, err)
		}
	})
}

func TestMetadataIsChecked(t *testing.T) {
	good := nixl.EncodeMetadata("peer", []nixl.RemoteMemory{{ID: 1, Addr: 4096, Len: 4096}}, []byte("blob"))
	if name, memories, blob, err := nixl.DecodeMetadata(good); err != nil || name != "peer" || len(memories) != 1 || string(blob) != "blob" {
		t.Fatalf("DecodeMetadata = %q, %v, %q, %v", name, memories, blob, err)
	}
	bad := map[string][]byte{
		"no name":        nixl.EncodeMetadata("", nil, nil),
		"a long name":    nixl.EncodeMetadata(string(make([]byte, 256)), nil, nil),
		"not JSON":       nixl.SealMetadata([]byte("{")),
		"no bytes":       nixl.EncodeMetadata("p", []nixl.RemoteMemory{{Addr: 1}}, nil),
		"beyond the end": nixl.EncodeMetadata("p", []nixl.RemoteMemory{{Addr: math.MaxUint64, Len: 2}}, nil),
		"too large":      nixl.EncodeMetadata("p", nil, make([]byte, 5<<20)),
	}
	for i := range good {
		bad["cut"] = good[:i]
		changed := bytes.Clone(good)
		changed[i]++
		bad["changed"] = changed
		for name, data := range bad {
			if _, _, _, err := nixl.DecodeMetadata(data); !errors.Is(err, nixl.ErrMetadata) {
				t.Errorf("%s at %d: %v, want %v", name, i, err, nixl.ErrMetadata)
			}
		}
		clear(bad)
	}
}

// FuzzCoalesce: merged pieces move the same bytes, and cannot be merged further.
func FuzzCoalesce(f *testing.F) {
	f.Add(uint64(1), 10, 3)
	f.Add(uint64(2), 100, 1)
	f.Fuzz(func(t *testing.T, seed uint64, count, run int) {
		if count < 0 || count > 1000 || run < 1 || run > 100 {
			t.Skip()
		}
		random := rand.New(rand.NewPCG(seed, 1))
		order := random.Perm(count)
		pieces := make([]nixl.Piece, count)
		for i, slot := range order { // runs of neighbours that lie apart on the remote side
			pieces[i] = nixl.Piece{Local: uint64(slot) * 8, Remote: uint64(slot*8 + slot/run*64), Len: 8}
		}
		if count > 0 {
			pieces[random.IntN(count)].Len = 0
		}
		want := naiveBytes(pieces)
		merged := nixl.Coalesce(slices.Clone(pieces))
		if got := naiveBytes(merged); !slices.Equal(got, want) {
			t.Fatalf("Coalesce(%v) = %v moves other bytes", pieces, merged)
		}
		for i := 1; i < len(merged); i++ {
			a, b := merged[i-1], merged[i]
			if a.Local >= b.Local || a.Local+a.Len == b.Local && a.Remote+a.Len == b.Remote || b.Len == 0 {
				t.Errorf("%+v and %+v could be one, or are out of order", a, b)
			}
		}
	})
}

// naiveBytes lists source and destination of each byte.
func naiveBytes(pieces []nixl.Piece) [][2]uint64 {
	var list [][2]uint64
	for _, p := range pieces {
		for i := range p.Len {
			list = append(list, [2]uint64{p.Local + i, p.Remote + i})
		}
	}
	slices.SortFunc(list, func(a, b [2]uint64) int { return slices.Compare(a[:], b[:]) })
	return list
}

func TestImpossiblePieces(t *testing.T) {
	c := newPair(t, nixl.Config{}, 8192)
	theirs := c.remote.Memories()[0]
	twice := []nixl.Piece{{Len: 4096}, {Local: 4095, Remote: 4096, Len: 4096}}
	if _, err := c.remote.Prepare(nixl.Read, c.local, theirs, slices.Clone(twice)); !errors.Is(err, nixl.ErrRange) {
		t.Errorf("two reads into one byte = %v, want %v", err, nixl.ErrRange)
	}
	if _, err := c.remote.Prepare(nixl.Write, c.local, theirs, slices.Clone(twice)); err != nil {
		t.Errorf("two writes of one byte = %v", err)
	}
	for _, pieces := range [][]nixl.Piece{nil, {{Len: 0}}, {{Local: 1, Len: 8192}}, {{Remote: 1, Len: 8192}}, {{Local: 1 << 63, Remote: 1 << 63, Len: 1 << 63}}, {{Len: 8193}}} {
		if _, err := c.remote.Prepare(nixl.Read, c.local, theirs, slices.Clone(pieces)); !errors.Is(err, nixl.ErrRange) {
			t.Errorf("a transfer of %+v = %v, want %v", pieces, err, nixl.ErrRange)
		}
	}
	unknown := theirs
	unknown.Len++
	if _, err := c.remote.Prepare(nixl.Read, c.local, unknown, []nixl.Piece{{Len: 1}}); !errors.Is(err, nixl.ErrNoMemory) {
		t.Errorf("memory that the peer did not announce = %v, want %v", err, nixl.ErrNoMemory)
	}
	if _, err := c.remote.Prepare(nixl.Read, c.peers, theirs, []nixl.Piece{{Len: 1}}); !errors.Is(err, nixl.ErrRange) {
		t.Errorf("another agent's memory = %v, want %v", err, nixl.ErrRange)
	}
}

func TestMappings(t *testing.T) {
	for _, size := range []int{0, 1 << 60} {
		if _, err := nixl.NewMapping("none", size); err == nil {
			t.Errorf("a mapping of %d bytes = nil", size)
		}
	}
	m, err := nixl.NewMapping("shared", 8192)
	require.NoError(t, err)
	again, err := m.ReadOnly()
	require.NoError(t, err)
	defer again.Close()
	m.Bytes()[5000] = 42
	var b [1]byte
	if _, err := again.ReadAt(b[:], 5000); err != nil || b[0] != 42 {
		t.Errorf("the other descriptor has %d, %v", b[0], err)
	}
	if again.Truncate(4096) == nil || os.Truncate(fmt.Sprintf("/proc/self/fd/%d", again.Fd()), 4096) == nil {
		t.Error("memory could be cut off while it is mapped")
	}
	for range 2 {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if m.Mapped() {
		t.Error("a closed mapping is still mapped")
	}
}
