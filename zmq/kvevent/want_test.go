package kvevent_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/zmq/kvevent"
)

// fieldNames gives the array shapes of SGLang the names of the map shape.
var fieldNames = map[string][]string{
	"BlockStored":      {"type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium"},
	"BlockRemoved":     {"type", "block_hashes", "medium"},
	"AllBlocksCleared": {"type"},
}

// wantBatch compares b with Python's reading of the same message.
func wantBatch(t *testing.T, want []any, b *kvevent.Batch) {
	t.Helper()
	ts, err := want[0].(json.Number).Float64()
	require.NoError(t, err)
	require.Equal(t, ts, b.Time)
	events := want[1].([]any)
	require.Len(t, b.Events, len(events))
	for i, w := range events {
		if a, ok := w.([]any); ok {
			named := map[string]any{}
			for j, v := range a {
				named[fieldNames[a[0].(string)][j]] = v
			}
			w = named
		}
		wantEvent(t, w.(map[string]any), &b.Events[i])
	}
	require.Equal(t, len(want) > 2 && want[2] != nil, b.HasRank)
	if b.HasRank {
		require.Equal(t, int(signed(t, want[2])), b.Rank)
	}
}

func wantEvent(t *testing.T, w map[string]any, e *kvevent.Event) {
	t.Helper()
	require.Equal(t, w["type"], e.Kind.String())
	wantHashes(t, w, e)
	wantTokens(t, w, e)
	number := func(name string, has bool, got int64) {
		require.Equal(t, w[name] != nil, has, name)
		if has {
			require.Equal(t, int64(signed(t, w[name])), got, name)
		}
	}
	number("block_size", e.Kind == kvevent.Stored, int64(e.BlockSize))
	number("lora_id", e.HasLoRAID, e.LoRAID)
	number("group_idx", e.HasGroup, int64(e.Group))
	number("kv_cache_spec_sliding_window", e.SlidingWindow != 0, int64(e.SlidingWindow))
	for name, got := range map[string][]byte{
		"lora_name": e.LoRAName, "cache_salt": e.CacheSalt, "session_id": e.SessionID, "locality": e.Locality,
		"ownership": e.Ownership, "kv_cache_spec_kind": e.SpecKind,
	} {
		if w[name] == nil {
			require.Nil(t, got, name)
		} else {
			require.Equal(t, w[name], string(got), name)
		}
	}
	media := map[any]kvevent.Medium{
		nil: kvevent.MediumNone, "GPU": kvevent.MediumGPU, "CPU_PINNED": kvevent.MediumCPU, "CPU": kvevent.MediumCPU,
	}
	require.Equal(t, media[w["medium"]], e.Medium)
	keys, _ := w["extra_keys"].([]any)
	require.Len(t, e.ExtraKeys, len(keys))
}

func wantHashes(t *testing.T, w map[string]any, e *kvevent.Event) {
	t.Helper()
	hashes, _ := w["block_hashes"].([]any)
	require.Len(t, e.Hashes, len(hashes))
	for i, h := range hashes {
		v, raw := bytesHash(t, h)
		require.Equal(t, v, e.Hashes[i])
		if raw != nil {
			require.Equal(t, raw, e.RawHashes[i])
		}
	}
	require.Equal(t, w["parent_block_hash"] != nil, e.HasParent)
	if e.HasParent {
		v, raw := bytesHash(t, w["parent_block_hash"])
		require.Equal(t, v, e.Parent)
		require.Equal(t, raw, e.RawParent)
	}
}

func wantTokens(t *testing.T, w map[string]any, e *kvevent.Event) {
	t.Helper()
	var want []uint32
	tokens, _ := w["token_ids"].([]any)
	for _, token := range tokens {
		pair, ok := token.([]any)
		require.Equal(t, ok, e.Bigram)
		if !ok {
			pair = []any{token}
		}
		for _, v := range pair {
			want = append(want, uint32(signed(t, v)))
		}
	}
	require.Equal(t, want, append([]uint32(nil), e.Tokens...))
}
