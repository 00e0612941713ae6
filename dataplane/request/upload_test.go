package request_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

// TestNominatedFields: the fields that a client's Connection names end at the router, beside
// any other option.
func TestNominatedFields(t *testing.T) { overBoth(t, testNominatedFields) }

func testNominatedFields(t *testing.T) {
	t.Helper()
	w, got := headWorker(t)
	h := start(t, []*fakeWorker{w})
	for lines, closes := range map[string]bool{
		"Connection: X-Hop\r\n":                              false,
		"Connection: X-Hop, close\r\n":                       true,
		"Connection: close, x-hop\r\n":                       true,
		"Connection: keep-alive ,\tX-HOP\r\n":                false,
		"Connection: close\r\nConnection: X-Hop\r\n":         true,
		"Connection: X-Hop\r\nConnection: close\r\n":         true,
		"Connection: X-Other\r\nConnection: X-Hop\r\n":       false,
		"Connection: TE, X-Hop\r\nTE: trailers\r\n":          false,
		"Connection: Content-Length, Host, X-Hop\r\n":        false,
		"Connection: keep-alive\r\nConnection: X-Hop, b\r\n": false,
	} {
		conn, br := h.dial()
		say(t, conn, fmt.Sprintf("POST /generate HTTP/1.1\r\nHost: x\r\nX-Hop: 1\r\nX-Kept: 2\r\n%sContent-Length: %d\r\n\r\n%s", lines, len(idsBody), idsBody))
		resp, err := http.ReadResponse(br, nil)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		require.Equal(t, http.StatusOK, resp.StatusCode, lines)
		fields := <-got
		assert.NotContains(t, fields, "X-Hop", lines)
		assert.Equal(t, "2", fields.Get("X-Kept"), lines)
		assert.Equal(t, strings.Contains(lines, "trailers"), fields.Get("Te") == "trailers", lines)
		assert.Equal(t, closes, resp.Close, lines)
	}
}

// TestHostileUploads: malformed, too long and endless chunks are refused with an error of the
// API, while another client is served.
func TestHostileUploads(t *testing.T) { overBoth(t, testHostileUploads) }

func testHostileUploads(t *testing.T) {
	t.Helper()
	w := newFakeWorker(t, info(1))
	w.Answers("/v1/completions", `{"ok":1}`)
	h := start(t, []*fakeWorker{w})
	h.beside("/v1/completions", `{"model":"tiny","prompt":"x"}`, `{"ok":1}`)
	const head = "POST /generate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
	for name, tt := range map[string]struct {
		send   string
		status int
		code   string
	}{
		"too large":              {head + "\r\n200000\r\n" + strings.Repeat(" ", 0x180000), 413, "request_too_large"},
		"too large, elsewhere":   {strings.Replace(head, "/generate", "/none", 1) + "\r\n200000\r\n" + strings.Repeat(" ", 0x180000), 413, "request_too_large"},
		"endless extensions":     {head + "\r\n" + strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\n{\r\n", 100), 400, ""},
		"an endless trailer":     {head + "\r\n0\r\n" + strings.Repeat("X: 1\r\n", 100_000), 431, "header_too_large"},
		"a length, too":          {head + "Content-Length: 1\r\n\r\n0\r\n\r\n", 400, ""},
		"no end of a chunk":      {head + "\r\n1\r\n{}\r\n0\r\n\r\n", 400, ""},
		"a line that ends in LF": {"POST /generate HTTP/1.1\r\nHost: x\nContent-Length: 0\r\n\r\n", 400, ""},
	} {
		conn, br := h.dial()
		go func() { _, _ = io.WriteString(conn, tt.send) }()
		status, body := answer(t, br)
		assert.Equal(t, tt.status, status, name)
		code, _ := errorOf(t, body)
		assert.Equal(t, tt.code, code, name)
		_, err := br.ReadByte()
		assert.Error(t, err, name)
		_ = conn.Close()
	}
}

// TestMutualTLS: clients with a certificate are served, clients without one are not.
func TestMutualTLS(t *testing.T) {
	w := newFakeWorker(t, info(1))
	w.Answers("/generate", idsReply)
	ca, others := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	cfg := &tls.Config{Certificates: []tls.Certificate{ca.Issue("127.0.0.1").TLS}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool()}
	h := start(t, []*fakeWorker{w}, withTLS(cfg))
	client := func(roots *x509.CertPool, certs ...tls.Certificate) *tls.Conn {
		conn, err := tls.Dial("tcp", h.addr(), &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", Certificates: certs})
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	request := fmt.Sprintf("POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(idsBody), idsBody)
	conn := client(ca.Pool(), ca.Issue("client").TLS)
	br := bufio.NewReader(conn)
	for range 3 {
		say(t, conn, request)
		status, body := answer(t, br)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, idsReply, body)
	}
	for _, certs := range [][]tls.Certificate{nil, {others.Issue("client").TLS}} {
		conn := client(ca.Pool(), certs...)
		_, _ = io.WriteString(conn, request)
		_, err := conn.Read(make([]byte, 1))
		require.Error(t, err)
	}
}
