package request_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// say sends bytes unchanged.
func say(t *testing.T, conn io.Writer, text string) {
	t.Helper()
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
}

// continued reads the interim answer 100.
func continued(t *testing.T, br *bufio.Reader) {
	t.Helper()
	for _, want := range []string{"HTTP/1.1 100 Continue\r\n", "\r\n"} {
		line, err := br.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, want, line)
	}
}

// TestExpectations: an error of the head is answered before the body is sent, and ends the
// connection.
func TestExpectations(t *testing.T) { overBoth(t, testExpectations) }

func testExpectations(t *testing.T) {
	t.Helper()
	w := newFakeWorker(t, info(1))
	w.Answers("/generate", idsReply)
	h := start(t, []*fakeWorker{w})
	const body = `{"rid":"0a1b2c3d4e5f40718293a4b5c6d7e8f9","text":"x"}`
	tests := []struct {
		name, head string
		status     int
		code       string
	}{
		{"too large", "HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2000000\r\n", 413, "request_too_large"},
		{"too large, said in capitals", "HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\nContent-Length: 2000000\r\n", 413, "request_too_large"},
		{"unknown", "HTTP/1.1\r\nHost: x\r\nExpect: miracles\r\nContent-Length: 53\r\n", 417, "expectation_failed"},
		{"unknown among known", "HTTP/1.1\r\nHost: x\r\nExpect: 100-continue, miracles\r\nContent-Length: 53\r\n", 417, "expectation_failed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conn, br := h.dial()
			say(t, conn, "POST /generate "+tt.head+"\r\n")
			status, got := answer(t, br)
			assert.Equal(t, tt.status, status)
			code, _ := errorOf(t, got)
			assert.Equal(t, tt.code, code)
			_, err := br.ReadByte()
			assert.ErrorIs(t, err, io.EOF, "nothing more comes")
		})
	}
	t.Run("acceptable, whatever its case", func(t *testing.T) {
		conn, br := h.dial()
		for _, expect := range []string{"100-continue", "100-CONTINUE"} {
			say(t, conn, "POST /generate HTTP/1.1\r\nHost: x\r\nExpect: "+expect+"\r\nContent-Length: 53\r\n\r\n")
			continued(t, br)
			say(t, conn, body)
			status, got := answer(t, br)
			assert.Equal(t, http.StatusOK, status, got)
			assert.Equal(t, body, w.LastBody())
		}
	})
	t.Run("of an old client, to be ignored", func(t *testing.T) {
		conn, br := h.dial()
		say(t, conn, "POST /generate HTTP/1.0\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 53\r\n\r\n"+body)
		status, got := answer(t, br)
		assert.Equal(t, http.StatusOK, status, got)
	})
	t.Run("chunks that become too large", func(t *testing.T) {
		conn, br := h.dial()
		say(t, conn, "POST /generate HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
		continued(t, br)
		say(t, conn, "1e8480\r\n"+strings.Repeat(" ", 0x180000))
		status, got := answer(t, br)
		assert.Equal(t, http.StatusRequestEntityTooLarge, status, got)
	})
	t.Run("sent without waiting", func(t *testing.T) {
		conn, br := h.dial()
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_, _ = io.WriteString(conn, "POST /generate HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2000000\r\n\r\n"+strings.Repeat("x", 2000000))
		}()
		status, _ := answer(t, br)
		assert.Equal(t, http.StatusRequestEntityTooLarge, status, "the answer is not lost to a reset")
		require.NoError(t, conn.Close())
		<-sent
	})
}

// TestCloseAmongOptions: a connection ends where close is one of several options.
func TestCloseAmongOptions(t *testing.T) {
	h := start(t, nil)
	for _, options := range []string{"close", "TE, close", "Close , TE"} {
		conn, br := h.dial()
		say(t, conn, "GET /health HTTP/1.1\r\nHost: x\r\nTE: trailers\r\nConnection: "+options+"\r\n\r\n")
		status, _ := answer(t, br)
		assert.Equal(t, http.StatusOK, status)
		_, err := br.ReadByte()
		assert.ErrorIs(t, err, io.EOF, options)
	}
}

// TestUploadTrailers: fields behind a chunked body are read, and never taken for header fields.
func TestUploadTrailers(t *testing.T) { overBoth(t, testUploadTrailers) }

func testUploadTrailers(t *testing.T) {
	t.Helper()
	w, got := headWorker(t)
	h := start(t, []*fakeWorker{w})
	const head = "POST /generate HTTP/1.1\r\nHost: x\r\nUser-Agent: ua\r\nX-A: before\r\nX-A: too\r\nCookie: a=b\r\nTransfer-Encoding: chunked\r\n"
	const chunks = "35\r\n{\"rid\":\"0a1b2c3d4e5f40718293a4b5c6d7e8f9\",\"text\":\"x\"}\r\n0\r\n"
	conn, br := h.dial()
	for _, trailer := range []string{
		"\r\n", "X-Data-Parallel-Rank: 7\r\nX-A: behind\r\nUser-Agent: behind\r\nX-New: 1\r\n\r\n", "x-b: 1\r\n\r\n",
	} {
		say(t, conn, head+"Trailer: X-New\r\n\r\n"+chunks+trailer)
		status, body := answer(t, br)
		require.Equal(t, http.StatusOK, status, body)
		assert.Equal(t, `{"rid":"0a1b2c3d4e5f40718293a4b5c6d7e8f9","text":"x"}`, w.LastBody())
		fields := <-got
		assert.Equal(t, []string{"before", "too"}, fields.Values("X-A"))
		assert.Equal(t, []string{"ua"}, fields.Values("User-Agent"))
		assert.Equal(t, []string{"a=b"}, fields.Values("Cookie"))
		for _, name := range []string{"X-Data-Parallel-Rank", "X-New", "X-B", "Trailer", "Transfer-Encoding", ":trailer"} {
			assert.NotContains(t, fields, name)
		}
	}
	for _, trailer := range []string{"Content-Length: 5\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n", "nonsense\r\n\r\n", "X: " + strings.Repeat("x", 64<<10) + "\r\n\r\n"} {
		conn, br := h.dial()
		say(t, conn, head+"\r\n"+chunks+trailer)
		status, _ := answer(t, br)
		assert.GreaterOrEqual(t, status, 400, "%.40q", trailer)
		assert.Less(t, status, 500, "%.40q", trailer)
	}
	conn, br = h.dial()
	say(t, conn, head+"\r\n0\r\nX-New: 1\r\n\r\n") // an empty body
	status, _ := answer(t, br)
	assert.Equal(t, http.StatusBadRequest, status)
}

// TestAnswerTrailers: a worker's trailer reaches the client.
func TestAnswerTrailers(t *testing.T) { overBoth(t, testAnswerTrailers) }

func testAnswerTrailers(t *testing.T) {
	t.Helper()
	w := newFakeWorker(t, info(1))
	asked := make(chan string, 1)
	w.On("/generate", func(rw http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("TE")
		rw.Header().Set("Trailer", "X-Sum")
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(rw, "data: 1\n\n"+doneEvent)
		rw.(http.Flusher).Flush()
		rw.Header().Set("X-Sum", "42")
		rw.Header().Set(http.TrailerPrefix+"X-Late", "yes")
	})
	h := start(t, []*fakeWorker{w})
	for _, te := range []string{"", "trailers"} {
		conn, br := h.dial()
		request := "POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 67\r\n"
		if te != "" {
			request += "Connection: TE\r\nTE: " + te + "\r\n"
		}
		say(t, conn, request+"\r\n"+`{"rid":"0a1b2c3d4e5f40718293a4b5c6d7e8f9","text":"x","stream":true}`)
		resp, err := http.ReadResponse(br, nil)
		require.NoError(t, err)
		assert.Equal(t, http.Header{"X-Sum": nil}, resp.Trailer, "is announced")
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, "data: 1\n\n"+doneEvent, string(body))
		assert.Equal(t, http.Header{"X-Sum": {"42"}, "X-Late": {"yes"}}, resp.Trailer)
		assert.Equal(t, te, <-asked)
	}
}

// gzipKinds are answers by name; each has long for its text, but for short.
func gzipKinds(long string) map[string]func(rw http.ResponseWriter) {
	return map[string]func(rw http.ResponseWriter){
		"long":  func(rw http.ResponseWriter) { _, _ = io.WriteString(rw, long) },
		"short": func(rw http.ResponseWriter) { _, _ = io.WriteString(rw, idsReply) },
		"chunked": func(rw http.ResponseWriter) {
			_, _ = io.WriteString(rw, long[:9])
			rw.(http.Flusher).Flush()
			_, _ = io.WriteString(rw, long[9:])
		},
		"text": func(rw http.ResponseWriter) {
			rw.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(rw, long)
		},
		"error": func(rw http.ResponseWriter) { rw.WriteHeader(http.StatusBadRequest); _, _ = io.WriteString(rw, long) },
		"kept": func(rw http.ResponseWriter) {
			rw.Header().Set("Cache-Control", "no-transform")
			_, _ = io.WriteString(rw, long)
		},
		"events": func(rw http.ResponseWriter) {
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(rw, long)
		},
		"already": func(rw http.ResponseWriter) {
			rw.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(rw)
			_, _ = io.WriteString(z, long)
			_ = z.Close()
		},
	}
}

// TestGzip: a client that accepts gzip gets long JSON compressed, and nothing else; usage is
// counted all the same.
func TestGzip(t *testing.T) { overBoth(t, testGzip) }

func testGzip(t *testing.T) {
	t.Helper()
	w := newFakeWorker(t, info(1))
	long := strings.Replace(idsReply, `"x"`, `"`+strings.Repeat("many words ", 1000)+`"`, 1)
	var mu sync.Mutex
	var asked []string
	kinds := gzipKinds(long)
	w.On("/generate", func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Header.Get("Accept-Encoding"))
		mu.Unlock()
		rw.Header().Set("Content-Type", "application/json; charset=utf-8")
		rw.Header().Set("ETag", `"1"`)
		kinds[r.Header.Get("X-Kind")](rw)
	})
	h := start(t, []*fakeWorker{w})
	tests := []struct {
		kind, accept string
		zipped       bool
	}{
		{"long", "gzip", true},
		{"long", "br, gzip;q=0.5", true},
		{"long", "*", true},
		{"long", "gzip, deflate, br, zstd", true},
		{"chunked", "gzip", true},
		{"long", "", false},
		{"long", "br", false},
		{"long", "gzip;q=0", false},
		{"long", "gzip;q=0, *", false},
		{"long", "gzip;q=0.5, identity", false},
		{"short", "gzip", false},
		{"text", "gzip", false},
		{"error", "gzip", false},
		{"kept", "gzip", false},
		{"events", "gzip", false},
		{"already", "gzip", true},
	}
	for _, tt := range tests {
		t.Run(tt.kind+" for "+tt.accept, func(t *testing.T) {
			conn, br := h.dial()
			request := fmt.Sprintf("POST /generate HTTP/1.1\r\nHost: x\r\nX-Kind: %s\r\nContent-Length: %d\r\n", tt.kind, len(idsBody))
			if tt.accept != "" {
				request += "Accept-Encoding: " + tt.accept + "\r\n"
			}
			for range 2 { // the connection lives on
				say(t, conn, request+"\r\n"+idsBody)
				resp, err := http.ReadResponse(br, nil)
				require.NoError(t, err)
				body := io.Reader(resp.Body)
				if assert.Equal(t, tt.zipped, resp.Header.Get("Content-Encoding") == "gzip") && tt.zipped {
					body, err = gzip.NewReader(resp.Body)
					require.NoError(t, err)
				}
				got, err := io.ReadAll(body)
				require.NoError(t, err)
				if want := map[bool]string{true: idsReply, false: long}[tt.kind == "short"]; want != string(got) {
					t.Errorf("got %d bytes, want %d", len(got), len(want))
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				if tt.zipped && tt.kind != "already" {
					assert.Equal(t, "Accept-Encoding", resp.Header.Get("Vary"))
					assert.Empty(t, resp.Header.Get("ETag"), "it named other bytes")
				} else {
					assert.Equal(t, `"1"`, resp.Header.Get("ETag"))
				}
			}
		})
	}
	for _, encoding := range asked {
		assert.Equal(t, "identity", encoding, "workers are not asked to compress")
	}
	counted := 2 * (len(tests) - 1) // but for what came compressed, of which nothing can be read
	require.Eventually(t, func() bool {
		_, got, err := h.Try(http.MethodGet, h.Operator+"/metrics", "")
		return err == nil && strings.Contains(got, fmt.Sprintf(`warmpath_hit_tokens_total{rank="0",worker="%s"} %d`, w.URL, counted*8))
	}, time.Minute, 10*time.Millisecond, "usage of compressed answers is counted")
}

// TestGzipOfOwnAnswers: the router's own long JSON is compressed too.
func TestGzipOfOwnAnswers(t *testing.T) {
	var workers []*fakeWorker
	for range 8 {
		workers = append(workers, newFakeWorker(t, info(1)))
	}
	h := start(t, workers)
	for _, path := range []string{"/workers", "/status"} {
		resp, plain := h.Do(http.MethodGet, h.Operator+path, "", "Accept-Encoding", "identity")
		require.Empty(t, resp.Header.Get("Content-Encoding"))
		require.Greater(t, len(plain), 4096)
		resp, zipped := h.Do(http.MethodGet, h.Operator+path, "", "Accept-Encoding", "gzip")
		require.Equal(t, "gzip", resp.Header.Get("Content-Encoding"))
		z, err := gzip.NewReader(strings.NewReader(zipped))
		require.NoError(t, err)
		got, err := io.ReadAll(z)
		require.NoError(t, err)
		assert.Contains(t, string(got), `"workers"`)
	}
}

// TestCompressedAnswerCutShort: half of a document does not pass for the whole.
func TestCompressedAnswerCutShort(t *testing.T) {
	w := newFakeWorker(t, info(1))
	w.Dies("/generate", func(rw http.ResponseWriter) {
		rw.Header().Set("Content-Type", "application/json")
		rw.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(rw, strings.Repeat("x", 50000))
	})
	h := start(t, []*fakeWorker{w})
	_, _, err := h.Try(http.MethodPost, h.Base+"/generate", idsBody, "Accept-Encoding", "gzip")
	require.Error(t, err)

	// Of a long one the client learns the status.
	w.Dies("/v1/completions", func(rw http.ResponseWriter) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, `{"choices":[{"text":"`+strings.Repeat("x", 200_000))
	})
	resp, _, err := h.Try(http.MethodPost, h.Base+"/v1/completions", `{"model":"tiny","prompt":[1,2,3]}`, "Accept-Encoding", "gzip")
	require.NotNil(t, resp, err)
	require.Error(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

// TestCutBeforeTheClientKnows: a document that would go out compressed, and is cut before the client
// has any of it, comes from another worker, and from none with an answer of the router.
func TestCutBeforeTheClientKnows(t *testing.T) {
	whole := `{"id":"1","choices":[{"index":0,"finish_reason":"stop","text":"` + strings.Repeat("word ", 4000) + `"}]}`
	half := whole[:len(whole)/2]
	for name, cut := range map[string]func(rw http.ResponseWriter){
		"length": func(rw http.ResponseWriter) {
			rw.Header().Set("Content-Length", strconv.Itoa(len(whole)))
			_, _ = io.WriteString(rw, half)
		},
		"chunks": func(rw http.ResponseWriter) { _, _ = io.WriteString(rw, half) },
	} {
		for _, others := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, others %v", name, others), func(t *testing.T) {
				t.Parallel()
				bad := newFakeWorker(t, info(1))
				bad.Dies("/v1/completions", func(rw http.ResponseWriter) {
					rw.Header().Set("Content-Type", "application/json")
					cut(rw)
				})
				workers, want := []*fakeWorker{bad}, http.StatusBadGateway
				if others {
					good := newFakeWorker(t, info(1))
					good.Answers("/v1/completions", whole)
					workers, want = append(workers, good), http.StatusOK
				}
				h := start(t, workers, withPolicy("round-robin"))
				for range 4 {
					resp, got := h.Do(http.MethodPost, h.Base+"/v1/completions", `{"model":"tiny","prompt":[1,2,3]}`) // Go's client asks for gzip
					assert.Equal(t, want, resp.StatusCode)
					if others {
						assert.True(t, resp.Uncompressed)
						assert.Equal(t, whole, got)
					}
				}
				assert.NotEmpty(t, bad.LastBody(), "it was asked")
			})
		}
	}
}
