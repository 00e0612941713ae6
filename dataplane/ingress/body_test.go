package ingress_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/ingress/ingresstest"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

const (
	sized   = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: "
	chunked = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
)

// summary answers with the length and the beginning of the body, and the fields named X.
func summary(ctx *fasthttp.RequestCtx) {
	body := ctx.Request.Body()
	fmt.Fprintf(ctx, "%d of %.8s%s", len(body), body, ctx.Request.Header.Peek("X"))
}

// large allows bodies of 64 MiB.
func large(c *ingress.Config) { c.MaxBody = func() int { return 64 << 20 } }

// TestLyingLengths: clients that announce long bodies and send little of them get little
// memory.
func TestLyingLengths(t *testing.T) { tlstest.OverBoth(t, testLyingLengths) }

func testLyingLengths(t *testing.T) {
	t.Helper()
	const liars, size = 100, 60 << 20
	for name, send := range map[string]string{
		"a length":       sized + strconv.Itoa(size) + "\r\n\r\n[1,2,3,4",
		"a chunk":        chunked + "\r\n3c00000\r\n[1,2,3,4",
		"a second chunk": chunked + "\r\n1\r\n[\r\n3bfffff\r\n1,2,3,4",
		"after a 100":    strings.Replace(sized, "Host", "Expect: 100-continue\r\nHost", 1) + strconv.Itoa(size) + "\r\n\r\n[1,2",
		"behind another": sized + "1\r\n\r\nx" + sized + strconv.Itoa(size) + "\r\n\r\n[1,2,3,4",
	} {
		t.Run(name, func(t *testing.T) {
			ln := ingresstest.Listen(t)
			ingresstest.StartServer(t, ln, summary, large)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range liars {
				conn, _ := dial(t, ln)
				say(t, conn, send)
			}
			conn, br := dial(t, ln) // an honest one beside them
			body := strings.Repeat("ab", 1<<20)
			go func() { _, _ = io.WriteString(conn, sized+strconv.Itoa(len(body))+"\r\n\r\n"+body) }()
			_, got := answer(t, br)
			assert.Equal(t, fmt.Sprintf("%d of abababab", len(body)), got)
			runtime.ReadMemStats(&after)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(liars*size/20), "bytes allocated for promises")
		})
	}
}

// TestBodies: bodies of all sizes arrive, in pieces of any size, and the next request behind
// them is found. A client that leaves in the middle ends its connection.
func TestBodies(t *testing.T) { tlstest.OverBoth(t, testBodies) }

func testBodies(t *testing.T) {
	t.Helper()
	ln := ingresstest.Listen(t)
	ingresstest.StartServer(t, ln, summary, large)
	for _, size := range []int{0, 1, 2, 8 << 10, 8<<10 + 1, 16<<10 - 1, 16 << 10, 17 << 10, 1 << 20, 4<<20 + 1, 17 << 20} {
		conn, br := dial(t, ln)
		body := strings.Repeat("ab", size/2+1)[:size]
		want := fmt.Sprintf("%d of %.8s", size, body)
		send := sized + strconv.Itoa(size) + "\r\n\r\n" + body
		coded := chunked + "\r\n"
		if size > 0 {
			coded += fmt.Sprintf("1\r\n%s\r\n%x\r\n%s\r\n", body[:1], size-1, body[1:])
			if size == 1 {
				coded = chunked + "\r\n1\r\na\r\n0\r\n\r\n"
			}
		}
		if size != 1 {
			coded += "0\r\n\r\n"
		}
		all := send + coded + send
		for _, step := range []int{len(all), 1 << 20, 1000} {
			if step < 1<<20 && size > 1<<20 {
				continue
			}
			go func() {
				for rest := all; len(rest) > 0; rest = rest[min(step, len(rest)):] {
					_, _ = io.WriteString(conn, rest[:min(step, len(rest))])
				}
			}()
			for range 3 {
				status, got := answer(t, br)
				require.Equal(t, http.StatusOK, status, got)
				require.Equal(t, want, got)
			}
		}
		if size == 0 {
			continue
		}
		for _, part := range []string{send[:len(send)-1], coded[:len(coded)-1], coded[:len(coded)-8]} {
			conn, br := dial(t, ln)
			go func() {
				_, _ = io.WriteString(conn, part)
				_ = conn.(interface{ CloseWrite() error }).CloseWrite()
			}()
			got, _ := io.ReadAll(br)
			require.NotContains(t, string(got), "200 OK", "%d bytes, cut", size)
		}
	}
}

// TestTrailers: the trailer of an upload is no part of the head.
func TestTrailers(t *testing.T) {
	ln := ingresstest.Listen(t)
	ingresstest.StartServer(t, ln, summary)
	conn, br := dial(t, ln)
	for send, want := range map[string]string{
		chunked + "X: head\r\n\r\n1\r\nx\r\n0\r\nX: behind\r\nY: 1\r\n\r\n": "1 of xhead",
		chunked + "Trailer: X\r\n\r\n1\r\nx\r\n0\r\nX: behind\r\n\r\n":      "1 of x",
		chunked + "\r\n1;a=b\r\nx\r\n00A ; c\r\n0123456789\r\n0\r\n\r\n":    "",
	} {
		say(t, conn, send)
		if want == "" { // a space before an extension is for nobody
			status, _ := answer(t, br)
			require.Equal(t, http.StatusBadRequest, status)
			conn, br = dial(t, ln)
			continue
		}
		status, got := answer(t, br)
		require.Equal(t, http.StatusOK, status, got)
		require.Equal(t, want, got)
	}
}

// TestBadUploads: chunks that cannot be read are refused, and the connection ends: bytes behind
// them are no request.
func TestBadUploads(t *testing.T) { tlstest.OverBoth(t, testBadUploads) }

func testBadUploads(t *testing.T) {
	t.Helper()
	ln := ingresstest.Listen(t)
	ingresstest.StartServer(t, ln, func(ctx *fasthttp.RequestCtx) { t.Errorf("served: %.100q", ctx.Request.Body()) })
	for name, tt := range map[string]struct {
		send   string
		status int
	}{
		"more than a body may have":    {"200000\r\n" + strings.Repeat(" ", 0x180000), 413},
		"a chunk beyond all numbers":   {"10000000000000000\r\n", 400},
		"no size":                      {"\r\n", 400},
		"no number":                    {"x\r\n", 400},
		"a sign":                       {"+1\r\nx\r\n", 400},
		"no end of a chunk":            {"1\r\nxy\r\n", 400},
		"a bare LF behind a size":      {"1\nx\r\n", 400},
		"a bare LF behind a chunk":     {"1\r\nx\n", 400},
		"a bare CR in an extension":    {"1;\rx\r\n", 400},
		"a bare LF in an extension":    {"1;x\nx\r\n", 400},
		"endless zeros":                {strings.Repeat("0", 5000), 400},
		"an endless extension":         {"1;" + strings.Repeat("x", 100_000), 400},
		"endless extensions":           {strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\n[\r\n", 100), 400},
		"a length behind the body":     {"0\r\nContent-Length: 3\r\n\r\n", 400},
		"a coding behind the body":     {"0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		"no field behind the body":     {"0\r\nnonsense\r\n\r\n", 400},
		"a zero byte in a trailer":     {"0\r\nX: \x00\r\n\r\n", 400},
		"a trailer without end":        {"0\r\nX: " + strings.Repeat("x", 20<<10), 431},
		"a trailer of too many fields": {"0\r\n" + strings.Repeat("X: 1\r\n", 3000), 431},
	} {
		t.Run(name, func(t *testing.T) {
			conn, br := dial(t, ln)
			go func() { _, _ = io.WriteString(conn, chunked+"\r\n"+tt.send+ask) }()
			r, err := http.ReadResponse(br, nil)
			require.NoError(t, err)
			_, _ = io.Copy(io.Discard, r.Body)
			require.Equal(t, tt.status, r.StatusCode)
			require.True(t, r.Close)
			_, err = br.ReadByte()
			require.Error(t, err, "the connection goes on")
		})
	}
}

// TestSlowUploads: a client that sends next to nothing of a request is told so, and its
// connection ends, wherever the request stopped.
func TestSlowUploads(t *testing.T) { tlstest.OverBoth(t, testSlowUploads) }

func testSlowUploads(t *testing.T) {
	t.Helper()
	for name, send := range map[string]string{
		"a line":      "POS",
		"a head":      "POST / HTTP/1.1\r\nHost: x\r\n",
		"a body":      sized + "50\r\n\r\nhalf",
		"no body":     sized + "50\r\n\r\n",
		"a long body": sized + "50000\r\n\r\n" + strings.Repeat("x", 5000),
		"a chunk":     chunked + "\r\n50\r\nhel",
		"chunks":      chunked + "\r\n5\r\nhello\r\n",
		"a size":      chunked + "\r\n5",
		"a trailer":   chunked + "\r\n0\r\nX: ",
		"after a 100": strings.Replace(sized, "Host", "Expect: 100-continue\r\nHost", 1) + "2\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			var err error
			for grace := 200 * time.Millisecond; grace < ingresstest.Patience; grace *= 5 { // a busy machine may take longer for a handshake
				ln := ingresstest.Listen(t)
				ingresstest.StartServer(t, ln, echo, withLimits(ingress.Limits{Arrival: grace}))
				if err = askSlowly(t, ln, send); err == nil {
					return
				}
			}
			t.Error(err)
		})
	}
}

// askSlowly sends a whole request and the beginning of another one. It wants an answer to the
// first, 408 for the second, and the end.
func askSlowly(t *testing.T, ln net.Listener, send string) error {
	t.Helper()
	conn, br := dial(t, ln)
	if _, err := io.WriteString(conn, ask+send); err != nil {
		return err
	}
	for _, want := range []int{http.StatusOK, http.StatusRequestTimeout} {
		r, err := http.ReadResponse(br, nil)
		if err == nil && r.StatusCode == http.StatusContinue {
			r, err = http.ReadResponse(br, nil)
		}
		if err != nil {
			return err
		}
		if r.StatusCode != want {
			return fmt.Errorf("%w: %s, want %d", errUnwanted, r.Status, want)
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}
	if _, err := br.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %w, want the end", errUnwanted, err)
	}
	return nil
}
