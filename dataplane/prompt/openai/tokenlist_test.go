package openai_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// FuzzAppendTokens compares with encoding/json: an object with a list of ids is read alike, and all
// else is refused.
func FuzzAppendTokens(f *testing.F) {
	for _, s := range []string{
		`{"tokens":[1,2,4294967295],"count":3}`, `{"count":[{}],"tokens":[ ]}`, `{"tokens":[1],"tokens":[2]}`, `{"tokens":[1,]}`,
		`{"tokens":[01]}`, `{"tokens":[1.0]}`, `{"a":1,}`, `{"tokens":[` + strings.Repeat("12345, ", 40) + `7],"x":"\u00e9"}`, `{"tokens":[1]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		dst := []uint32{9}
		got, err := openai.AppendTokens(dst, body)
		require.Equal(t, dst[0], got[0])
		if err != nil {
			require.Equal(t, dst, got)
			return
		}
		var members map[string]json.RawMessage
		if json.NewDecoder(strings.NewReader(string(body))).Decode(&members) != nil {
			// The bytes behind the first value are ignored, and encoding/json is laxer with strings
			// and stricter with numbers elsewhere.
			return
		}
		var want []uint32
		if raw, ok := members["tokens"]; ok && json.Unmarshal(raw, &want) == nil {
			require.Equal(t, want, append([]uint32{}, got[1:]...))
		}
	})
}

// TestAppendTokensOfLongLists: lists around the sizes at which the fast path ends, read without
// growing into memory for one id a comma.
func TestAppendTokensOfLongLists(t *testing.T) {
	for n := range 300 {
		var b strings.Builder
		b.WriteString(`{"tokens":[`)
		var want []uint32
		for i := range n {
			id := uint32(i*i*i) % 150000
			want = append(want, id)
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strconv.Itoa(int(id)))
		}
		b.WriteString(`],"count":` + strconv.Itoa(n) + `}`)
		dst := make([]uint32, 0, strings.Count(b.String(), ",")+33)
		got, err := openai.AppendTokens(dst, []byte(b.String()))
		require.NoError(t, err)
		require.True(t, slices.Equal(want, got), "%d ids: %v", n, got)
		require.Equal(t, cap(dst), cap(got), "%d ids grew", n)
	}
}
