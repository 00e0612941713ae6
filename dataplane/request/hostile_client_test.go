package request_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// beside sends good requests one after the other until the test ends, and checks their answers:
// an attack must not harm other clients.
func (h *harness) beside(path, body, want string) {
	h.t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: h.Client.Transport.(*http.Transport).TLSClientConfig}}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	answered := 0
	wg.Go(func() {
		for {
			r, err := client.Post(h.Base+path, "application/json", strings.NewReader(body))
			if err != nil {
				h.t.Errorf("beside the attack: %v", err)
				return
			}
			got, err := io.ReadAll(r.Body)
			_ = r.Body.Close()
			if err != nil || r.StatusCode != http.StatusOK || string(got) != want {
				h.t.Errorf("beside the attack: %d %v %.200q", r.StatusCode, err, got)
				return
			}
			answered++
			select {
			case <-stop:
				return
			case <-time.After(tick):
			}
		}
	})
	h.t.Cleanup(func() {
		close(stop)
		wg.Wait()
		client.CloseIdleConnections()
		assert.NotZero(h.t, answered)
	})
}

// exchangeRaw sends bytes and reads until the end of the connection.
func (h *harness) exchangeRaw(send string) string {
	h.t.Helper()
	conn, _ := h.dial()
	require.NoError(h.t, conn.SetDeadline(time.Now().Add(patience)))
	go func() { _, _ = io.WriteString(conn, send) }() // what is refused early is not read to its end
	got, err := io.ReadAll(conn)
	var ne net.Error
	require.False(h.t, errors.As(err, &ne) && ne.Timeout(), "the connection stays open after %.60q", got)
	return string(got)
}

// statuses returns the status of each answer in a row.
func statuses(t *testing.T, all string) (codes []int) {
	t.Helper()
	br := bufio.NewReader(strings.NewReader(all))
	for {
		if _, err := br.Peek(1); err != nil {
			return codes
		}
		r, err := http.ReadResponse(br, nil)
		require.NoError(t, err, "%.300q", all)
		_, err = io.Copy(io.Discard, r.Body)
		require.NoError(t, err)
		codes = append(codes, r.StatusCode)
	}
}

// TestHostileHTTP: malformed HTTP gets an error and ends its connection; no other client is
// affected.
func TestHostileHTTP(t *testing.T) { overBoth(t, testHostileHTTP) }

func testHostileHTTP(t *testing.T) {
	t.Helper()
	w := newFakeWorker(t, info(1))
	w.Answers("/generate", idsReply)
	w.Answers("/v1/completions", `{"ok":1}`)
	h := start(t, []*fakeWorker{w})
	h.beside("/v1/completions", `{"model":"tiny","prompt":"x"}`, `{"ok":1}`)
	const line = "POST /generate HTTP/1.1\r\nHost: x\r\n"
	sized := fmt.Sprintf("Content-Length: %d\r\n", len(idsBody))
	end := "Connection: close\r\n\r\n" + idsBody
	const chunked = line + "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
	whole := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(idsBody), idsBody)
	tests := []struct {
		name, send string
		want       []int
	}{
		{"two lengths", line + sized + sized + end, []int{400}},
		{"a length of words", line + "Content-Length: ten\r\n" + end, []int{400}},
		{"a signed length", line + "Content-Length: +5\r\n" + end, []int{400}},
		{"a list of lengths", line + "Content-Length: 5, 5\r\n" + end, []int{400}},
		{"a length beyond all numbers", line + "Content-Length: " + strings.Repeat("9", 40) + "\r\n" + end, []int{400}},
		{"a space before the colon", line + "Content-Length : 5\r\n" + sized + end, []int{400}},
		{"a space in a field's name", line + "X A: a\r\n" + sized + end, []int{400}},
		{"a tab in a field's name", line + "Transfer-Encoding\t: chunked\r\n" + sized + end, []int{400}},
		{"TLS within", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", []int{400}},
		{"no letter at all", "\x00", []int{400}},
		{"no host", "POST /generate HTTP/1.1\r\n" + sized + end, []int{400}},
		{"two hosts", line + "Host: y\r\n" + sized + end, []int{400}},
		{"a zero byte in a field", line + "X-A: a\x00b\r\n" + sized + end, []int{400}},
		{"a bare return in a field", line + "X-A: a\rb\r\n" + sized + end, []int{400}},
		{"a field without a colon", line + "nonsense\r\n" + sized + end, []int{400}},
		{"a field that begins with a colon", line + ":unmet: 1\r\n" + sized + end, []int{400}},
		{"a folded field", line + "X-A: a\r\n  b\r\n" + sized + end, []int{400}},
		{"bytes above ASCII in a field", line + "X-A: \xe4\xff\r\n" + sized + end, []int{200}},
		{"a thousand fields", line + strings.Repeat("a: 1\r\n", 1000) + sized + end, []int{200}},
		{"an endless line", strings.Repeat("A", 1<<20), []int{431}},
		{"no body has this coding", line + "Transfer-Encoding: identity\r\n\r\n" + "GET /workers HTTP/1.1\r\nHost: x\r\n\r\n", []int{400}},
		{"two codings", line + "Transfer-Encoding: gzip, chunked\r\n" + end, []int{400}},
		{"coded twice", line + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" + end, []int{400}},
		{"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{505}},
		{"HTTP/2 in words", "POST /generate HTTP/2.0\r\nHost: x\r\n" + sized + end, []int{505}},
		{"HTTP/1.2", "GET /health HTTP/1.2\r\nHost: x\r\nConnection: close\r\n\r\n", []int{505}},
		{"chunks and a length", line + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{400}},
		{"a coding of nothing, and a length", line + "Transfer-Encoding: identity\r\n" + sized + end, []int{400}},
		{"chunks", chunked + whole, []int{200}},
		{"a long extension of a chunk", chunked + strings.Replace(whole, "\r\n", ";x="+strings.Repeat("y", 1<<10)+"\r\n", 1), []int{200}},
		{"a chunk of 2^64 bytes", chunked + "10000000000000000\r\n", []int{400}},
		{"a chunk of 2^63 bytes", chunked + "7fffffffffffffff\r\n", []int{400}},
		{"a chunk too long by one", chunked + "200000\r\n" + strings.Repeat(" ", 0x180000), []int{413}},
		{"chunks that are too long together", chunked + strings.Repeat("40000\r\n"+strings.Repeat(" ", 0x40000)+"\r\n", 5), []int{413}},
		{"a chunk of less than nothing", chunked + "-5\r\nhello\r\n0\r\n\r\n", []int{400}},
		{"a chunk in C", chunked + "0x5\r\nhello\r\n0\r\n\r\n", []int{400}},
		{"a chunk with more than it says", chunked + "2\r\n" + idsBody + "\r\n0\r\n\r\n", []int{400}},
		{"lines without returns in chunks", chunked + strings.ReplaceAll(whole, "\r\n", "\n"), []int{400}},
		{"endless zeros", chunked + strings.Repeat("0", 1<<20), []int{400}},
		{"one byte a chunk", chunked + split(idsBody), []int{200}},
		{"a form", line + "Content-Type: multipart/form-data; boundary=x\r\n" + sized + end, []int{200}},
		{"a broken form", line + "Content-Type: multipart/form-data\r\n" + sized + end, []int{200}},
		{"several at a time", strings.Repeat(line+sized+"\r\n"+idsBody, 20) + "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", append(oks(20), 200)},
		{"a good one and a bad one", line + sized + "\r\n" + idsBody + "nonsense\r\n\r\n", []int{200, 400}},
		{"a body behind a GET", "GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nGET /" + "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", oks(2)},
		{"an upgrade to HTTP/2", line + "Connection: close, Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n" + sized + "\r\n" + idsBody, []int{200}},
		{"an upgrade to a web socket", line + "Connection: close, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n" + sized + "\r\n" + idsBody, []int{200}},
		{"empty lines before", "\r\n\r\n" + line + sized + end, []int{200}},
		{"HTTP/1.0", "POST /generate HTTP/1.0\r\n" + sized + "\r\n" + idsBody, []int{200}},
		{"HTTP/0.9", "GET /generate\r\n\r\n", []int{400}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, statuses(t, h.exchangeRaw(tt.send)))
		})
	}
}

// TestResetsBehindRequests: clients that send several requests at a time and reset their connections
// leave no load, and take nothing from others.
func TestResetsBehindRequests(t *testing.T) {
	w := newFakeWorker(t, info(1))
	w.Answers("/generate", idsReply)
	w.On("/abort_request", noAborts)
	w.Answers("/v1/completions", `{"ok":1}`)
	h := start(t, []*fakeWorker{w})
	h.beside("/v1/completions", `{"model":"tiny","prompt":"x"}`, `{"ok":1}`)
	request := fmt.Sprintf("POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(idsBody), idsBody)
	var resets sync.WaitGroup
	for i := range 50 {
		conn, br := h.dial()
		resets.Go(func() {
			_, _ = io.WriteString(conn, strings.Repeat(request, 5))
			for range i % 3 { // some in the midst of an answer
				_, _ = br.ReadString('\n')
			}
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		})
	}
	resets.Wait()
	require.Eventually(t, func() bool { return h.Server.Connections() <= 2 }, patience, tick, "their connections are left")
	h.AwaitIdle()
	resp, got := h.Post("/generate", idsBody)
	require.Equal(t, http.StatusOK, resp.StatusCode, got)
}

func oks(n int) (all []int) {
	for range n {
		all = append(all, http.StatusOK)
	}
	return all
}

// split sends each byte in a chunk of its own.
func split(body string) string {
	var b strings.Builder
	for i := range len(body) {
		fmt.Fprintf(&b, "1\r\n%c\r\n", body[i])
	}
	return b.String() + "0\r\n\r\n"
}

// TestTargets: a target is routed by its path as it is written, and forwarded so in origin form; no
// path of a worker is reachable by another spelling.
func TestTargets(t *testing.T) { overBoth(t, testTargets) }

func testTargets(t *testing.T) {
	t.Helper()
	w := newFakeWorker(t, info(1))
	got := make(chan string, 1)
	w.On("/generate", func(rw http.ResponseWriter, r *http.Request) {
		got <- r.RequestURI
		_, _ = io.WriteString(rw, idsReply)
	})
	w.On("/flush_cache", func(http.ResponseWriter, *http.Request) { t.Error("a worker's cache was emptied") })
	h := start(t, []*fakeWorker{w})
	send := func(method, target string) int {
		return h.raw(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", method, target, len(idsBody), idsBody))
	}
	for target, want := range map[string]string{
		"/generate?a=b%20c": "/generate?a=b%20c", "http://x/generate": "/generate", "https://other:99/generate?x": "/generate?x",
	} {
		assert.Equal(t, http.StatusOK, send("POST", target), target)
		assert.Equal(t, want, <-got)
	}
	for target, want := range map[string]int{
		"http://x/flush_cache": 404, "/generate/": 404, "/v1/models/a%20b/": 405,
		"//flush_cache": 400, "/generate/../flush_cache": 400, "/v1/models/../../flush_cache": 400, "/v1/models/%2e%2e/%2e%2e/flush_cache": 400,
		"/v1/models/..%2f..%2fflush_cache": 400, "/%66lush_cache": 400, "/%67enerate": 400, "/flush_cache#/generate": 400, "/generate%00": 400, "*": 400,
		"/x/../v1/completions": 400, "/v1%2fcompletions": 400, "//v1/completions": 400, "/%zz": 400, "/%": 400, "/v1/completions/.": 400,
	} {
		for _, method := range []string{"POST", "DELETE", "CONNECT"} {
			assert.Equal(t, want, send(method, target), method+" "+target)
		}
	}
	for _, method := range []string{"PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "generate", "PRI"} {
		if method != "PUT" { // SGLang takes it as POST
			assert.Equal(t, http.StatusMethodNotAllowed, send(method, "/generate"), method)
		}
		assert.Equal(t, http.StatusMethodNotAllowed, send(method, "/v1/models"), method)
	}
	for _, path := range []string{"/", "/console", "/health", "/ready", "/status", "/metrics"} { // TRACE must not show a page
		for _, method := range []string{"TRACE", "POST", "DELETE"} {
			resp, _ := h.Do(method, h.Base+path, "")
			assert.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode, method+" "+path)
			assert.Contains(t, resp.Header.Get("Allow"), "GET, HEAD", method+" "+path)
		}
		resp, _ := h.Do(http.MethodHead, h.Base+path, "")
		assert.Equal(t, http.StatusOK, resp.StatusCode, path)
		resp, body := h.Do(http.MethodOptions, h.Base+path, "")
		assert.Equal(t, 2, resp.StatusCode/100, "load balancers check so: "+path)
		assert.NotContains(t, body, "<", path)
	}
	w.On("/v1/models/org/name", func(_ http.ResponseWriter, r *http.Request) { got <- r.RequestURI })
	assert.Equal(t, http.StatusOK, send("GET", "/v1/models/org%2Fname"))
	assert.Equal(t, "/v1/models/org%2Fname", <-got)
	w.On("/v1/models", func(rw http.ResponseWriter, r *http.Request) { rw.Header().Set("X-Asked", r.Method) })
	resp, _ := h.Do(http.MethodOptions, h.Base+"/v1/models", "")
	assert.Equal(t, http.MethodOptions, resp.Header.Get("X-Asked"), "a browser's preflight is the worker's to answer")
}

// TestHostileJSON: a body that is no prompt is refused with the name of its field; any other
// reaches the worker unchanged.
func TestHostileJSON(t *testing.T) {
	w := newFakeWorker(t, info(1))
	w.Answers("/generate", idsReply)
	w.Answers("/v1/chat/completions", idsReply)
	w.Answers("/v1/completions", `{"ok":1}`)
	h := start(t, []*fakeWorker{w})
	h.beside("/v1/completions", `{"model":"tiny","prompt":"x"}`, `{"ok":1}`)
	chat := func(more string) string {
		return `{"rid":"a","model":"tiny","messages":[{"role":"user","content":"hi"}]` + more + `}`
	}
	nested := func(n int, open, end string) string { return strings.Repeat(open, n) + "1" + strings.Repeat(end, n) }
	tests := []struct {
		name, path, body string
		status           int
		param            string
	}{
		{"UTF-16", "/v1/chat/completions", "\xff\xfe{\x00}\x00", 400, ""},
		{"broken UTF-8", "/v1/chat/completions", chat(`,"user":"` + "\xc0\x80" + `"`), 400, ""},
		{"a zero byte", "/v1/chat/completions", chat(`,"user":"` + "\x00" + `"`), 400, ""},
		{"a line end in a string", "/v1/chat/completions", chat(",\"user\":\"a\nb\""), 400, ""},
		{"100,000 lists", "/v1/chat/completions", chat(`,"x":` + nested(100_000, "[", "]")), 400, ""},
		{"100,000 objects", "/v1/chat/completions", chat(`,"x":` + nested(100_000, `{"a":`, "}")), 400, ""},
		{"100,000 lists as messages", "/v1/chat/completions", `{"messages":` + nested(100_000, "[", "]") + `}`, 400, ""},
		{"100,000 lists left open", "/v1/chat/completions", chat(`,"x":` + strings.Repeat("[", 100_000)), 400, ""},
		{"two documents", "/v1/chat/completions", chat("") + chat(""), 400, ""},
		{"no number", "/v1/chat/completions", chat(`,"temperature":NaN`), 400, ""},
		{"a list", "/v1/chat/completions", "[]", 400, ""},
		{"nothing", "/v1/chat/completions", "null", 400, ""},
		{"no messages", "/v1/chat/completions", `{"messages":[]}`, 400, "messages"},
		{"messages that are none", "/v1/chat/completions", `{"messages":[null]}`, 400, "messages"},
		{"a fraction of a token", "/generate", `{"input_ids":[1.5]}`, 400, "input_ids"},
		{"tokens that are none", "/generate", `{"input_ids":[true]}`, 400, "input_ids"},
		{"a token of 2^32", "/generate", `{"input_ids":[4294967296]}`, 400, "input_ids"},
		{"a token of 2^64 + 1", "/generate", `{"input_ids":[18446744073709551617]}`, 400, "input_ids"},
		{"lists of lists of lists", "/generate", `{"input_ids":[[[1]]]}`, 400, "input_ids"},
		{"lists among tokens", "/generate", `{"input_ids":[[1],2]}`, 400, "input_ids"},
		{"a name that is a number", "/generate", `{"rid":5,"text":"x"}`, 400, "rid"},
		{"a name of 1 KB", "/generate", `{"rid":"` + strings.Repeat("r", 1<<10) + `","text":"x"}`, 200, ""},
		{"a longer name", "/generate", `{"rid":"` + strings.Repeat("r", 1<<10+1) + `","text":"x"}`, 400, "rid"},
		{"a longer name in a list", "/generate", `{"rid":["a","` + strings.Repeat("\\u00e9", 1<<10) + `"],"text":["x","y"]}`, 400, "rid"},
		{"a longer name of embeddings", "/v1/embeddings", `{"rid":"` + strings.Repeat("r", 1<<16) + `","input":"x"}`, 400, "rid"},
		{"1e400", "/v1/chat/completions", chat(`,"temperature":1e400,"max_tokens":1e400`), 200, ""},
		{"absurd counts", "/v1/chat/completions", chat(`,"n":4611686018427387904,"max_tokens":99999999999999999999999`), 400, "n"},
		{"absurd lengths", "/v1/chat/completions", chat(`,"max_tokens":99999999999999999999999`), 200, ""},
		{"negative counts", "/v1/chat/completions", chat(`,"n":-1,"max_tokens":-5`), 200, ""},
		{"counts of another type", "/v1/chat/completions", chat(`,"n":"2","max_tokens":[]`), 200, ""},
		{"half a surrogate", "/v1/chat/completions", chat(`,"user":"\ud800x\udc00\ud800"`), 200, ""},
		{"an escaped zero byte", "/v1/chat/completions", chat(`,"user":"\u0000"`), 200, ""},
		{"a key of 500 KB", "/v1/chat/completions", chat(`,"` + strings.Repeat("k", 500_000) + `":1`), 200, ""},
		{"50,000 keys", "/v1/chat/completions", chat(strings.Repeat(`,"k":1`, 50_000)), 200, ""},
		{"30,000 messages", "/v1/chat/completions", `{"rid":"a","messages":[` + strings.Repeat(`{"role":"user","content":"x"},`, 30_000) + `{}]}`, 200, ""},
		{"white space", "/v1/chat/completions", " \r\n\t" + chat(strings.Repeat(" ", 100_000)) + "\n", 200, ""},
		{"no stream, said by null", "/v1/chat/completions", chat(`,"stream":null`), 200, ""},
		{"the last of two models counts", "/v1/chat/completions", strings.Replace(chat(""), `{`, `{"model":"no",`, 1), 200, ""},
		{"the last of two models is unknown", "/v1/chat/completions", chat(`,"mod\u0065l":"no"`), 404, "model"},
		{"several lists of tokens", "/generate", `{"rid":["a","b"],"input_ids":[[1,2],[3]]}`, 200, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, got := h.Post(tt.path, tt.body)
			require.Equal(t, tt.status, resp.StatusCode, "%.300s", got)
			if tt.status == http.StatusOK {
				require.True(t, json.Valid([]byte(got)))
				return
			}
			_, param := errorOf(t, got)
			require.Equal(t, tt.param, param)
		})
	}
}
