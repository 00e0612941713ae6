package kvevent_test

import (
	"encoding/hex"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/zmq/kvevent"
)

// packed is msgpack written by hand: numbers are bytes, the rest packs itself.
type packed []any

// payload concatenates p's bytes; a string gets its header.
func (p packed) payload() (b []byte) {
	for _, v := range p {
		switch v := v.(type) {
		case int:
			b = append(b, byte(v))
		case rune:
			b = append(b, byte(v))
		case string:
			b = append(b, 0xa0|byte(len(v)))
			if len(v) > 31 {
				b = append(b[:len(b)-1], 0xd9, byte(len(v)))
			}
			b = append(b, v...)
		case packed:
			b = append(b, v.payload()...)
		}
	}
	return b
}

// ts is a batch's time, 1.5.
var ts = packed{0xcb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0}

// store is an array-shaped store of one block of one token, which more elements follow.
func store(elements int, more packed) packed {
	return packed{0x90 | elements, "BlockStored", 0x91, 7, 0xc0, 0x91, 9, 1, more}
}

type shapeTest struct {
	name   string
	events packed // The batch's second element.
	tail   packed // The elements after it; nil is rank 0.
	head   int    // The batch's header; 0 is an array of three.
	want   kvevent.Batch
}

func (s shapeTest) payload() []byte {
	head, tail := s.head, s.tail
	if head == 0 {
		head = 0x93
	}
	if tail == nil {
		tail = packed{0}
	}
	return packed{head, ts, s.events, tail}.payload()
}

func stored(change func(*kvevent.Event)) []kvevent.Event {
	e := kvevent.Event{Kind: kvevent.Stored, Hashes: []uint64{7}, Tokens: []uint32{9}, BlockSize: 1}
	change(&e)
	return []kvevent.Event{e}
}

// shapeTests are shapes that no capture has.
var shapeTests = []shapeTest{
	{
		name: "0.5.18 salted", events: packed{0x91, store(8, packed{0xc0, "GPU", 0x81, "cache_salt", "s"})},
		want: kvevent.Batch{HasRank: true, Events: stored(func(e *kvevent.Event) {
			e.Medium, e.CacheSalt = kvevent.MediumGPU, []byte("s")
		})},
	},
	{
		name: "0.5.18 map of later fields", events: packed{0x91, store(8, packed{3, 0xc0, 0x82, "new", 0x91, 1, 2, 3})},
		want: kvevent.Batch{HasRank: true, UnknownFields: 2, Events: stored(func(e *kvevent.Event) {
			e.LoRAID, e.HasLoRAID = 3, true
		})},
	},
	{name: "vLLM array", events: packed{0x91, store(12, packed{
		0xc0, "CPU", "lora", 0x92, 0xc0, 0x91, "x", 2, "sliding_window", 0xcd, 4, 0,
	})}, head: 0x92, tail: packed{}, want: kvevent.Batch{Events: stored(func(e *kvevent.Event) {
		e.Medium, e.LoRAName, e.ExtraKeys = kvevent.MediumCPU, []byte("lora"), [][]byte{nil, {0x91, 0xa1, 'x'}}
		e.Group, e.HasGroup, e.SpecKind, e.SlidingWindow = 2, true, []byte("sliding_window"), 1024
	})}},
	{name: "array with later elements", events: packed{
		0x92,
		0x95, "BlockRemoved", 0x91, 7, "DISK", 1, 0x81, 1, 2, 0x92, "AllBlocksCleared", "GPU",
	}, want: kvevent.Batch{HasRank: true, UnknownFields: 2, Events: []kvevent.Event{
		{
			Kind: kvevent.Removed, Hashes: []uint64{7}, Medium: kvevent.MediumStorage, MediumName: []byte("DISK"),
			CacheGroup: kvevent.CacheGroup{Group: 1, HasGroup: true},
		},
		{Kind: kvevent.Cleared},
	}}},
	{
		name: "shortest store", events: packed{0x91, store(5, nil)},
		want: kvevent.Batch{HasRank: true, Events: stored(func(*kvevent.Event) {})},
	},
	{name: "unknown events", events: packed{
		0x93,
		0x82, "type", "BlockMoved", "block_hashes", "none", 0x92, "BlockMoved", 0xc3, 0x81, "type", "AllBlocksCleared",
	}, want: kvevent.Batch{HasRank: true, UnknownEvents: 2, Events: []kvevent.Event{{Kind: kvevent.Cleared}}}},
	{name: "type last, odd keys", events: packed{
		0x91,
		0x84, 1, 2, "block_hashes", 0x90, "epoch", 0xd6, 1, 2, 3, 4, 5, "type", "BlockRemoved",
	}, want: kvevent.Batch{HasRank: true, UnknownFields: 2, Events: []kvevent.Event{{Kind: kvevent.Removed}}}},
	{
		name: "nil rank and more", events: packed{0x90}, head: 0x95, tail: packed{0xc0, 0x91, 1, 0xcb, ts[1:]},
		want: kvevent.Batch{UnknownFields: 2},
	},
	{name: "wide tokens", events: packed{0x91, packed{
		0x95, "BlockStored", 0x90, 0xff, 0x92, 0xcf, 0, 0, 0, 2, 0, 0, 0, 5, 0xff, 2,
	}}, want: kvevent.Batch{HasRank: true, WideTokens: 2, Events: []kvevent.Event{{
		Kind: kvevent.Stored, Parent: 1<<64 - 1, HasParent: true, Tokens: []uint32{7, 0}, BlockSize: 2,
	}}}},
	{name: "empty strings are there", events: packed{
		0x91,
		0x86, "type", "BlockStored", "block_hashes", 0x90, "token_ids", 0x90, "block_size", 4, "cache_salt", "",
		"medium", "NVME",
	}, want: kvevent.Batch{HasRank: true, Events: []kvevent.Event{{
		Kind: kvevent.Stored, BlockSize: 4, CacheSalt: []byte{}, Medium: kvevent.MediumOther, MediumName: []byte("NVME"),
	}}}},
}

// looseTests are ways of writing that no engine has today, each of which can mean one thing only.
var looseTests = []shapeTest{
	{name: "no size", events: packed{0x91, 0x94, "BlockStored", 0x92, 7, 8, 0xc0, 0x94, 1, 2, 3, 4}, want: kvevent.Batch{
		HasRank: true, Events: []kvevent.Event{{Kind: kvevent.Stored, Hashes: []uint64{7, 8}, Tokens: []uint32{1, 2, 3, 4}, BlockSize: 2}},
	}},
	{name: "no size in a map", events: packed{
		0x91, 0x84, "type", "BlockStored", "block_hashes", 0x91, 7, "token_ids", 0x92, 0xdc, 0, 2, 1, 2, 0x92, 2, 3, "block_size", 0xc0,
	}, want: kvevent.Batch{HasRank: true, Events: []kvevent.Event{{
		Kind: kvevent.Stored, Hashes: []uint64{7}, Tokens: []uint32{1, 2, 2, 3}, Bigram: true, BlockSize: 2,
	}}}},
	{name: "names as bytes", events: packed{0x92, 0x82, 0xc4, 4, 't', 'y', 'p', 'e', "BlockRemoved", "block_hashes", 0x91, 7, packed{
		0x93, 0xc4, 12, 'B', 'l', 'o', 'c', 'k', 'R', 'e', 'm', 'o', 'v', 'e', 'd', 0x91, 8, 0xc4, 3, 'G', 'P', 'U',
	}}, want: kvevent.Batch{HasRank: true, Events: []kvevent.Event{
		{Kind: kvevent.Removed, Hashes: []uint64{7}}, {Kind: kvevent.Removed, Hashes: []uint64{8}, Medium: kvevent.MediumGPU},
	}}},
	{name: "a variant without fields", events: packed{0x91, "AllBlocksCleared"}, want: kvevent.Batch{
		HasRank: true, Events: []kvevent.Event{{Kind: kvevent.Cleared}},
	}},
	{
		name: "media", events: packed{0x93, 0x93, "BlockRemoved", 0x90, "gpu", 0x93, "BlockRemoved", 0x90, "Cpu", 0x93, "BlockRemoved", 0x90, ""},
		want: kvevent.Batch{HasRank: true, Events: []kvevent.Event{
			{Kind: kvevent.Removed, Medium: kvevent.MediumGPU}, {Kind: kvevent.Removed, Medium: kvevent.MediumCPU}, {Kind: kvevent.Removed},
		}},
	},
	{name: "removed from a medium that is none", events: packed{0x91, 0x93, "BlockRemoved", 0x91, 7, 5}, want: kvevent.Batch{
		HasRank: true, UnknownFields: 1, Events: []kvevent.Event{{Kind: kvevent.Removed, Hashes: []uint64{7}}},
	}},
	{name: "an image's name among tokens", events: packed{0x91, 0x95, "BlockStored", 0x91, 7, 0xc0, 0x93, 1, "abcd", 0xc4, 2, 1, 2, 3}, want: kvevent.Batch{
		HasRank: true, WideTokens: 2, Events: []kvevent.Event{{
			Kind: kvevent.Stored, Hashes: []uint64{7}, Tokens: []uint32{1, 0x92c80a31, 0x3f89f52}, BlockSize: 3,
		}},
	}},
	{name: "labels that are none", events: packed{
		0x91, 0x87, "type", "BlockStored", "block_hashes", 0x90, "token_ids", 0x90, "block_size", 1, "session_id", 5, "locality", 0x91, 1,
		"kv_cache_spec_sliding_window", "x",
	}, want: kvevent.Batch{HasRank: true, UnknownFields: 3, Events: []kvevent.Event{{Kind: kvevent.Stored, BlockSize: 1}}}},
	{name: "keys that are empty", events: packed{
		0x91, 0x85, "type", "BlockStored", "block_hashes", 0x91, 7, "token_ids", 0x91, 1, "block_size", 1, "extra_keys", 0x94, 0x90, 0x80, "", 0x91, 1,
	}, want: kvevent.Batch{HasRank: true, Events: []kvevent.Event{{
		Kind: kvevent.Stored, Hashes: []uint64{7}, Tokens: []uint32{1}, BlockSize: 1, ExtraKeys: [][]byte{nil, nil, nil, {0x91, 1}},
	}}}},
	{name: "a key for all blocks", events: packed{
		0x91, 0x85, "type", "BlockStored", "block_hashes", 0x91, 7, "token_ids", 0x91, 1, "block_size", 1, "extra_key", "x",
	}, want: kvevent.Batch{HasRank: true, Events: []kvevent.Event{{
		Kind: kvevent.Stored, Hashes: []uint64{7}, Tokens: []uint32{1}, BlockSize: 1, ExtraKey: []byte("\xa1x"),
	}}}},
	{name: "no events", events: packed{0xc0}, want: kvevent.Batch{HasRank: true}},
	{name: "a rank that is none", events: packed{0x91, 0x91, "AllBlocksCleared"}, tail: packed{"0"}, want: kvevent.Batch{
		UnknownFields: 1, Events: []kvevent.Event{{Kind: kvevent.Cleared}},
	}},
}

// TestBatchesWithNames: a batch may be a map, and its time unknown.
func TestBatchesWithNames(t *testing.T) {
	cleared := packed{0x91, 0x91, "AllBlocksCleared"}
	want := kvevent.Batch{Time: 1.5, Rank: 3, HasRank: true, UnknownFields: 1, Events: []kvevent.Event{{Kind: kvevent.Cleared}}}
	for _, rank := range []string{"attn_dp_rank", "data_parallel_rank"} {
		for _, payload := range []packed{
			{0x84, "ts", ts, "events", cleared, rank, 3, "epoch", 7}, {0xde, 0, 4, 0xc0, 7, rank, 3, "events", cleared, "ts", ts},
		} {
			var b kvevent.Batch
			require.NoError(t, b.Decode(payload.payload()))
			require.True(t, equalBatches(&b, &want), "Decode = %+v, want %+v", b, want)
		}
	}
	var b kvevent.Batch
	for _, when := range []packed{{0xc0}, {"2026"}, {0xd7, 0xff, 0, 0, 0, 0, 0, 0, 0, 5}} {
		require.NoError(t, b.Decode(packed{0x92, when, cleared}.payload()))
		require.Len(t, b.Events, 1)
		require.Zero(t, b.Time)
	}
}

func TestShapes(t *testing.T) {
	var b kvevent.Batch
	for _, tt := range append(slices.Clone(shapeTests), looseTests...) {
		t.Run(tt.name, func(t *testing.T) {
			require.NoError(t, b.Decode(tt.payload()))
			tt.want.Time = 1.5
			require.True(t, equalBatches(&b, &tt.want), "Decode = %+v, want %+v", b, tt.want)
		})
	}
}

func TestSaltIsEncodedFrom0518On(t *testing.T) {
	b := shapeTests[0]
	var batch kvevent.Batch
	require.NoError(t, batch.Decode(b.payload()))
	require.Equal(t, hex.EncodeToString(b.payload()), hex.EncodeToString(kvevent.Append(nil, &batch, kvevent.SGLang0518)))
}

// TestBadEvents: an event that makes no sense is left out, and takes no other with it.
func TestBadEvents(t *testing.T) {
	tests := []struct {
		name  string
		event packed
	}{
		{"a number", packed{1}},
		{"nil", packed{0xc0}},
		{"a name that is none", packed{"BlockStored"}},
		{"without a tag", packed{0x90}},
		{"tag is a number", packed{0x91, 1}},
		{"map without a type", packed{0x81, "block_hashes", 0x90}},
		{"type is a number", packed{0x81, "type", 1}},
		{"store without tokens", packed{0x83, "type", "BlockStored", "block_hashes", 0x90, "block_size", 1}},
		{"removal without hashes", packed{0x81, "type", "BlockRemoved"}},
		{"short array store", packed{0x93, "BlockStored", 0x90, 0xc0}},
		{"size of no blocks", packed{0x94, "BlockStored", 0x90, 0xc0, 0x90}},
		{"size that is no number", packed{0x94, "BlockStored", 0x92, 1, 2, 0xc0, 0x93, 1, 2, 3}},
		{"hash is a string", packed{0x92, "BlockRemoved", 0x91, "x"}},
		{"hash of seven bytes", packed{0x92, "BlockRemoved", 0x91, 0xc4, 7, 1, 2, 3, 4, 5, 6, 7}},
		{"hash is a float", packed{0x92, "BlockRemoved", 0x91, 0xca, 0, 0, 0, 0}},
		{"medium is a number", packed{0x97, "BlockStored", 0x90, 0xc0, 0x90, 1, 0xc0, 1}},
		{"salt is a number", packed{0x84, "type", "BlockStored", "block_hashes", 0x90, "token_ids", 0x90, "cache_salt", 1}},
		{"token is nil", packed{0x95, "BlockStored", 0x90, 0xc0, 0x91, 0xc0, 1}},
		{"pair of three", packed{0x95, "BlockStored", 0x90, 0xc0, 0x91, 0x93, 1, 2, 3, 1}},
		{"pair and single", packed{0x95, "BlockStored", 0x90, 0xc0, 0x92, 0x92, 1, 2, 3, 1}},
		{"single and pair", packed{0x95, "BlockStored", 0x90, 0xc0, 0x92, 3, 0x92, 1, 2, 1}},
		{"negative block size", packed{0x95, "BlockStored", 0x90, 0xc0, 0x90, 0xff}},
	}
	var b kvevent.Batch
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.NoError(t, b.Decode(shapeTest{events: packed{0x93, store(5, nil), tt.event, 0x92, "BlockRemoved", 0x91, 9}}.payload()))
			want := kvevent.Batch{Time: 1.5, HasRank: true, BadEvents: 1, Events: []kvevent.Event{
				{Kind: kvevent.Stored, Hashes: []uint64{7}, Tokens: []uint32{9}, BlockSize: 1}, {Kind: kvevent.Removed, Hashes: []uint64{9}},
			}}
			require.True(t, equalBatches(&b, &want), "Decode = %+v, want %+v", b, want)
		})
	}
}

func TestMalformed(t *testing.T) {
	huge := packed{0xdd, 0xff, 0xff, 0xff, 0xff}
	deep := make(packed, 1<<16)
	for i := range deep {
		deep[i] = 0x91
	}
	tests := []struct {
		name   string
		events packed
	}{
		{"no list of events", packed{1}},
		{"the code without a meaning", packed{0x91, 0x92, "New", 0xc1}},
		{"four billion events", huge},
		{"four billion hashes", packed{0x91, 0x92, "BlockRemoved", huge}},
		{"four billion tokens", packed{0x91, 0x95, "BlockStored", 0x90, 0xc0, huge, 1}},
		{"four billion unknown", packed{0x91, 0x92, "New", huge}},
		{"four billion pairs", packed{0x91, 0xdf, 0xff, 0xff, 0xff, 0xff}},
		{"string of four gigabytes", packed{0x91, 0x92, "New", 0xdb, 0xff, 0xff, 0xff, 0xff}},
		{"nested without end", packed{0x91, 0x92, "New", deep}},
	}
	var b kvevent.Batch
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.ErrorIs(t, b.Decode(shapeTest{events: tt.events}.payload()), kvevent.ErrMalformed)
			require.Empty(t, b.Events)
		})
	}
	twice := packed{0x82, "events", 0x90, "events", 0x90}.payload()
	for _, whole := range [][]byte{nil, {}, {0xc0}, {0x80}, {0x91, 0xcb}, {0x90}, {0x92, 0xc0, 0x01}, {0x81, 0xa2, 't', 's', 1}, twice} {
		require.ErrorIs(t, b.Decode(whole), kvevent.ErrMalformed, "%x", whole)
	}
}
