package wire_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/proxy/wire"
)

func TestParseHead(t *testing.T) {
	tests := []struct {
		name, in string
		want     wire.Head
		ok       bool
	}{
		{"nothing", "", wire.Head{}, true},
		{"a part", "GET / HTTP/1.1\r\nHost: a\r\n", wire.Head{}, true},
		{"no fields", "GET / HTTP/1.1\r\n\r\n", wire.Head{Line: []byte("GET / HTTP/1.1"), Length: -1}, true},
		{
			"a length", "HTTP/1.1 200 OK\r\nX-Content-Length: 9\r\ncontent-LENGTH:  12 \r\n\r\nrest",
			wire.Head{Line: []byte("HTTP/1.1 200 OK"), Length: 12},
			true,
		},
		{
			"a stream", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\nContent-Type: text/event-stream; charset=utf-8\r\nConnection: close\r\n\r\n",
			wire.Head{Line: []byte("HTTP/1.1 200 OK"), Length: -1, Chunked: true, Events: true, Close: true},
			true,
		},
		{
			"an old client", "POST / HTTP/1.0\r\nConnection: Keep-Alive\r\nExpect: 100-continue\r\n\r\n",
			wire.Head{Line: []byte("POST / HTTP/1.0"), Length: -1, KeepAlive: true, Continue: true},
			true,
		},
		{"a bad length", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", wire.Head{}, false},
		{"an encoding that nobody has", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", wire.Head{}, false},
		{"a line that is no field", "HTTP/1.1 200 OK\r\nhello\r\n\r\n", wire.Head{}, false},
		{"no end in sight", strings.Repeat("x", 70_000), wire.Head{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := wire.ParseHead([]byte(tt.in))
			require.Equal(t, tt.ok, ok)
			if end := strings.Index(tt.in, "\r\n\r\n"); ok && end >= 0 {
				tt.want.Size = end + 4
			}
			if ok {
				require.Equal(t, tt.want, got)
			}
		})
	}
}

// FuzzHead holds heads of answers to what net/http reads.
func FuzzHead(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
	f.Add("HTTP/1.1 503 Gone\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n")
	f.Fuzz(func(t *testing.T, in string) {
		h, ok := wire.ParseHead([]byte(in))
		if !ok || h.Size == 0 {
			return
		}
		require.LessOrEqual(t, h.Size, len(in))
		r, err := http.ReadResponse(bufio.NewReader(strings.NewReader(in)), nil)
		if err != nil || strings.Contains(in, "\n\t") || strings.Contains(in, "\n ") { // continued lines are of the past
			return
		}
		defer r.Body.Close()
		if h.Length >= 0 && len(r.Header.Values("Content-Length")) == 1 && !h.Chunked && r.ContentLength >= 0 && r.StatusCode == http.StatusOK {
			require.Equal(t, r.ContentLength, int64(h.Length), "length of %q", in)
		}
	})
}

// FuzzDechunk holds bodies in chunks to what net/http/httputil reads.
func FuzzDechunk(f *testing.F) {
	f.Add([]byte("5\r\nhello\r\n0\r\n\r\n"), 3)
	f.Add([]byte("A;x=y\r\n0123456789\r\n1\r\n!\r\n0\r\n\r\nGET /"), 7)
	f.Add([]byte("0\r\n\r\n"), 1)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		body, size, ok := wire.Dechunk(in)
		if !ok || size < 0 {
			return
		}
		want, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(in)))
		if err == nil {
			require.Equal(t, want, append([]byte{}, body...), "body of %q", in)
		}
		// A part of it is not wrong, but incomplete.
		if cut = max(0, min(cut, size-1)); cut < size {
			_, n, ok := wire.Dechunk(in[:cut])
			require.True(t, ok, "%q is incomplete, not malformed", in[:cut])
			require.Equal(t, -1, n)
		}
	})
}

func TestNumber(t *testing.T) {
	for in, want := range map[string]int{"": -1, "0": 0, "42": 42, "-1": -1, "4x": -1, "99999999999999999999": -1} {
		n, ok := wire.Number([]byte(in))
		require.Equal(t, want >= 0, ok, in)
		if ok {
			require.Equal(t, want, n, in)
		}
	}
}

// FuzzMembers holds the raw members of any JSON object to those of encoding/json.
func FuzzMembers(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":[1,2,3],"c":{"d":"]}\"","e":[{"f":null}]},"g":"x\\\"y"}`))
	f.Add([]byte(` { "input_ids" : [ ] , "stream":true } `))
	f.Add([]byte(`{"a":[1,"]"],"b":[[1],[2]]}`))
	f.Add([]byte(`{"a":null,"a":2`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var want map[string]json.RawMessage
		if json.Unmarshal(body, &want) != nil || want == nil {
			wire.Members(body, func(_, _ []byte) {}) // must not fail worse than by saying no
			return
		}
		got := map[string]string{}
		rest, ok := wire.Members(body, func(name, value []byte) {
			var s string
			require.NoError(t, json.Unmarshal(append(append([]byte{'"'}, name...), '"'), &s), "name %q", name)
			got[s] = string(value)
		})
		require.True(t, ok, "%s", body)
		require.Empty(t, bytes.TrimSpace(rest))
		require.Len(t, got, len(want))
		for name, v := range want {
			require.JSONEq(t, string(v), got[name])
		}
	})
}
