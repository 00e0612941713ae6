package request_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

// dial opens a client's connection.
func (h *harness) dial() (net.Conn, *bufio.Reader) {
	h.t.Helper()
	conn, err := net.Dial("tcp", h.addr())
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = conn.Close() })
	if tlstest.Encrypted(h.t) {
		conn = tls.Client(conn, tlstest.Client(h.t))
	}
	return conn, bufio.NewReader(conn)
}

// addr returns the address of the clients' listener.
func (h *harness) addr() string {
	_, addr, _ := strings.Cut(h.Base, "://")
	return addr
}

// answer reads one answer.
func answer(t *testing.T, br *bufio.Reader) (status int, body string) {
	t.Helper()
	resp, err := http.ReadResponse(br, nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

// TestChunkedUpload: the worker gets the whole body with its length.
func TestChunkedUpload(t *testing.T) { overBoth(t, testChunkedUpload) }

func testChunkedUpload(t *testing.T) {
	t.Helper()
	w := newFakeWorker(t, info(1))
	w.Answers("/generate", idsReply)
	h := start(t, []*fakeWorker{w})
	conn, br := h.dial()
	for _, chunks := range []string{
		"30\r\n{\"rid\":\"0a1b2c3d4e5f40718293a4b5c6d7e8f9\",\"text\"\r\n5\r\n:\"x\"}\r\n0\r\n\r\n",
		"1\r\n{\r\n34\r\n\"rid\":\"0a1b2c3d4e5f40718293a4b5c6d7e8f9\",\"text\":\"x\"}\r\n0;last\r\nX-Trailer: 1\r\n\r\n",
	} {
		_, err := io.WriteString(conn, "POST /generate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks)
		require.NoError(t, err)
		status, body := answer(t, br)
		assert.Equal(t, http.StatusOK, status, body)
		assert.Equal(t, `{"rid":"0a1b2c3d4e5f40718293a4b5c6d7e8f9","text":"x"}`, w.LastBody())
	}
}

// TestExpectContinue: a client that waits for 100 gets it.
func TestExpectContinue(t *testing.T) { overBoth(t, testExpectContinue) }

func testExpectContinue(t *testing.T) {
	t.Helper()
	w := newFakeWorker(t, info(1))
	w.Answers("/generate", idsReply)
	h := start(t, []*fakeWorker{w})
	conn, br := h.dial()
	_, err := io.WriteString(conn, "POST /generate HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 53\r\n\r\n")
	require.NoError(t, err)
	line, err := br.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "HTTP/1.1 100 Continue\r\n", line)
	_, err = br.ReadString('\n')
	require.NoError(t, err)
	_, err = io.WriteString(conn, `{"rid":"0a1b2c3d4e5f40718293a4b5c6d7e8f9","text":"x"}`)
	require.NoError(t, err)
	status, body := answer(t, br)
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, idsReply, body)
	assert.Equal(t, `{"rid":"0a1b2c3d4e5f40718293a4b5c6d7e8f9","text":"x"}`, w.LastBody())
}

// TestClientIsMissed: the worker's connection ends with the client's.
func TestClientIsMissed(t *testing.T) {
	overBoth(t, func(t *testing.T) { t.Helper(); leavingClient(t)() })
}

// leavingClient returns a function that has a client leave while a worker computes, and the time
// until that worker's connection ends.
func leavingClient(t *testing.T) func() time.Duration {
	t.Helper()
	w := newFakeWorker(t, info(1))
	begun, ended := make(chan struct{}), make(chan time.Time)
	w.On("/generate", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		begun <- struct{}{}
		<-r.Context().Done()
		ended <- time.Now()
	})
	w.On("/abort_request", noAborts)
	h := start(t, []*fakeWorker{w})
	return func() time.Duration {
		conn, _ := h.dial()
		_, err := io.WriteString(conn, "POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 53\r\n\r\n{\"rid\":\"0a1b2c3d4e5f40718293a4b5c6d7e8f9\",\"text\":\"x\"}")
		require.NoError(t, err)
		<-begun
		left := time.Now()
		require.NoError(t, conn.Close())
		return (<-ended).Sub(left)
	}
}

// overBoth runs a test over plain connections and over TLS, at the same time.
func overBoth(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	for _, wire := range []string{"plain", "tls"} {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}
