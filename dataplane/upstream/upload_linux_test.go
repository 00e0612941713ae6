package upstream_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	chunkedHead = "POST /generate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
	oddHead     = "POST /generate HTTP/1.1\r\nHost: x\r\nX: \xff\r\n"
)

// TestLyingLengths: who says that a long body comes, and sends little of it, gets little memory, however he says it.
func TestLyingLengths(t *testing.T) { overBoth(t, testLyingLengths) }

func testLyingLengths(t *testing.T) {
	t.Helper()
	const liars, size = 100, 60 << 20
	said := fmt.Sprintf("Content-Length: %d\r\n", size)
	tests := map[string]string{
		"a length":                 plainHead + strconv.Itoa(size) + "\r\n\r\n[1,2,3,4",
		"a chunk":                  chunkedHead + "3c00000\r\n[1,2,3,4",
		"a second chunk":           chunkedHead + "1\r\n[\r\n3bfffff\r\n1,2,3,4",
		"an odd head":              oddHead + said + "\r\n[1,2,3,4",
		"an odd head, and a chunk": oddHead + "Transfer-Encoding: chunked\r\n\r\n3c00000\r\n[1,2,3,4",
		"an odd head that asks":    oddHead + "Expect: 100-continue\r\n" + said + "\r\n",
		"behind another one":       "GET / HTTP/1.1\r\nHost: x\r\n\r\n" + oddHead + said + "\r\n[1,2,3,4",
		"behind a body":            oddHead + "Content-Length: 1\r\n\r\nx" + oddHead + said + "\r\n[1,2,3,4",
	}
	for name, send := range tests {
		t.Run(name, func(t *testing.T) {
			w := startWorker(t, repeat)
			r := startPlain(t, w.addr())
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range liars {
				_, err := io.WriteString(r.dial(t), send)
				require.NoError(t, err)
			}
			conn, body := r.dial(t), strings.Repeat("ab", 1<<20) // an honest one beside them
			go func() { _, _ = io.WriteString(conn, fmt.Sprintf("%s%d\r\n\r\n%s", plainHead, len(body), body)) }()
			within(t, "answer of the honest client", func() {
				got, _ := answered(t, bufio.NewReader(conn))
				assert.Equal(t, fmt.Sprintf("%d of abababab", len(body)), got)
			})
			runtime.ReadMemStats(&after)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(liars*size/20), "bytes allocated for promises")
		})
	}
}

// TestChunks: a chunked body reaches the worker with its length, in whatever pieces it comes, and the next request behind it is found.
func TestChunks(t *testing.T) { overBoth(t, testChunks) }

func testChunks(t *testing.T) {
	t.Helper()
	w := startWorker(t, repeat)
	r := startPlain(t, w.addr())
	big := strings.Repeat("0123456789", 40_000)
	asks := []struct{ ask, want string }{
		{chunkedHead + "2\r\n{}\r\n0\r\n\r\n", "2 of {}"},
		{chunkedHead + "0\r\n\r\n", "0 of "},
		{chunkedHead + "1;a=b\r\nx\r\n00A ; c=\"d\"\r\n0123456789\r\n0\r\nX-Sum: 1\r\nX-Other: \xc3\xa9\r\n\r\n", "11 of x0123456"},
		{chunkedHead + fmt.Sprintf("%x\r\n%s\r\n%X\r\n%s\r\n0;end\r\n\r\n", len(big), big, 10, big[:10]), fmt.Sprintf("%d of 01234567", len(big)+10)},
		{strings.Replace(chunkedHead, "\r\n\r\n", "\r\nTrailer: X-Sum\r\n\r\n", 1) + "1\r\nx\r\n0\r\nX-Sum: 1\r\n\r\n", "1 of x"},
		{plainHead + "2\r\n\r\n{}", "2 of {}"},
	}
	var all strings.Builder
	for _, a := range asks {
		all.WriteString(a.ask)
	}
	for _, step := range []int{all.Len(), 3, 1000, 16 << 10} {
		conn := r.dial(t)
		before := r.plain.Load()
		go func() {
			for rest := all.String(); len(rest) > 0; rest = rest[min(step, len(rest)):] {
				if _, err := io.WriteString(conn, rest[:min(step, len(rest))]); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		br := bufio.NewReader(conn)
		for _, a := range asks {
			got, _ := answered(t, br)
			require.Equal(t, a.want, got, "%.80q by %d", a.ask, step)
		}
		assert.EqualValues(t, len(asks), r.plain.Load()-before)
	}
}

// TestBadUploads: what cannot be read is refused as soon as that is known, with the status that says why, and the connection ends.
func TestBadUploads(t *testing.T) { overBoth(t, testBadUploads) }

func testBadUploads(t *testing.T) {
	t.Helper()
	w := startWorker(t, repeat)
	r := startPlain(t, w.addr())
	odd := strings.Replace(chunkedHead, "Host", "X: \xff\r\nHost", 1)
	tests := map[string]struct {
		send   string
		status int
	}{
		"a chunk too large":            {"5000001\r\n", 413},
		"a chunk beyond all bodies":    {"7fffffffffffffff\r\n", 413},
		"a chunk beyond all numbers":   {"10000000000000000\r\n", 400},
		"no size":                      {"\r\n", 400},
		"no number":                    {"x\r\n", 400},
		"a sign":                       {"+1\r\nx\r\n", 400},
		"no end of a chunk":            {"1\r\nxy\r\n", 400},
		"a bare LF behind a size":      {"1\nx\r\n", 400},
		"a bare LF behind a chunk":     {"1\r\nx\n", 400},
		"a bare CR in an extension":    {"1;\rx\r\n", 400},
		"an endless extension":         {"1;" + strings.Repeat("x", 5000), 400},
		"endless zeros":                {strings.Repeat("0", 5000), 400},
		"endless extensions":           {strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\n[\r\n", 30), 400},
		"a length behind the body":     {"0\r\nContent-Length: 3\r\n\r\n", 400},
		"a coding behind the body":     {"0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		"no field behind the body":     {"0\r\nnonsense\r\n\r\n", 400},
		"a space in a trailer's name":  {"0\r\nX : 1\r\n\r\n", 400},
		"a zero byte in a trailer":     {"0\r\nX: \x00\r\n\r\n", 400},
		"a bare LF in a trailer":       {"0\r\nX: 1\nY: 2\r\n\r\n", 400},
		"a trailer without end":        {"0\r\nX: " + strings.Repeat("x", 20<<10), 431},
		"a trailer of too many fields": {"0\r\n" + strings.Repeat("X: 1\r\n", 3000), 431},
	}
	const smuggled = "POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
	for name, tt := range tests {
		for _, head := range []string{chunkedHead, odd} {
			if head == odd && (strings.Contains(name, "trailer") || strings.Contains(name, "behind the body")) {
				continue // fasthttp says it in its own way
			}
			conn := r.dial(t)
			before := r.plain.Load()
			go func() { _, _ = io.WriteString(conn, head+tt.send+smuggled) }()
			br := bufio.NewReader(conn)
			_, resp := answered(t, br)
			assert.Equal(t, tt.status, resp.StatusCode, name)
			assert.True(t, resp.Close, name)
			_, err := br.ReadByte()
			assert.Error(t, err, "%s: the connection goes on", name)
			assert.Equal(t, before, r.plain.Load(), "%s: it was answered", name)
			conn.Close()
		}
	}
}

// TestAmbiguousRequests: of what two servers might read in two ways, nothing is read.
func TestAmbiguousRequests(t *testing.T) { overBoth(t, testAmbiguousRequests) }

func testAmbiguousRequests(t *testing.T) {
	t.Helper()
	r := startPlain(t, startWorker(t, repeat).addr())
	for name, send := range map[string]string{
		"a length and chunks":        strings.Replace(chunkedHead, "\r\n\r\n", "\r\nContent-Length: 5\r\n\r\n", 1) + "0\r\n\r\n",
		"chunks and a length":        strings.Replace(chunkedHead, "Host", "Content-Length: 5\r\nHost", 1) + "0\r\n\r\n",
		"a bare LF":                  "POST /generate HTTP/1.1\nHost: x\nContent-Length: 0\n\n",
		"one of another kind":        "GET /\nHost: x",
		"a bare LF behind a field":   "POST /generate HTTP/1.1\r\nHost: x\r\nX: y\nContent-Length: 0\r\n\r\n",
		"a bare LF before a request": "\nPOST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
		"a bare LF after the fields": "POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\n",
	} {
		conn := r.dial(t)
		go func() { _, _ = io.WriteString(conn, send) }()
		br := bufio.NewReader(conn)
		within(t, name, func() {
			_, resp := answered(t, br)
			assert.Equal(t, http.StatusBadRequest, resp.StatusCode, name)
			_, err := br.ReadByte()
			assert.Error(t, err, name)
		})
	}
	assert.Zero(t, r.plain.Load())
}

// TestExpectedBodies: a client that asks is told to go on, once, and one that does not wait is not.
func TestExpectedBodies(t *testing.T) { overBoth(t, testExpectedBodies) }

func testExpectedBodies(t *testing.T) {
	t.Helper()
	r := startPlain(t, startWorker(t, repeat).addr())
	conn := r.dial(t)
	br := bufio.NewReader(conn)
	for head, body := range map[string]string{
		plainHead + "2\r\nExpect: 100-continue\r\n\r\n":                         "{}",
		strings.Replace(chunkedHead, "Host", "Expect: 100-Continue\r\nHost", 1): "2\r\n{}\r\n0\r\n\r\n",
	} {
		_, err := io.WriteString(conn, head)
		require.NoError(t, err)
		for _, want := range []string{"HTTP/1.1 100 Continue\r\n", "\r\n"} {
			line, err := br.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, want, line)
		}
		for _, send := range []string{body, head + body} {
			_, err = io.WriteString(conn, send)
			require.NoError(t, err)
			got, resp := answered(t, br)
			require.Equal(t, "2 of {}", got)
			require.Equal(t, http.StatusOK, resp.StatusCode)
		}
	}
	assert.EqualValues(t, 4, r.plain.Load())
}

// TestLastRequests: a connection ends with the answer to a request that says so.
func TestLastRequests(t *testing.T) { overBoth(t, testLastRequests) }

func testLastRequests(t *testing.T) {
	t.Helper()
	r := startPlain(t, startWorker(t, repeat).addr())
	for _, kind := range []string{"", "X-Kind: chunked\r\n", "X-Kind: long\r\n"} {
		conn := r.dial(t)
		br := bufio.NewReader(conn)
		_, err := io.WriteString(conn, plainHead+"2\r\nConnection: Close\r\n"+kind+"\r\n{}")
		require.NoError(t, err)
		_, resp := answered(t, br)
		assert.True(t, resp.Close)
		_, err = br.ReadByte()
		assert.ErrorIs(t, err, io.EOF)
	}
	assert.EqualValues(t, 3, r.plain.Load())
}

// TestSlowUploads: who sends next to nothing of a request is told so and let go, whatever part of it is missing.
func TestSlowUploads(t *testing.T) { overBoth(t, testSlowUploads) }

func testSlowUploads(t *testing.T) {
	t.Helper()
	worker := startWorker(t, repeat)
	for name, send := range map[string]string{
		"a head":        "POST /generate HTTP/1.1\r\nHost: x\r\n",
		"an odd head":   "GET / HTTP/1.1\r\nHost: x\r\n",
		"a body":        plainHead + "50\r\n\r\nhalf",
		"a long body":   plainHead + "50000\r\n\r\n" + strings.Repeat("x", 5000),
		"an odd body":   oddHead + "Content-Length: 5\r\n\r\nhalf",
		"a chunk":       chunkedHead + "50\r\nhel",
		"chunks":        chunkedHead + "5\r\nhello\r\n",
		"a size":        chunkedHead + "5",
		"a trailer":     chunkedHead + "0\r\nX: ",
		"an odd chunk":  oddHead + "Transfer-Encoding: chunked\r\n\r\n50\r\nhel",
		"what it asked": plainHead + "2\r\nExpect: 100-continue\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			var err error
			for grace := 200 * time.Millisecond; grace < patience; grace *= 5 { // a busy machine may take longer for a handshake
				watcher := startWatcher(t)
				watcher.Grace(grace)
				if err = askSlowly(t, startPlainOn(t, watcher, worker.addr()), send); err == nil {
					return
				}
			}
			t.Error(err)
		})
	}
}

// askSlowly sends a whole request with a beginning of another one behind it. It wants an answer to the first, words about the second, and the end.
func askSlowly(t *testing.T, r *plainRouter, send string) (err error) {
	t.Helper()
	within(t, "slow client", func() {
		conn := r.dial(t)
		if _, err = io.WriteString(conn, plainHead+"2\r\n\r\n{}"+send); err != nil {
			return
		}
		br := bufio.NewReader(conn)
		for _, want := range []int{http.StatusOK, http.StatusRequestTimeout} {
			var resp *http.Response
			resp, err = http.ReadResponse(br, nil)
			if err == nil && resp.StatusCode == http.StatusContinue {
				resp, err = http.ReadResponse(br, nil)
			}
			if err != nil {
				return
			}
			if resp.StatusCode != want {
				err = fmt.Errorf("%w: %s, want %d", errUnwanted, resp.Status, want)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
		}
		if _, end := br.ReadByte(); !errors.Is(end, io.EOF) {
			err = fmt.Errorf("%w: %w, want the end", errUnwanted, end)
		}
	})
	return err
}

var errUnwanted = errors.New("another answer")
