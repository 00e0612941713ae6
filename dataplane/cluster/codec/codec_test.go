package codec_test

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster/codec"
)

func TestReaderReadsWhatWasAppended(t *testing.T) {
	b := []byte{7}
	b = binary.LittleEndian.AppendUint16(b, 0x1234)
	b = binary.LittleEndian.AppendUint32(b, 0x12345678)
	b = binary.LittleEndian.AppendUint64(b, math.MaxUint64)
	b = codec.AppendFloat(b, -0.5)
	b = codec.AppendUvarint(b, 300)
	b = codec.AppendUvarint(b, -1)
	b = codec.AppendUvarint(b, uint64(math.MaxUint64))
	b = codec.AppendBytes(b, "model", 100)
	b = codec.AppendBytes(b, []byte("longer than five"), 5)
	b = codec.AppendUvarint(b, 2) // a list of two entries of two bytes
	b = append(b, 1, 2, 3, 4)

	r := codec.NewReader(b)
	require.Equal(t, byte(7), r.Byte())
	require.Equal(t, uint16(0x1234), r.Uint16())
	require.Equal(t, uint32(0x12345678), r.Uint32())
	require.Equal(t, uint64(math.MaxUint64), r.Uint64())
	require.InDelta(t, -0.5, r.Float(), 0)
	require.Equal(t, uint64(300), r.Uvarint())
	require.Zero(t, r.Uvarint())
	require.Equal(t, uint64(codec.Largest), r.Uvarint())
	require.Equal(t, "model", string(r.Bytes(5)))
	require.Equal(t, "longe", string(r.Bytes(5)))
	require.Equal(t, 2, r.Count(2))
	require.Equal(t, 4, r.Len())
	require.Equal(t, []byte{1, 2, 3, 4}, r.Rest())
	require.NoError(t, r.End())
}

func TestReaderKeepsItsFirstFault(t *testing.T) {
	tests := map[string]struct {
		message []byte
		read    func(r *codec.Reader)
	}{
		"cut number":      {[]byte{1, 2, 3}, func(r *codec.Reader) { r.Uint32() }},
		"cut text":        {[]byte{4, 'a'}, func(r *codec.Reader) { r.Bytes(10) }},
		"long text":       {[]byte{2, 'a', 'b'}, func(r *codec.Reader) { r.Bytes(1) }},
		"list of nothing": {[]byte{3, 0, 0}, func(r *codec.Reader) { r.Count(1) }},
		"huge varint":     {binary.AppendUvarint(nil, codec.Largest+1), func(r *codec.Reader) { r.Uvarint() }},
		"endless varint":  {[]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}, func(r *codec.Reader) { r.Uvarint() }},
		"NaN":             {codec.AppendFloat(nil, math.NaN()), func(r *codec.Reader) { r.Float() }},
		"negative take":   {[]byte{1}, func(r *codec.Reader) { r.Take(-1) }},
		"left over":       {[]byte{1}, func(*codec.Reader) {}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := codec.NewReader(tt.message)
			tt.read(&r)
			first := r.End()
			require.ErrorIs(t, first, codec.ErrMessage)
			require.Zero(t, r.Uint64()+r.Uvarint()+uint64(r.Count(1))+uint64(r.Byte())+uint64(r.Len()), "zeros after a fault")
			r.Fail("something else")
			require.Equal(t, first, r.Err())
		})
	}
}

// FuzzReader compares a Reader with encoding/binary: whatever the order of calls, a field is read
// where encoding/binary reads one and is a fault where it cannot.
func FuzzReader(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5}, []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22})
	f.Add([]byte{4, 4}, []byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0})
	f.Fuzz(func(t *testing.T, calls, message []byte) {
		r, rest, broken := codec.NewReader(message), message, false
		fixed := func(n int, got uint64) {
			if broken = broken || len(rest) < n; broken {
				require.Zero(t, got)
				return
			}
			var whole [8]byte
			copy(whole[:], rest[:n])
			require.Equal(t, binary.LittleEndian.Uint64(whole[:]), got)
			rest = rest[n:]
		}
		for _, call := range calls {
			switch call % 6 {
			case 0:
				fixed(1, uint64(r.Byte()))
			case 1:
				fixed(2, uint64(r.Uint16()))
			case 2:
				fixed(4, uint64(r.Uint32()))
			case 3:
				fixed(8, r.Uint64())
			case 4:
				n, size := binary.Uvarint(rest)
				if broken = broken || size <= 0 || n > codec.Largest; broken {
					n, size = 0, 0
				}
				require.Equal(t, n, r.Uvarint())
				rest = rest[size:]
			case 5:
				n, size := binary.Uvarint(rest)
				if broken = broken || size <= 0 || n > 16 || n > uint64(len(rest)-size); broken {
					require.Empty(t, r.Bytes(16))
					continue
				}
				require.Equal(t, string(rest[size:size+int(n)]), string(r.Bytes(16)))
				rest = rest[size+int(n):]
			}
		}
		require.Equal(t, broken, r.Err() != nil)
		require.Equal(t, broken || len(rest) > 0, r.End() != nil)
	})
}

func TestTextIsUTF8(t *testing.T) {
	for text, good := range map[string]bool{"": true, "a": true, "ä": true, "\xff": false, "a\xc3": false, "long": false} {
		r := codec.NewReader(codec.AppendBytes(nil, text, 100))
		got := r.Text(3)
		require.Equal(t, good, r.Err() == nil, text)
		require.Equal(t, good && text != "", len(got) > 0)
	}
}

func TestOwned(t *testing.T) {
	for id, want := range map[string]bool{
		"a-0123456789abcdef": true, "a-b-0123456789abcdef": false, "a": false, "a-": false, "0123456789abcdef": false, "a-0123456789abcdeF": false,
		"a-0123456789abcdef0": false, "b-0123456789abcdef": false, "": false,
	} {
		require.Equal(t, want, codec.Owned([]byte(id), "a"), id)
		require.True(t, codec.Owned([]byte(id), ""), id)
	}
	require.True(t, codec.Owned([]byte("a-b-0123456789abcdef"), "a-b"))
}

func TestMembers(t *testing.T) {
	var m codec.Members
	const id = "a-0123456789abcdef"
	for range codec.MaxOwned {
		require.True(t, m.Add("a"))
	}
	require.False(t, m.Add("a"), "too many with one token")
	require.True(t, m.Add("b"))
	shares, owners := m.Shares(id)
	require.Equal(t, []int{2 * (1 + codec.MaxOwned), 2}, []int{shares, owners}, "each owner has half")
	for range codec.MaxMembers - codec.MaxOwned - 1 {
		require.True(t, m.Add(""))
	}
	require.False(t, m.Add("c"), "too many")
	m.Remove("b")
	require.True(t, m.Add("c"))
	m.Remove("c")
	now := time.Now()
	m.Expire(now)
	for range codec.MaxLeft {
		require.True(t, m.Add("c"))
		m.Remove("c")
	}
	require.False(t, m.Add("c"), "too many have left")
	m.Expire(now.Add(codec.LeftFor))
	require.False(t, m.Add("c"), "within the time")
	m.Expire(now.Add(codec.LeftFor + 1))
	require.True(t, m.Add("c"))
}
