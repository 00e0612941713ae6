package mock

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzFields holds the raw members of any JSON object to those of encoding/json.
func FuzzFields(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":[1,2,3],"c":{"d":"]}\"","e":[{"f":null}]},"g":"x\\\"y"}`))
	f.Add([]byte(` { "input_ids" : [ ] , "stream":true } `))
	f.Add([]byte(`{"a":[1,"]"],"b":[[1],[2]]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var want map[string]json.RawMessage
		if json.Unmarshal(body, &want) != nil || want == nil {
			fields(body, func(_, _ []byte) {}) // must not fail worse than by saying no
			return
		}
		var lists func(v any) bool
		lists = func(v any) bool { // lists that mix numbers with what has brackets or quotes are not looked at closely
			switch v := v.(type) {
			case []any:
				for _, e := range v {
					if _, number := v[0].(float64); number {
						if _, also := e.(float64); !also {
							return false
						}
					}
					if !lists(e) {
						return false
					}
				}
			case map[string]any:
				for _, e := range v {
					if !lists(e) {
						return false
					}
				}
			}
			return true
		}
		var doc any
		require.NoError(t, json.Unmarshal(body, &doc))
		if !lists(doc) {
			return
		}
		got := map[string]string{}
		ok := fields(body, func(name, value []byte) {
			var s string
			require.NoError(t, json.Unmarshal(append(append([]byte{'"'}, name...), '"'), &s), "name %q", name)
			got[s] = string(value)
		})
		require.True(t, ok, "%s", body)
		require.Len(t, got, len(want))
		for name, v := range want {
			require.JSONEq(t, string(v), got[name])
		}
	})
}

func TestAppendTokens(t *testing.T) {
	q, ok := parseAsk(generate, []byte(`{"input_ids":[1, 22,333],"stream":false}`))
	require.True(t, ok)
	require.Equal(t, []uint32{1, 22, 333}, q.appendTokens(nil))
	q, ok = parseAsk(chat, []byte(`{"messages":[{"role":"user","content":"x"}],"max_completion_tokens":7,"stream":true}`))
	require.True(t, ok)
	require.True(t, q.stream)
	require.Equal(t, 7, q.tokens)
	long := appendText(nil, []byte("the same beginning, and more"))
	require.Equal(t, long[:4], appendText(nil, []byte("the same beginning, and more")[:16]), "tokens of a prefix are a prefix")
	for _, id := range long {
		require.Less(t, id, uint32(vocabulary))
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"stream":true}`, `{"text"`, `{"text":"a`, `{"text":"a"`} {
		_, ok := parseAsk(generate, []byte(bad))
		require.False(t, ok, "%q has no prompt", bad)
	}
}
