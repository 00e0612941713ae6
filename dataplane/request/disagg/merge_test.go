package disagg

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func merge(t testing.TB, kind Kind, sse bool, prefill, decode string, step int) string {
	t.Helper()
	var m Merger
	require.NoError(t, m.Reset(kind, sse, []byte(prefill)))
	var out []byte
	for rest := []byte(decode); len(rest) > 0; {
		n := min(step, len(rest))
		out = m.Append(out, rest[:n:n])
		rest = rest[n:]
	}
	out = m.End(out)
	m.Release()
	return string(out)
}

func TestMerge(t *testing.T) {
	tests := []struct {
		name                  string
		kind                  Kind
		sse                   bool
		prefill, decode, want string
	}{
		{
			"generate", Generate, false,
			`{"text":"p","meta_info":{"input_token_logprobs":[[null,5,null],[-1.5,6,null]],"output_token_logprobs":[[-2,7,null]]}}`,
			`{"text":"d","meta_info":{"id":"x", "input_token_logprobs" : [ ],"output_token_logprobs":[[-2,7,null],[-3,8,null]]}}`,
			`{"text":"d","meta_info":{"id":"x", "input_token_logprobs" : [[null,5,null],[-1.5,6,null] ],"output_token_logprobs":[[-2,7,null],[-3,8,null]]}}`,
		},
		{
			"generate, decode has some", Generate, false,
			`{"meta_info":{"input_token_logprobs":[[1,1,null]]}}`,
			`{"meta_info":{"input_token_logprobs":[[2,2,null]]}}`,
			`{"meta_info":{"input_token_logprobs":[[1,1,null],[2,2,null]]}}`,
		},
		{
			"generate, all that can be asked for", Generate, false,
			`{"meta_info":{"input_token_logprobs":[[1,1,null]],"input_top_logprobs":[null],"input_token_ids_logprobs":[[3]],"output_token_ids_logprobs":[[4]]}}`,
			`{"meta_info":{"input_token_logprobs":[],"output_token_ids_logprobs":[ null,[5]],"input_token_ids_logprobs":[],"input_top_logprobs":[]}}`,
			`{"meta_info":{"input_token_logprobs":[[1,1,null]],"output_token_ids_logprobs":[ [4],[5]],"input_token_ids_logprobs":[[3]],"input_top_logprobs":[null]}}`,
		},
		{
			"generate, a batch", Generate, false,
			`[{"meta_info":{"input_token_logprobs":[1]}},{"meta_info":{"input_token_logprobs":[2]}}]`,
			`[{"meta_info":{"input_token_logprobs":[]}},{"meta_info":{"input_token_logprobs":[]}},{"meta_info":{"input_token_logprobs":[]}}]`,
			`[{"meta_info":{"input_token_logprobs":[1]}},{"meta_info":{"input_token_logprobs":[2]}},{"meta_info":{"input_token_logprobs":[]}}]`,
		},
		{
			"generate, a stream", Generate, true,
			"data: {\"meta_info\":{\"input_token_logprobs\":[1,2]}}\n\ndata: [DONE]\n\n",
			"data: {\"text\":\"a\",\"meta_info\":{\"input_token_logprobs\":[]}}\n\ndata: {\"text\":\"ab\",\"meta_info\":{\"input_token_logprobs\":[]}}\n\ndata: [DONE]\n\n",
			"data: {\"text\":\"a\",\"meta_info\":{\"input_token_logprobs\":[1,2]}}\n\ndata: {\"text\":\"ab\",\"meta_info\":{\"input_token_logprobs\":[1,2]}}\n\ndata: [DONE]\n\n",
		},
		{
			"generate, a stream of a batch", Generate, true,
			"data: {\"meta_info\":{\"input_token_logprobs\":[1]},\"index\":1}\n\ndata: {\"meta_info\":{\"input_token_logprobs\":[0]},\"index\":0}\n\n",
			"data: {\"meta_info\":{\"input_token_logprobs\":[]},\"index\":0}\n\ndata: {\"meta_info\":{\"input_token_logprobs\":[]},\"index\":1}\n\n",
			"data: {\"meta_info\":{\"input_token_logprobs\":[0]},\"index\":0}\n\ndata: {\"meta_info\":{\"input_token_logprobs\":[1]},\"index\":1}\n\n",
		},
		{
			"generate, an error on the way", Generate, true,
			"data: {\"meta_info\":{\"input_token_logprobs\":[1]}}\n\n",
			"data: {\"error\":{\"message\":\"x\"}}\n\ndata: {\"meta_info\":{\"inp",
			"data: {\"error\":{\"message\":\"x\"}}\n\ndata: {\"meta_info\":{\"inp",
		},
		{
			"echo", Echo, false,
			`{"choices":[{"index":0,"text":"ab","logprobs":{"text_offset":[-1,-1],"token_logprobs":[null,-2.5],"tokens":["a","b"],"top_logprobs":[null,{"b":-2.5}]}}],"usage":{"completion_tokens":1}}`,
			`{"choices":[{"index":0,"text":"abc","logprobs":{"text_offset":[-1,-1],"token_logprobs":[-2.5,-3],"tokens":["b","c"],"top_logprobs":[{"b":-2.5},{"c":-3}]}}]}`,
			`{"choices":[{"index":0,"text":"abc","logprobs":{"text_offset":[-1,-1,-1],"token_logprobs":[null,-2.5,-3],"tokens":["a","b","c"],"top_logprobs":[null,{"b":-2.5},{"c":-3}]}}]}`,
		},
		{
			"echo, a stream", Echo, true,
			`data: {"choices":[{"index":0,"text":"ab","logprobs":{"tokens":["a","b"],"token_logprobs":[null,-2]}}]}` + "\n\ndata: [DONE]\n\n",
			`data: {"choices":[{"index":0,"text":"ab","logprobs":{"tokens":["b"],"token_logprobs":[-2]}}]}` + "\n\n" +
				`data: {"choices":[{"index":0,"text":"c","logprobs":{"tokens":["c"],"token_logprobs":[-3]}}]}` + "\n\ndata: [DONE]\n\n",
			`data: {"choices":[{"index":0,"text":"ab","logprobs":{"tokens":["a","b"],"token_logprobs":[null,-2]}}]}` + "\n\n" +
				`data: {"choices":[{"index":0,"text":"c","logprobs":{"tokens":["c"],"token_logprobs":[-3]}}]}` + "\n\ndata: [DONE]\n\n",
		},
		{
			"echo, one choice has none", Echo, false,
			`{"choices":[{"index":0,"logprobs":{"tokens":["a","b"]}},{"index":1,"logprobs":null}]}`,
			`{"choices":[{"index":0,"logprobs":{"tokens":["b"]}},{"index":1,"logprobs":null}]}`,
			`{"choices":[{"index":0,"logprobs":{"tokens":["a","b"]}},{"index":1,"logprobs":null}]}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, step := range []int{1, 7, 1 << 20} {
				assert.Equal(t, tt.want, merge(t, tt.kind, tt.sse, tt.prefill, tt.decode, step))
			}
		})
	}
}

func TestMergeNeedsLogprobs(t *testing.T) {
	for _, prefill := range []string{"", "{}", "[]", "nonsense", `{"meta_info":{}}`, `{"meta_info":{"input_token_logprobs":[1]`} {
		var m Merger
		require.ErrorIs(t, m.Reset(Generate, false, []byte(prefill)), ErrNoLogprobs, prefill)
	}
	var m Merger
	require.ErrorIs(t, m.Reset(Generate, true, []byte("data: [DONE]\n\n")), ErrNoLogprobs)
	require.ErrorIs(t, m.Reset(Echo, false, []byte(`{"choices":[{"logprobs":null}]}`)), ErrNoLogprobs)
}

func TestMergerIsReused(t *testing.T) {
	prefill := []byte(`{"meta_info":{"input_token_logprobs":[[null,5,null],[-1.5,6,null]]}}`)
	decode := []byte(`{"text":"d","meta_info":{"input_token_logprobs":[]}}`)
	var m Merger
	dst := make([]byte, 0, 1024)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if m.Reset(Generate, false, prefill) != nil {
			panic("no log probabilities")
		}
		dst = m.Append(dst[:0], decode)
		dst = m.End(dst)
	}))
}

// naive decodes both answers and merges as SGLang's own load balancer does.
func naive(prefill, decode any, names ...string) {
	p, _ := prefill.(map[string]any)
	d, _ := decode.(map[string]any)
	pm, _ := p["meta_info"].(map[string]any)
	dm, _ := d["meta_info"].(map[string]any)
	for _, name := range names {
		before, _ := pm[name].([]any)
		if after, ok := dm[name].([]any); ok {
			dm[name] = append(append([]any{}, before...), after...)
		}
	}
}

// FuzzMerge compares with decoding, joining and encoding both answers, for any lists and any cut of
// the answer.
func FuzzMerge(f *testing.F) {
	f.Add(`[[null,5,null],[-1.5,6,"a"]]`, `[]`, ` {"x":"]"} `, 5)
	f.Add(`[]`, `[[1]]`, `"\\\""`, 1)
	f.Add(`[1]`, `[2, 3]`, `null`, 1000)
	f.Fuzz(func(t *testing.T, before, after, other string, step int) {
		var lists [2][]any
		if json.Unmarshal([]byte(before), &lists[0]) != nil || json.Unmarshal([]byte(after), &lists[1]) != nil ||
			lists[0] == nil || lists[1] == nil || !json.Valid([]byte(other)) || step < 1 {
			t.Skip()
		}
		if strings.ContainsAny(before+after+other, "\r\n") { // no event holds a line break
			t.Skip()
		}
		doc := func(list string) string {
			return fmt.Sprintf(`{"text":%s,"meta_info":{"a":%s,"input_token_logprobs":%s,"z":[%s]}}`, other, other, list, other)
		}
		var p, d, got any
		require.NoError(t, json.Unmarshal([]byte(doc(before)), &p))
		require.NoError(t, json.Unmarshal([]byte(doc(after)), &d))
		naive(p, d, "input_token_logprobs")
		var m Merger
		if m.Reset(Generate, false, []byte(doc(before))) != nil {
			t.Skip() // deeper than SGLang reads, or no UTF-8
		}
		out := merge(t, Generate, false, doc(before), doc(after), step)
		require.NoError(t, json.Unmarshal([]byte(out), &got), "%s", out)
		require.Equal(t, d, got)

		stream := "data: " + doc(after) + "\n\ndata: [DONE]\n\n"
		events := merge(t, Generate, true, "data: "+doc(before)+"\n\n", stream, step)
		require.Equal(t, "data: "+out+"\n\ndata: [DONE]\n\n", events)
	})
}

func BenchmarkMerge(b *testing.B) {
	list := func(n int) string {
		var s bytes.Buffer
		for i := range n {
			fmt.Fprintf(&s, "[-6.%d,%d,null],", i, i)
		}
		return strings.TrimSuffix(s.String(), ",")
	}
	prefill := []byte(`{"text":"p","meta_info":{"input_token_logprobs":[` + list(8192) + `]}}`)
	decode := []byte(`{"text":"d","meta_info":{"input_token_logprobs":[],"output_token_logprobs":[` + list(256) + `]}}`)
	var m Merger
	var dst []byte
	b.SetBytes(int64(len(prefill) + len(decode)))
	for b.Loop() {
		_ = m.Reset(Generate, false, prefill)
		dst = m.End(m.Append(dst[:0], decode))
	}
}
