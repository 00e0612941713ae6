package openai

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func join(parts [][]byte) string { return string(bytes.Join(parts, nil)) }

func TestSpliceFieldIsLast(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:               `{"a":1}`,
		` { } `:            ` { "a":1} `,
		`{"b":"}"}`:        `{"b":"}","a":1}`,
		"{ \"b\" : {} \n}": "{ \"b\" : {} \n,\"a\":1}",
	} {
		require.Equal(t, want, join(SpliceField(nil, []byte(body), []byte(`"a":1`))))
	}
}

// FuzzWalk: Members and Elements see the members of a decoder, and take valid JSON only.
func FuzzWalk(f *testing.F) {
	f.Add([]byte(` {"a":[1,{"b":null}],"c":"\"]"} `))
	f.Add([]byte(`[[],{},"x",-1e5]`))
	f.Add([]byte(`{"a":1`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var values []json.RawMessage
		end, err := Elements(b, 0, func(lo, hi int) { values = append(values, b[lo:hi:hi]) })
		var list []json.RawMessage
		if err == nil {
			require.NoError(t, json.Unmarshal(b[:end], &list))
			require.Len(t, values, len(list))
			for i := range list {
				require.Equal(t, string(list[i]), string(values[i]))
			}
			return
		}
		seen := map[string]json.RawMessage{}
		end, err = Members(b, 0, func(key []byte, lo, hi int) {
			var name string
			if json.Unmarshal(append(append([]byte{'"'}, key...), '"'), &name) == nil {
				seen[name] = b[lo:hi:hi]
			}
		})
		if err != nil {
			return
		}
		var object map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(b[:end], &object))
		require.Len(t, seen, len(object))
		for k, v := range object {
			require.Equal(t, string(v), string(seen[k]))
		}
	})
}
