package upstream

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEventsArePassedWhole(t *testing.T) {
	long := "data: " + strings.Repeat("x", maxEvent)
	tests := []struct {
		name   string
		pieces []string
		sent   []string // by piece
		held   string
		ends   string // of a broken one
	}{
		{"whole", []string{"data: 1\n\n"}, []string{"data: 1\n\n"}, "", ""},
		{"CRLF", []string{"data: 1\r\n\r\n"}, []string{"data: 1\r\n\r\n"}, "", ""},
		{"CR", []string{"data: 1\r\rdata"}, []string{"data: 1\r\r"}, "data", ""},
		{"LF and CRLF", []string{"data: 1\n\r\ndata"}, []string{"data: 1\n\r\n"}, "data", ""},
		{"one and a half", []string{"data: 1\n\ndata: 2", "\n\n"}, []string{"data: 1\n\n", "data: 2\n\n"}, "", ""},
		{"a cut in the empty line", []string{"data: 1\n", "\ndata: 2"}, []string{"", "data: 1\n\n"}, "data: 2", ""},
		{"cuts in CRLFs", []string{"data: 1\r", "\n", "\r", "\n"}, []string{"", "", "data: 1\r\n\r", ""}, "\n", ""},
		{"several lines", []string{"event: a\ndata: 1\n", "data: 2\n\n"}, []string{"", "event: a\ndata: 1\ndata: 2\n\n"}, "", ""},
		{"a comment", []string{": ping\n\n"}, []string{": ping\n\n"}, "", ""},
		{"too long", []string{long, "yz", "y\n", "\n", "data: 1"}, []string{long, "yz", "y", "\n\n", ""}, "data: 1", ""},
		{"too long and cut", []string{long, "y\n"}, []string{long, "y"}, "\n", "\n\n"},
		{"lines only", []string{"data: 1\n", "data: 2\n"}, []string{"", ""}, "data: 1\ndata: 2\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := events{on: true}
			for i, p := range tt.pieces {
				require.Equal(t, tt.sent[i], string(v.pass([]byte(p))), "piece %d", i)
			}
			require.Equal(t, tt.held, string(v.end()))
			require.Equal(t, tt.ends, string(v.breakOff()))
			require.Empty(t, v.end())
		})
	}
}

// TestLinesArePassedWhole: of a stream of lines, each is an event.
func TestLinesArePassedWhole(t *testing.T) {
	t.Parallel()
	v := events{on: true, lines: true}
	for _, piece := range [][2]string{{"{1}\n", "{1}\n"}, {"{2}\n{", "{2}\n"}, {"3", ""}, {"}\n", "{3}\n"}, {"{4", ""}} {
		require.Equal(t, piece[1], string(v.pass([]byte(piece[0]))), piece[0])
	}
	require.Equal(t, "{4", string(v.end()))
	require.Nil(t, v.breakOff(), "the client has no part of it")
	long := strings.Repeat("x", maxEvent+1)
	require.Equal(t, long, string(v.pass([]byte(long))))
	require.Equal(t, "\n", string(v.breakOff()))
}

// FuzzEvents cuts a stream anywhere: all bytes pass in order, and unless an event is too long,
// all that has passed ends with an empty line.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("data: 1\n\ndata: 2\r\n\r\nevent: x\ndata: 3\r\r"), uint64(1))
	f.Add([]byte("\n\r\n\r\r\r\n\n"), uint64(2))
	f.Fuzz(func(t *testing.T, p []byte, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		v := events{on: true}
		var out []byte
		for rest := p; len(rest) > 0; {
			n := 1 + rng.IntN(min(len(rest), 9))
			out = append(out, v.pass(bytes.Clone(rest[:n]))...)
			rest = rest[n:]
			require.True(t, bytes.HasPrefix(p, out))
			require.Equal(t, p[:len(p)-len(rest)], append(bytes.Clone(out), v.end()...))
			if len(p) > maxEvent || len(out) == 0 {
				continue
			}
			require.True(t, endsBlank(out), "%q", out)
			require.NotContains(t, string(bytes.TrimLeft(v.end(), "\r\n")), "\n\n")
		}
	})
}

// endsBlank is the naive reading: the last line is empty, and there is one before it.
func endsBlank(p []byte) bool {
	s := strings.ReplaceAll(strings.ReplaceAll(string(p), "\r\n", "\n"), "\r", "\n")
	return strings.HasSuffix(s, "\n\n")
}
