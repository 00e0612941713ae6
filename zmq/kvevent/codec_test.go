package kvevent_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/zmq/kvevent"
)

func TestParseEncoding(t *testing.T) {
	for _, enc := range encodings {
		got, err := kvevent.ParseEncoding(enc.String())
		require.NoError(t, err)
		require.Equal(t, enc, got)
	}
	_, err := kvevent.ParseEncoding("0.4")
	require.ErrorIs(t, err, kvevent.ErrUnknownEncoding)
	require.Equal(t, "unknown", kvevent.Encoding(0).String())
}

// TestNumberWidths encodes and decodes at the edges of msgpack's integer formats.
func TestNumberWidths(t *testing.T) {
	var hashes []uint64
	for shift := range 64 {
		for _, d := range []uint64{0, 1, 2} {
			v := uint64(1)<<shift - d
			hashes = append(hashes, v, -v)
		}
	}
	tokens := []uint32{0, 1, 127, 128, 255, 256, 65535, 65536, math.MaxUint32 - 1, math.MaxUint32}
	for _, bigram := range []bool{false, true} {
		b := kvevent.Batch{Time: 0.1, Rank: 70_000, HasRank: true, Events: []kvevent.Event{{
			Kind: kvevent.Stored, Hashes: hashes, Tokens: tokens, Bigram: bigram, BlockSize: 300,
			HasLoRAID: true, LoRAID: -33, CacheSalt: make([]byte, 300), LoRAName: make([]byte, 70_000),
		}}}
		for _, enc := range encodings {
			checkRoundTrip(t, &b, enc)
		}
	}
}

// TestLongLists crosses the edges of msgpack's array formats.
func TestLongLists(t *testing.T) {
	for _, n := range []int{0, 15, 16, math.MaxUint16, math.MaxUint16 + 1} {
		e := kvevent.Event{
			Kind: kvevent.Stored, Hashes: make([]uint64, n), Tokens: make([]uint32, 2*n), Bigram: n > 0, BlockSize: 1,
			RawHashes: [][]byte(nil),
		}
		if n > 0 {
			e.RawHashes = make([][]byte, n)
			e.RawHashes[n-1] = make([]byte, 300)
			e.RawParent, e.HasParent = make([]byte, 70_000), true
		}
		for _, enc := range encodings {
			checkRoundTrip(t, &kvevent.Batch{Events: []kvevent.Event{e}}, enc)
		}
	}
	b := kvevent.Batch{Events: make([]kvevent.Event, 300)}
	for i := range b.Events {
		b.Events[i].Kind = kvevent.Cleared
	}
	checkRoundTrip(t, &b, kvevent.SGLang0523)
}

func TestAppendLeavesUnknownKindsOut(t *testing.T) {
	b := kvevent.Batch{Events: []kvevent.Event{{}, {Kind: kvevent.Cleared}, {Kind: 9}}}
	var got kvevent.Batch
	require.NoError(t, got.Decode(kvevent.Append(nil, &b, kvevent.SGLang0523)))
	require.Equal(t, []kvevent.Event{{Kind: kvevent.Cleared}}, got.Events)
	require.False(t, got.HasRank)
}

func TestMediumNames(t *testing.T) {
	for _, tt := range []struct {
		medium kvevent.Medium
		enc    kvevent.Encoding
		want   string
	}{
		{kvevent.MediumCPU, kvevent.SGLang0515, "CPU_PINNED"},
		{kvevent.MediumCPU, kvevent.VLLM032, "CPU"},
		{kvevent.MediumStorage, kvevent.SGLang0523, "DISK"},
		{kvevent.MediumStorage, kvevent.VLLM032, "STORAGE"},
		{kvevent.MediumGPU, kvevent.VLLM032, "GPU"},
	} {
		b := kvevent.Batch{Events: []kvevent.Event{{Kind: kvevent.Removed, Medium: tt.medium}}}
		require.Contains(t, string(kvevent.Append(nil, &b, tt.enc)), tt.want)
	}
}

func TestAppendJSON(t *testing.T) {
	raw := []byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08")
	b := kvevent.Batch{
		Time: 1763700000.25, HasRank: true, Rank: 2, UnknownEvents: 1, UnknownFields: 2, WideTokens: 3,
		Events: []kvevent.Event{
			{
				Kind: kvevent.Stored, Hashes: []uint64{math.MaxUint64, 1}, RawHashes: [][]byte{nil, raw}, HasParent: true,
				Parent: 5, Tokens: []uint32{1, 2, 2, 3}, Bigram: true, BlockSize: 2, HasLoRAID: true, LoRAID: 4,
				LoRAName: []byte("a\"\\\x01\xff"), CacheSalt: []byte{}, SessionID: []byte("s"), Medium: kvevent.MediumCPU,
				ExtraKeys: [][]byte{nil, {0xc3}},
				CacheGroup: kvevent.CacheGroup{
					HasGroup: true, Group: 1, SpecKind: []byte("k"), SlidingWindow: 7, Locality: []byte("L"),
					Ownership: []byte("o"),
				},
			},
			{Kind: kvevent.Removed, Hashes: []uint64{math.MaxUint64}, Unsigned: true, Medium: kvevent.MediumOther, MediumName: []byte("X")},
			{Kind: kvevent.Cleared},
		},
	}
	require.Equal(t, `{"ts":1763700000.25,"rank":2,"events":[`+
		`{"type":"BlockStored","block_hashes":[-1,"000102030405060708"],"parent_block_hash":5,"token_ids":[[1,2],[2,3]],`+
		`"block_size":2,"lora_id":4,"lora_name":"a\"\\\u0001�","cache_salt":"","session_id":"s","extra_keys":[null,"c3"],`+
		`"kv_cache_spec_kind":"k","kv_cache_spec_sliding_window":7,"medium":"CPU_PINNED","group_idx":1,"locality":"L",`+
		`"ownership":"o"},`+
		`{"type":"BlockRemoved","block_hashes":[18446744073709551615],"medium":"X"},`+
		`{"type":"AllBlocksCleared"}],"unknown_events":1,"unknown_fields":2,"wide_tokens":3}`,
		string(kvevent.AppendJSON(nil, &b)))
	require.JSONEq(t, `{"ts":null,"events":[]}`, string(kvevent.AppendJSON(nil, &kvevent.Batch{Time: math.NaN()})))
}

// TestJSONOfVectors compares the JSON of each map-shaped SGLang message with Python's, nil fields aside.
func TestJSONOfVectors(t *testing.T) {
	var b kvevent.Batch
	for _, v := range eventVectors(t) {
		require.NoError(t, b.Decode(v.payload(t)))
		var got struct{ Events []map[string]any }
		unmarshal(t, kvevent.AppendJSON(nil, &b), &got)
		for i, w := range v.want()[1].([]any) {
			want, ok := w.(map[string]any)
			if !ok || v.Label == "vllm-0.32.0" {
				continue
			}
			for name, value := range want {
				if value == nil {
					delete(want, name)
				}
			}
			require.Equal(t, want, got.Events[i])
		}
	}
}

func TestLoadMalformed(t *testing.T) {
	whole := kvevent.AppendLoad(nil, &kvevent.Load{Running: 1, Waiting: -2, MaxTotal: 1 << 40})
	var l kvevent.Load
	require.NoError(t, l.Decode(whole))
	require.Equal(t, kvevent.Load{Running: 1, Waiting: -2, MaxTotal: 1 << 40}, l)
	for n := range whole {
		require.ErrorIs(t, l.Decode(whole[:n]), kvevent.ErrMalformed)
		require.Zero(t, l)
	}
	for name, p := range map[string]packed{
		"other tag":  {0x96, "LoadStats", 1, 2, 3, 4, 5},
		"too short":  {0x95, "LoadStat", 1, 2, 3, 4},
		"a string":   {0x96, "LoadStat", "1", 2, 3, 4, 5},
		"one more":   {0x96, "LoadStat", 1, 2, 3, 4, 5, 6},
		"not a list": {0x80},
	} {
		require.ErrorIs(t, l.Decode(p.payload()), kvevent.ErrMalformed, name)
	}
}

func TestLoadOfOtherReleases(t *testing.T) {
	var l kvevent.Load
	require.NoError(t, l.Decode(packed{0x96, "LoadStat", 1, 2, 3, 4, 0xc0}.payload()))
	require.Equal(t, kvevent.Load{Running: 1, Waiting: 2, Tokens: 3, MaxTotal: 4}, l)
	require.NoError(t, l.Decode(packed{0x9c, "LoadStat", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0x81, "x", 1}.payload()))
	require.Equal(t, int64(10), l.PrefillBusyMicros)
}

func TestBigramPageHash(t *testing.T) {
	// hashlib.sha256(struct.pack("<4I", 1, 2, 2, 3)).hexdigest()[:16]: SGLang hashes a page of pairs flattened.
	require.Equal(t, []uint64{0xede8ef26a097f0fd}, kvevent.SGLangHashes(nil, []uint32{1, 2, 2, 3}, 4, ""))
	require.Nil(t, kvevent.SGLangHashes(nil, []uint32{1}, 0, ""))
}
