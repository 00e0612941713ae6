package load

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	good = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 18\r\n\r\n{\"text\":\"wordword\"}"
	sse  = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)

// chunked writes pieces as chunks, with the last one.
func chunked(pieces ...string) string {
	var b strings.Builder
	for _, p := range pieces {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(p), p)
	}
	return b.String() + "0\r\n\r\n"
}

// read feeds in, cut as r wills, and returns what is left when the answer has ended.
func readAll(t *testing.T, in string, r *rand.Rand) (*response, string, error) {
	t.Helper()
	var resp response
	held := []byte{}
	rest := []byte(in)
	for len(rest) > 0 && !resp.ended {
		n := len(rest)
		if r != nil {
			n = 1 + r.IntN(min(n, 40))
		}
		held = append(held, rest[:n]...)
		rest = rest[n:]
		used, err := resp.feed(held)
		if err != nil {
			return &resp, "", err
		}
		held = bytes.Clone(held[used:])
	}
	return &resp, string(held) + string(rest), nil
}

func TestResponse(t *testing.T) {
	tests := []struct {
		name, in string
		stream   bool
		want     error // of check
	}{
		{"an answer", strings.Replace(good, "18", "19", 1), false, nil},
		{"an answer in chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(`{"text":"wo`, `rdword"}`), false, nil},
		{"after a 100", "HTTP/1.1 100 Continue\r\n\r\n" + strings.Replace(good, "18", "19", 1), false, nil},
		{"another text", strings.Replace(good, "wordword\"}", "wordwor\"}", 1), false, errText},
		{"cut short", strings.TrimSuffix(good, "}"), false, errJSON},
		{"no JSON", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", false, errJSON},
		{"nothing", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, errJSON},
		{"a stream", sse + chunked("data: {}\n\n", "data: {}\n\ndata: [DONE]\n\n"), true, nil},
		{"a stream in small pieces", sse + chunked("data: {}\n", "\ndata: {}\n\nda", "ta: [DONE]\n", "\n"), true, nil},
		{"an event is missing", sse + chunked("data: {}\n\n", "data: [DONE]\n\n"), true, errEvents},
		{"no end mark", sse + chunked("data: {}\n\n", "data: {}\n\n", "data: {}\n\n"), true, errEnd},
		{"an empty stream", sse + chunked(), true, errEnd},
		{"no stream", strings.Replace(good, "18", "19", 1), true, errEnd},
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for i := range 200 {
				cut := random
				if i == 0 {
					cut = nil
				}
				r, rest, err := readAll(t, tt.in+"NEXT", cut)
				require.NoError(t, err)
				require.True(t, r.ended, "the end is found")
				require.Equal(t, 200, r.status)
				require.True(t, strings.HasPrefix(rest, "NEXT") || "NEXT"[4-len(rest):] == rest, "left over: %q", rest)
				require.ErrorIs(t, r.check(tt.stream, 2, []byte("wordword")), tt.want)
			}
		})
	}
}

func TestResponseRefuses(t *testing.T) {
	for _, in := range []string{
		"hello\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", "SSH-2.0 200 x\r\n\r\n", sse + "xyz\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
	} {
		_, _, err := readAll(t, in, nil)
		require.ErrorIs(t, err, errHTTP, in)
	}
}

func TestResponseUntilClosed(t *testing.T) {
	r, _, err := readAll(t, "HTTP/1.0 200 OK\r\n\r\n{\"text\":\"wordword\"}", nil)
	require.NoError(t, err)
	require.False(t, r.ended)
	require.True(t, r.closed(), "only the connection's end ends it")
	require.NoError(t, r.check(false, 2, []byte("wordword")))
	r, _, err = readAll(t, strings.Replace(good, "18", "99", 1), nil)
	require.NoError(t, err)
	require.False(t, r.closed(), "bytes are missing")
}

// FuzzResponse holds any bytes to themselves: how they are cut changes nothing.
func FuzzResponse(f *testing.F) {
	f.Add(good, uint64(1))
	f.Add(sse+chunked("data: {}\n", "\ndata: [DONE]\n\n"), uint64(2))
	f.Fuzz(func(t *testing.T, in string, seed uint64) {
		want, restWant, errWant := readAll(t, in, nil)
		got, restGot, errGot := readAll(t, in, rand.New(rand.NewPCG(seed, 0)))
		if (errWant != nil) != (errGot != nil) {
			// An answer may end before what is malformed is seen, never the other way.
			require.NoError(t, errGot, "%q", in)
			return
		}
		if errWant != nil {
			return
		}
		require.Equal(t, want.ended, got.ended, "%q", in)
		require.Equal(t, want.status, got.status, "%q", in)
		require.Equal(t, want.events, got.events, "%q", in)
		require.Equal(t, want.tail, got.tail, "%q", in)
		require.Equal(t, string(want.body), string(got.body), "%q", in)
		if want.ended {
			require.Equal(t, restWant, restGot, "%q", in)
		}
	})
}
