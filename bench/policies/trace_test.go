package policies_test

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

	"github.com/warmpath/warmpath/bench/policies"
)

func TestReadTrace(t *testing.T) {
	got, err := policies.ReadTrace(strings.NewReader(`{"timestamp": 27, "input_length": 700, "output_length": 3, "hash_ids": [7, 9]}

{"timestamp": 5, "input_length": 20, "output_length": 0, "block_size": 16, "hash_ids": [1, 2], "answer_id": 77}`), 0)
	require.NoError(t, err)
	assert.Equal(t, []policies.Request{
		{At: 27 * time.Millisecond, Prompt: []policies.Segment{{ID: 7, Tokens: 512}, {ID: 9, Tokens: 188}}, Output: 3},
		{At: 5 * time.Millisecond, Prompt: []policies.Segment{{ID: 1, Tokens: 16}, {ID: 2, Tokens: 4}}, Output: 1, Answer: 77},
	}, got)
	assert.Equal(t, 700, got[0].Input())
}

func TestReadTraceFile(t *testing.T) {
	f, err := os.Open("../replay/testdata/mooncake_conversation_200.jsonl")
	require.NoError(t, err)
	defer f.Close()
	got, err := policies.ReadTrace(f, 150)
	require.NoError(t, err)
	assert.Len(t, got, 150)
	// Of 150 requests of one hour hardly any is a second turn; all have the first block.
	assert.InDelta(t, 0.06, policies.Bound(got, 16), 0.03)
}

func TestReadTraceRefuses(t *testing.T) {
	for name, line := range map[string]string{
		"nothing":         "\n\n",
		"no JSON":         "{",
		"no time":         `{"input_length": 1, "output_length": 1, "hash_ids": [1]}`,
		"negative time":   `{"timestamp": -1, "input_length": 1, "output_length": 1, "hash_ids": [1]}`,
		"far future":      `{"timestamp": 99999999999, "input_length": 1, "output_length": 1, "hash_ids": [1]}`,
		"no prompt":       `{"timestamp": 0, "input_length": 0, "output_length": 1, "hash_ids": []}`,
		"endless prompt":  `{"timestamp": 0, "input_length": 999999999999, "output_length": 1, "hash_ids": [1]}`,
		"endless answer":  `{"timestamp": 0, "input_length": 1, "output_length": 999999999999, "hash_ids": [1]}`,
		"too few blocks":  `{"timestamp": 0, "input_length": 513, "output_length": 1, "hash_ids": [1]}`,
		"no block size":   `{"timestamp": 0, "input_length": 1, "output_length": 1, "block_size": 0, "hash_ids": [1]}`,
		"block of text":   `{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": ["x"]}`,
		"negative answer": `{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1], "answer_id": -1}`,
	} {
		_, err := policies.ReadTrace(strings.NewReader(line), 0)
		require.ErrorIs(t, err, policies.ErrTrace, name)
	}
	_, err := policies.ReadTrace(strings.NewReader(`{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1]}`+"\nx"), 0)
	assert.ErrorContains(t, err, "line 2")
}

// FuzzReadTrace: what is read can be written again in the format's own words, and then reads as the same.
func FuzzReadTrace(f *testing.F) {
	f.Add([]byte(`{"timestamp": 27, "input_length": 700, "output_length": 3, "hash_ids": [7, 9]}`))
	f.Add([]byte(`{"timestamp": 5, "input_length": 20, "output_length": 0, "block_size": 16, "hash_ids": [1, 2], "answer_id": 77}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := policies.ReadTrace(bytes.NewReader(data), 50)
		if err != nil {
			return
		}
		var again bytes.Buffer
		for _, r := range got {
			ids := make([]uint64, len(r.Prompt))
			for i, s := range r.Prompt {
				ids[i] = s.ID
			}
			text, err := json.Marshal(ids)
			require.NoError(t, err)
			fmt.Fprintf(&again, `{"timestamp":%d,"input_length":%d,"output_length":%d,"hash_ids":%s,"block_size":%d,"answer_id":%d}`+"\n",
				r.At.Milliseconds(), r.Input(), r.Output, text, r.Prompt[0].Tokens, r.Answer)
		}
		same, err := policies.ReadTrace(&again, 50)
		require.NoError(t, err)
		require.Equal(t, got, same)
	})
}

func TestFamilies(t *testing.T) {
	names, what := policies.Families()
	require.Len(t, what, len(names))
	for _, name := range names {
		trace, err := policies.Synthetic(name, 1, 500)
		require.NoError(t, err)
		require.Len(t, trace, 500, name)
		again, err := policies.Synthetic(name, 1, 500)
		require.NoError(t, err)
		assert.Equal(t, trace, again, "%s: the same seed gives the same trace", name)
		other, err := policies.Synthetic(name, 2, 500)
		require.NoError(t, err)
		assert.NotEqual(t, trace, other, name)
		last := time.Duration(0)
		for _, r := range trace {
			require.GreaterOrEqual(t, r.At, last, name)
			require.Positive(t, r.Input())
			require.Positive(t, r.Output)
			last = r.At
		}
		longer, err := policies.Synthetic(name, 1, 2000)
		require.NoError(t, err)
		bound := policies.Bound(longer, 16)
		assert.Greater(t, bound, 0.05, name)
		assert.Less(t, bound, 1.0, name)
	}
	_, err := policies.Synthetic("none", 1, 5)
	require.ErrorIs(t, err, policies.ErrConfig)
	_, err = policies.Synthetic("zipf", 1, 0)
	require.ErrorIs(t, err, policies.ErrConfig)
}
