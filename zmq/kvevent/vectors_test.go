package kvevent_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/zmq/kvevent"
)

// vector is one captured message.
type vector struct {
	Name, Label, Source, Topic string
	PayloadHex                 string `json:"payload_hex"`
	Decoded                    any
	Dec                        any // As the .jsonl files name it.
}

func (v vector) payload(t testing.TB) []byte {
	t.Helper()
	b, err := hex.DecodeString(v.PayloadHex)
	require.NoError(t, err)
	return b
}

func (v vector) want() []any {
	if v.Decoded == nil {
		return v.Dec.([]any)
	}
	return v.Decoded.([]any)
}

type vectorFile struct {
	Captures []struct {
		Label    string
		Messages []vector
		Replay   struct {
			ReplyFramesHex [][]string `json:"reply_frames_hex"`
		}
	}
	Live        []vector `json:"live_sglang_0.5.23_engine"`
	HashVectors []struct {
		Tokens    []uint32
		PageSize  int    `json:"page_size"`
		CacheSalt string `json:"cache_salt"`
		Hashes    [][2]any
	} `json:"hash_vectors"`
}

func unmarshal(t testing.TB, data []byte, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // Hashes do not fit float64.
	require.NoError(t, d.Decode(v))
}

func readVectorFile(t testing.TB) (f vectorFile) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "vectors", "kv_event_vectors.json"))
	require.NoError(t, err)
	unmarshal(t, data, &f)
	return f
}

func readLines(t testing.TB, name string) (all []vector) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "vectors", name))
	require.NoError(t, err)
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v vector
		unmarshal(t, lines.Bytes(), &v)
		v.Label = "sglang-0.5.23"
		all = append(all, v)
	}
	require.NoError(t, lines.Err())
	return all
}

// eventVectors returns every captured KV-event message.
func eventVectors(t testing.TB) (all []vector) {
	t.Helper()
	f := readVectorFile(t)
	for _, c := range f.Captures {
		for _, v := range c.Messages {
			v.Label = c.Label
			all = append(all, v)
		}
	}
	for _, v := range append(f.Live, readLines(t, "sglang_hicache_events.jsonl")...) {
		if v.Topic != "load" {
			v.Label = "sglang-0.5.23"
			all = append(all, v)
		}
	}
	return all
}

// encodingOf returns the encoding of a capture's release.
func encodingOf(t testing.TB, label string) kvevent.Encoding {
	t.Helper()
	release, ok := strings.CutPrefix(label, "sglang-")
	if !ok {
		release = "vllm"
	}
	release, _, _ = strings.Cut(release, "-") // "0.5.23-dp2" is 0.5.23.
	enc, err := kvevent.ParseEncoding(release)
	require.NoError(t, err)
	return enc
}

func TestVectors(t *testing.T) {
	vectors := eventVectors(t)
	require.Greater(t, len(vectors), 60)
	var b kvevent.Batch // One for all messages: no trace of an earlier one may remain.
	for _, v := range vectors {
		t.Run(v.Label+"/"+v.Name+v.Source, func(t *testing.T) {
			payload := v.payload(t)
			require.NoError(t, b.Decode(payload))
			require.Zero(t, b.UnknownFields)
			require.Zero(t, b.UnknownEvents)
			require.Zero(t, b.WideTokens)
			wantBatch(t, v.want(), &b)

			got := kvevent.Append([]byte("kept"), &b, encodingOf(t, v.Label))
			require.Equal(t, hex.EncodeToString(append([]byte("kept"), payload...)), hex.EncodeToString(got))
		})
	}
}

func TestVectorsCutShort(t *testing.T) {
	var b kvevent.Batch
	for _, v := range eventVectors(t) {
		payload := v.payload(t)
		for n := 0; n < len(payload); n += 1 + n/64 {
			require.ErrorIs(t, b.Decode(payload[:n:n]), kvevent.ErrMalformed, "%s/%s cut to %d bytes", v.Label, v.Name, n)
			require.Empty(t, b.Events)
		}
		require.ErrorIs(t, b.Decode(append(payload, 0)), kvevent.ErrMalformed, "%s/%s and one byte more", v.Label, v.Name)
	}
}

func TestVectorHashes(t *testing.T) {
	f := readVectorFile(t)
	require.NotEmpty(t, f.HashVectors)
	for _, v := range f.HashVectors {
		chain := kvevent.NewChain(v.CacheSalt)
		var want []uint64
		for i, h := range v.Hashes {
			got := chain.Next(v.Tokens[i*v.PageSize : (i+1)*v.PageSize])
			digest := chain.Digest()
			require.Equal(t, h[0], hex.EncodeToString(digest[:]))
			want = append(want, signed(t, h[1]))
			require.Equal(t, want[i], got)
			chain = kvevent.ContinueChain(digest) // A chain goes on from a digest as from itself.
		}
		require.Equal(t, want, sglangHashes(v.Tokens, v.PageSize, v.CacheSalt))
		require.Equal(t, want[:1], sglangHashes(v.Tokens[:2*v.PageSize-1], v.PageSize, v.CacheSalt))
	}
}

// TestEngineHashes checks that the chain predicts the hashes of a running engine, bigrams
// excepted since none runs.
func TestEngineHashes(t *testing.T) {
	chains := map[uint64]kvevent.Chain{}
	var b kvevent.Batch
	blocks := 0
	for _, v := range eventVectors(t) {
		if v.Source == "" && v.Dec == nil {
			continue // Made-up hashes.
		}
		require.NoError(t, b.Decode(v.payload(t)))
		for _, e := range b.Events {
			chain, ok := kvevent.NewChain(string(e.CacheSalt)), !e.HasParent
			if e.HasParent {
				chain, ok = chains[e.Parent]
			}
			for i, h := range e.Hashes {
				if e.Kind != kvevent.Stored || !ok {
					break
				}
				require.Equal(t, h, chain.Next(e.Tokens[i*e.BlockSize:(i+1)*e.BlockSize]))
				chains[h] = kvevent.ContinueChain(chain.Digest())
				blocks++
			}
		}
	}
	require.Greater(t, blocks, 400)
}

func TestLoadVectors(t *testing.T) {
	all := readLines(t, "sglang_load_events.jsonl")
	for _, v := range readVectorFile(t).Live {
		if v.Topic == "load" {
			all = append(all, v)
		}
	}
	require.Greater(t, len(all), 10)
	for _, v := range all {
		var l kvevent.Load
		require.NoError(t, l.Decode(v.payload(t)))
		want := v.want()
		got := []int64{
			l.Running, l.Waiting, l.Tokens, l.MaxTotal, int64(l.Rank), l.WaitingUncached, l.TotalTokens, l.MaxRunning,
			l.PrefillUncached, l.PrefillBusyMicros,
		}
		for i, n := range got {
			require.Equal(t, int64(signed(t, want[i+1])), n)
		}
		require.Equal(t, v.PayloadHex, hex.EncodeToString(kvevent.AppendLoad(nil, &l)))
	}
}

// signed reads a JSON integer of 64 bits, signed or not, as two's complement.
func signed(t testing.TB, v any) uint64 {
	t.Helper()
	var u uint64
	n := v.(json.Number)
	if strings.HasPrefix(n.String(), "-") {
		i, err := n.Int64()
		require.NoError(t, err)
		return uint64(i)
	}
	require.NoError(t, json.Unmarshal([]byte(n), &u))
	return u
}

// bytesHash reads a hash of a vector: a number, or {"$bytes_hex": …}.
func bytesHash(t testing.TB, v any) (hash uint64, raw []byte) {
	t.Helper()
	m, ok := v.(map[string]any)
	if !ok {
		return signed(t, v), nil
	}
	raw, err := hex.DecodeString(m["$bytes_hex"].(string))
	require.NoError(t, err)
	return binary.BigEndian.Uint64(raw), raw
}

// sglangHashes returns the hashes of tokens' whole pages.
func sglangHashes(tokens []uint32, pageSize int, salt string) (hashes []uint64) {
	c := kvevent.NewChain(salt)
	for ; len(tokens) >= pageSize; tokens = tokens[pageSize:] {
		hashes = append(hashes, c.Next(tokens[:pageSize]))
	}
	return hashes
}
