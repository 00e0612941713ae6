package request_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func gzipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

func zstded(t testing.TB, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return string(w.EncodeAll([]byte(text), nil))
}

// TestCompressedBodies: workers get the plain body, and what cannot be read is refused.
func TestCompressedBodies(t *testing.T) {
	t.Parallel()
	w := newFakeWorker(t, info(1))
	var fields http.Header
	w.On("/generate", func(rw http.ResponseWriter, r *http.Request) {
		fields = r.Header
		givesReply(rw, r)
	})
	h := start(t, []*fakeWorker{w})
	long := `{"text":"` + strings.Repeat("many words ", 10_000) + `"}`
	bomb := strings.Repeat(" ", 8<<20)
	for name, c := range map[string]struct {
		body   string
		plain  string // what the worker gets; "": nothing
		status int
		header []string
	}{
		"plain":               {idsBody, idsBody, 200, nil},
		"identity":            {idsBody, idsBody, 200, []string{"Content-Encoding", "identity"}},
		"gzip":                {gzipped(t, idsBody), idsBody, 200, []string{"Content-Encoding", "gzip"}},
		"zstd":                {zstded(t, long), long, 200, []string{"Content-Encoding", "ZSTD"}},
		"SGLang's own header": {zstded(t, idsBody), idsBody, 200, []string{"X-Body-Compressed", "zstd"}},
		"brotli":              {idsBody, "", 415, []string{"Content-Encoding", "br"}},
		"twice":               {gzipped(t, gzipped(t, idsBody)), "", 415, []string{"Content-Encoding", "gzip, gzip"}},
		"both headers":        {zstded(t, idsBody), "", 415, []string{"Content-Encoding", "zstd", "X-Body-Compressed", "zstd"}},
		"not compressed":      {idsBody, "", 400, []string{"Content-Encoding", "gzip"}},
		"cut":                 {zstded(t, long)[:40], "", 400, []string{"Content-Encoding", "zstd"}},
		"no JSON inside":      {gzipped(t, "hello"), "", 400, []string{"Content-Encoding", "gzip"}},
		"a bomb":              {gzipped(t, bomb), "", 413, []string{"Content-Encoding", "gzip"}},
		"a small bomb":        {zstded(t, bomb), "", 413, []string{"X-Body-Compressed", "zstd"}},
		"a large window":      {"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00", "", 413, []string{"Content-Encoding", "zstd"}},
	} {
		before := len(w.Bodies())
		resp, answer, err := h.Try(http.MethodPost, h.Base+"/generate", c.body, c.header...)
		require.NoError(t, err, name)
		assert.Equal(t, c.status, resp.StatusCode, "%s: %s", name, answer)
		assert.Equal(t, c.status == 415, resp.Header.Get("Accept-Encoding") != "", name)
		if c.plain == "" {
			assert.Len(t, w.Bodies(), before, name)
			continue
		}
		got := w.LastBody()
		assert.True(t, strings.HasPrefix(got, c.plain[:len(c.plain)-1]), "%s: %.80s", name, got)
		if name != "identity" {
			assert.Empty(t, fields.Get("Content-Encoding")+fields.Get("X-Body-Compressed"), name)
		}
	}
}
