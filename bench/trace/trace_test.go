package trace_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/trace"
)

func TestRead(t *testing.T) {
	got, err := trace.Read(strings.NewReader(`{"timestamp": 1027, "input_length": 700, "output_length": 3, "hash_ids": [7, 9]}

{"timestamp": 1005, "input_length": 20, "output_length": 0, "block_size": 16, "hash_ids": [1, 2], "answer_id": 77, "cached_tokens": 16, "status": 200}
{"timestamp": 1006, "input_length": 20, "output_length": 0, "block_size": 16, "hash_ids": [1, 2], "status": 503}
{"timestamp": 1006, "input_length": 20, "output_length": 9, "block_size": 16, "hash_ids": [], "status": 200}`), 0)
	require.NoError(t, err)
	assert.Equal(t, trace.Trace{Left: 2, Requests: []trace.Request{
		{Input: 20, Block: 16, IDs: []uint64{1, 2}, Answer: 77, Cached: 16},
		{At: 22 * time.Millisecond, Input: 700, Output: 3, Block: 512, IDs: []uint64{7, 9}, Cached: -1},
	}}, got)
}

func TestReadTheSlice(t *testing.T) {
	f, err := os.Open("../replay/testdata/mooncake_conversation_200.jsonl")
	require.NoError(t, err)
	defer f.Close()
	got, err := trace.Read(f, 0)
	require.NoError(t, err)
	tokens := 0
	for _, r := range got.Requests {
		tokens += r.Input
	}
	assert.Len(t, got.Requests, 200)
	assert.Equal(t, 2782179, tokens)
	first := got.Requests[0]
	assert.Equal(t, []any{6758, 500, 14, uint64(13)}, []any{first.Input, first.Output, len(first.IDs), first.IDs[13]})
}

func TestReadRefuses(t *testing.T) {
	for name, line := range map[string]string{
		"no JSON":         "{",
		"no object":       "[1]",
		"no time":         `{"input_length": 1, "output_length": 1, "hash_ids": [1]}`,
		"no length":       `{"timestamp": 0}`,
		"time in words":   `{"timestamp": "now", "input_length": 1, "output_length": 1, "hash_ids": [1]}`,
		"negative time":   `{"timestamp": -1, "input_length": 1, "output_length": 1, "hash_ids": [1]}`,
		"no prompt":       `{"timestamp": 0, "input_length": 0, "output_length": 1, "hash_ids": []}`,
		"endless prompt":  `{"timestamp": 0, "input_length": 999999999999, "output_length": 1, "hash_ids": [1]}`,
		"endless answer":  `{"timestamp": 0, "input_length": 1, "output_length": 999999999999, "hash_ids": [1]}`,
		"too few blocks":  `{"timestamp": 0, "input_length": 513, "output_length": 1, "hash_ids": [1]}`,
		"no block size":   `{"timestamp": 0, "input_length": 1, "output_length": 1, "block_size": 0, "hash_ids": [1]}`,
		"block of text":   `{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": ["x"]}`,
		"negative answer": `{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1], "answer_id": -1}`,
		"too long":        strings.Repeat("x", 5<<20),
	} {
		_, err := trace.Read(strings.NewReader("\n"+line), 0)
		require.ErrorIs(t, err, trace.ErrTrace, name)
		assert.ErrorContains(t, err, "line 2", name)
	}
	for name, text := range map[string]string{
		"nothing": "\n\n",
		"too late": `{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1]}` + "\n" +
			`{"timestamp": 7776000001, "input_length": 1, "output_length": 1, "hash_ids": [1]}`,
	} {
		_, err := trace.Read(strings.NewReader(text), 0)
		require.ErrorIs(t, err, trace.ErrTrace, name)
	}
}

// FuzzRead: a readable trace can be written again in the format's own words, and then reads as
// the same.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"timestamp": 27, "input_length": 700, "output_length": 3, "hash_ids": [7, 9]}`))
	f.Add([]byte(`{"timestamp": 5, "input_length": 20, "output_length": 0, "block_size": 16, "hash_ids": [1, 2], "answer_id": 77, "cached_tokens": 3}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := trace.Read(bytes.NewReader(data), 50)
		if err != nil {
			return
		}
		var again bytes.Buffer
		for _, r := range got.Requests {
			text, err := json.Marshal(r.IDs)
			require.NoError(t, err)
			fmt.Fprintf(&again, `{"timestamp":%d,"input_length":%d,"output_length":%d,"hash_ids":%s,"block_size":%d,"answer_id":%d`,
				r.At.Milliseconds(), r.Input, r.Output, text, r.Block, r.Answer)
			if r.Cached >= 0 {
				fmt.Fprintf(&again, `,"cached_tokens":%d`, r.Cached)
			}
			again.WriteString("}\n")
		}
		same, err := trace.Read(&again, 50)
		require.NoError(t, err)
		require.Equal(t, got.Requests, same.Requests)
	})
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int]string{0: "0", 12: "12", 123: "123", 1234: "1,234", 1234567: "1,234,567", -123456: "-123,456"} {
		assert.Equal(t, want, trace.Grouped(n))
	}
}
