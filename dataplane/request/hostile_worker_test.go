package request_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/request"
)

// rawWorker answers probes as a worker does, and its first prompt byte by byte as the test
// says. All other prompts are answered with the id of their request.
type rawWorker struct {
	url   string
	first func(conn net.Conn)
	asked atomic.Int32
}

func newRawWorker(t *testing.T, first func(conn net.Conn)) *rawWorker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &rawWorker{url: "http://" + l.Addr().String(), first: first}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			wg.Go(func() { w.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return w
}

func (w *rawWorker) serve(conn net.Conn) {
	defer conn.Close()
	br := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		reply := "{}"
		switch r.URL.Path {
		case "/server_info":
			reply = info(1)
		case "/v1/models":
			reply = `{"object":"list","data":[{"id":"tiny"}]}`
		case "/generate":
			if w.asked.Add(1) == 1 {
				w.first(conn)
				continue
			}
			reply = string(body)
		}
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(reply), reply)
	}
}

// sends writes an answer and keeps the connection.
func sends(text string) func(net.Conn) {
	return func(c net.Conn) { _, _ = io.WriteString(c, text) }
}

// sendsAndCloses writes an answer and closes the connection.
func sendsAndCloses(text string) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = io.WriteString(c, text)
		_ = c.Close()
	}
}

// sendsAndResets writes an answer and resets the connection, so that bytes under way may be
// lost.
func sendsAndResets(text string) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = io.WriteString(c, text)
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
}

// sendsForEver writes the same bytes until the connection ends.
func sendsForEver(begin, again string) func(net.Conn) {
	return func(c net.Conn) {
		_, err := io.WriteString(c, begin)
		for err == nil {
			_, err = io.WriteString(c, again)
		}
		_ = c.Close()
	}
}

const (
	okLine = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)

const (
	oddCounts  = `{"meta_info":{"prompt_tokens":"9","cached_tokens":-1e99,"x":[[[[]]]]}}`
	wildCounts = `{"meta_info":{"prompt_tokens":4,"cached_tokens":99999999999999999999}}`
)

// sized is an answer with its length.
func sized(body string) string {
	return okLine + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
}

// hostileAnswers are answers of broken workers. Status 0 is an answer that is cut: no client
// may take it for a whole one.
var hostileAnswers = []struct {
	name   string
	first  func(net.Conn)
	status int
	body   string // "" with 502: an error of the router's
}{
	{"up to the end of the connection", sendsAndCloses(okLine + "\r\n{}"), 200, "{}"},
	{"more than it says", sends(okLine + "Content-Length: 2\r\n\r\n{}{\"not\":\"yours\"}"), 200, "{}"},
	{"less than it says", sendsAndCloses(okLine + "Content-Length: 20\r\n\r\n{}"), 0, ""},
	{"two answers", sends(okLine + "Content-Length: 2\r\n\r\n{}" + okLine + "Content-Length: 15\r\n\r\n{\"not\":\"yours\"}"), 200, "{}"},
	{"some interim answers", sends(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", 2) + okLine + "Content-Length: 2\r\n\r\n{}"), 200, "{}"},
	{"endless interim answers", sendsForEver("", "HTTP/1.1 100 Continue\r\n\r\n"), 502, ""},
	{"another protocol", sends("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), 502, ""},
	{"a field of a megabyte", sends(okLine + "X: " + strings.Repeat("y", 1<<20) + "\r\nContent-Length: 2\r\n\r\n{}"), 502, ""},
	{"an endless head", sendsForEver("HTTP/1.1 200 OK\r\n", "X: y\r\n"), 502, ""},
	{"an endless line", sendsForEver("", "AAAAAAAAAAAAAAAA"), 502, ""},
	{"not HTTP", sendsAndCloses("hello\r\n\r\n"), 502, ""},
	{"TLS", sendsAndCloses("\x15\x03\x01\x00\x02\x02\x46"), 502, ""},
	{"nothing", sendsAndCloses(""), 502, ""},
	{"half a status line", sendsAndCloses("HTTP/1.1 20"), 502, ""},
	{"half a head", sendsAndCloses(okLine + "Content-Le"), 502, ""},
	{"a status beyond three digits", sends("HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n"), 502, ""},
	{"a status below 100", sends("HTTP/1.1 99 No\r\nContent-Length: 0\r\n\r\n"), 502, ""},
	{"a head without returns", sends("HTTP/1.1 200 OK\nContent-Length: 2\n\n{}"), 502, ""},
	{"a space in a field's name", sends(okLine + "X A: a\r\nContent-Length: 2\r\n\r\n{}"), 502, ""},
	{"a space before a colon", sends(okLine + "Content-Length : 2\r\n\r\n{}"), 502, ""},
	{"a zero byte in a field", sends(okLine + "X-A: a\x00b\r\nContent-Length: 2\r\n\r\n{}"), 502, ""},
	{"a bare return in a field", sends(okLine + "X-A: a\rSet-Cookie: b\r\nContent-Length: 2\r\n\r\n{}"), 502, ""},
	{"no reason", sends("HTTP/1.1 200\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"), 200, "{}"},
	{"HTTP/1.0", sendsAndCloses("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{}"), 200, "{}"},
	{"HTTP/2", sendsAndCloses("HTTP/2 200 OK\r\nContent-Length: 2\r\n\r\n{}"), 502, ""},
	{"two lengths", sends(okLine + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"), 502, ""},
	{"a length and chunks", sends(okLine + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), 200, "{}"},
	{"a negative length", sends(okLine + "Content-Length: -2\r\n\r\n{}"), 502, ""},
	{"a length beyond all numbers", sends(okLine + "Content-Length: 99999999999999999999\r\n\r\n{}"), 502, ""},
	{"a length that never comes", sendsAndCloses(okLine + "Content-Length: 9000000000000000000\r\n\r\n{}"), 0, ""},
	{"another coding", sends(okLine + "Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), 502, ""},
	{"204 with a body", sends("HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n{}"), 502, ""},
	{"204 with chunks", sends("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), 502, ""},
	{"304 with a body", sends("HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n{}"), 502, ""},
	{"one byte a chunk", sends(okLine + "Transfer-Encoding: chunked\r\n\r\n" + split(`{"a":"b"}`)), 200, `{"a":"b"}`},
	{"a chunk of 2^64 bytes", sends(okLine + "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n{}\r\n0\r\n\r\n"), 502, ""},
	{"a chunk that is none", sends(okLine + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n"), 502, ""},
	{"a bad second chunk", sends(okLine + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nxyz\r\n{}\r\n0\r\n\r\n"), 0, ""},
	{"a chunk too long", sends(okLine + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}{}\r\n0\r\n\r\n"), 0, ""},
	{"reset in a chunk", sendsAndResets(okLine + "Transfer-Encoding: chunked\r\n\r\n9\r\n{\"a"), 502, ""},
	{"reset in a long chunk", sendsAndResets(okLine + "Transfer-Encoding: chunked\r\n\r\n9000\r\n{\"meta_info\":{\"id\":\"a\"},\"text\":\"" + strings.Repeat("x", 32<<10)), 0, ""},
	{"closed between chunks", sendsAndCloses(okLine + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"), 0, ""},
	{"chunks that end in nothing", sendsAndCloses(okLine + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"), 0, ""},
	{"a compressed answer nobody asked for", sends(okLine + "Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00"), 200, "\x1f\x8b\x08\x00"},
	{"events without empty lines", sends(events + "8\r\ndata: 1\n\r\n8\r\ndata: 2\n\r\n0\r\n\r\n"), 200, "data: 1\ndata: 2\n"},
	{"events with other line ends", sends(events + "b\r\ndata: 1\r\n\r\n\r\n0\r\n\r\n"), 200, "data: 1\r\n\r\n"},
	{"events that are no JSON", sends(events + "d\r\ndata: {{{{{\n\n\r\n0\r\n\r\n"), 200, "data: {{{{{\n\n"},
	{"an answer that is no JSON", sends(okLine + "Content-Length: 5\r\n\r\n{{{\"u"), 200, "{{{\"u"},
	{"counts of other types", sends(sized(oddCounts)), 200, oddCounts},
	{"more cached than there was", sends(sized(wildCounts)), 200, wildCounts},
}

// TestHostileWorkers: the client gets a worker's answer, an error, or an answer that is visibly
// cut. The next request on the connection gets its own answer, and clients of other workers are
// not affected.
func TestHostileWorkers(t *testing.T) {
	t.Parallel()
	well := newFakeWorker(t, strings.Replace(info(1), "tiny", "well", 1))
	well.Answers("/v1/models", `{"object":"list","data":[{"id":"well"}]}`)
	well.Answers("/v1/completions", `{"ok":1}`)
	for _, tt := range hostileAnswers {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newRawWorker(t, tt.first)
			h := start(t, []*fakeWorker{well})
			_, err := h.Registry.Add(w.url)
			require.NoError(t, err)
			h.AwaitReady(2)
			h.beside("/v1/completions", `{"model":"well","prompt":"x"}`, `{"ok":1}`)
			resp, got, err := h.Try(http.MethodPost, h.Base+"/generate", `{"rid":"first","model":"tiny","text":"x"}`, "Accept-Encoding", "identity")
			switch {
			case tt.status == 0:
				require.Error(t, err, "%d %.100q passes for whole", statusOf(resp), got)
			case tt.body == "" && tt.status >= 500:
				require.NoError(t, err)
				require.Equal(t, tt.status, resp.StatusCode, "%.200s", got)
				code, _ := errorOf(t, got)
				require.Equal(t, "upstream_error", code)
			default:
				require.NoError(t, err)
				require.Equal(t, tt.status, resp.StatusCode, "%.200s", got)
				require.Equal(t, tt.body, got)
			}
			for i := range 3 {
				body := fmt.Sprintf(`{"rid":"%032d","model":"tiny","text":"x"}`, i)
				resp, got := h.Post("/generate", body)
				require.Equal(t, http.StatusOK, resp.StatusCode, got)
				require.Equal(t, body, got, "another one's answer")
			}
		})
	}
}

func statusOf(r *http.Response) int {
	if r == nil {
		return 0
	}
	return r.StatusCode
}

// TestStallingWorkers: an answer that stops in its middle is given up in time, with an error
// for the client.
func TestStallingWorkers(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]string{
		"in its body":    okLine + "Content-Length: 20\r\n\r\n{",
		"in a chunk":     okLine + "Transfer-Encoding: chunked\r\n\r\n9\r\n{\"a",
		"in a stream":    events + "9\r\ndata: 1\n\n\r\n",
		"before its end": events + "9\r\ndata: 1\n\n\r\n0\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			released := make(chan struct{})
			w := newRawWorker(t, func(c net.Conn) {
				_, _ = io.WriteString(c, begin)
				<-released
			})
			defer close(released)
			h := start(t, nil, withConfig(func(c *request.Config) { c.StallTimeout = 100 * time.Millisecond }))
			_, err := h.Registry.Add(w.url)
			require.NoError(t, err)
			h.AwaitReady(1)
			_, got, err := h.Try(http.MethodPost, h.Base+"/generate", `{"rid":"a","text":"x","stream":true}`)
			if strings.HasPrefix(begin, events) {
				require.NoError(t, err)
				assert.True(t, strings.HasPrefix(got, "data: 1\n\n"), got)
				assert.Contains(t, got, "error")
				return
			}
			require.Error(t, err, "%q passes for whole", got)
		})
	}
}
