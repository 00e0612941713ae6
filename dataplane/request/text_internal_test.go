package request

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzAppendCompact compares with the standard library.
func FuzzAppendCompact(f *testing.F) {
	for _, s := range []string{
		`[]`, "[ {\"role\" :\t\"user\",\r\n \"content\": \"a b  c\"} ]", `{"a\\" : "\\\" x\"", "b": [1, 2.5e3, null, true]}`, ` "\\\\" `, `"`, `"\`, `x"\\`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := appendCompact([]byte("x"), raw, false) // what is not JSON must not panic either
		_ = compact(raw)
		var want bytes.Buffer
		if !json.Valid(raw) {
			return
		}
		require.NoError(t, json.Compact(&want, raw))
		require.Equal(t, "x"+want.String(), string(got))
		require.Equal(t, want.Len() == len(raw), compact(raw))
	})
}

func BenchmarkAppendCompact(b *testing.B) {
	long := bytes.Repeat([]byte(`{"role": "user", "content": "`+string(bytes.Repeat([]byte("four words of text, \\n"), 50))+`"}, `), 60)
	var dst []byte
	b.SetBytes(int64(len(long)))
	b.ReportAllocs()
	for b.Loop() {
		dst = appendCompact(dst[:0], long, false)
	}
}
