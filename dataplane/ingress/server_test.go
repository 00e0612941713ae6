package ingress_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"runtime"
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

// ask is a request with a body of two bytes.
const ask = "POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"

// asked is echo's answer to it.
const asked = "POST /generate {}"

// TestClients: requests as clients send them by default, one after the other on a connection,
// and all at once.
func TestClients(t *testing.T) { tlstest.OverBoth(t, testClients) }

func testClients(t *testing.T) {
	t.Helper()
	heads := map[string]string{}
	for name, body := range map[string]io.Reader{"Go": strings.NewReader("{}"), "Go, chunked": io.MultiReader(strings.NewReader("{}"))} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:8000/v1/chat/completions", body)
		require.NoError(t, err)
		var sent bytes.Buffer
		require.NoError(t, r.Write(&sent))
		heads[name] = sent.String()
	}
	maps.Copy(heads, clientHeads)
	ln := ingresstest.Listen(t)
	ingresstest.StartServer(t, ln, echo)
	conn, br := dial(t, ln)
	all, n := "", 0
	for name, head := range heads {
		if strings.Contains(head, "Expect") {
			continue // TestExpectedBodies
		}
		say(t, conn, head)
		status, body := answer(t, br)
		require.Equal(t, http.StatusOK, status, name)
		require.True(t, strings.HasPrefix(body, "POST /v1/chat/completions {"), "%s: %s", name, body)
		all, n = all+head, n+1
	}
	say(t, conn, all)
	for range n {
		status, _ := answer(t, br)
		require.Equal(t, http.StatusOK, status)
	}
}

// TestPipelinedAnswersLeaveAtOnce: the answer to a request does not wait for the next
// request's.
func TestPipelinedAnswersLeaveAtOnce(t *testing.T) {
	tlstest.OverBoth(t, testPipelinedAnswersLeaveAtOnce)
}

func testPipelinedAnswersLeaveAtOnce(t *testing.T) {
	t.Helper()
	ln, release := ingresstest.Listen(t), make(chan struct{})
	ingresstest.StartServer(t, ln, func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) == "/slow" {
			<-release
		}
		echo(ctx)
	})
	conn, br := dial(t, ln)
	say(t, conn, ask+"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"+ask)
	_, body := answer(t, br)
	require.Equal(t, asked, body)
	close(release)
	for _, want := range []string{"GET /slow ", asked} {
		_, body := answer(t, br)
		require.Equal(t, want, body)
	}
}

// TestExpectedBodies: a client that waits with its body is told once to send it, also where the
// target has a query.
func TestExpectedBodies(t *testing.T) { tlstest.OverBoth(t, testExpectedBodies) }

func testExpectedBodies(t *testing.T) {
	t.Helper()
	ln := ingresstest.Listen(t)
	ingresstest.StartServer(t, ln, echo)
	conn, br := dial(t, ln)
	for _, head := range []string{
		"POST /generate?a=1 HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
		"POST /generate HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n",
		"POST /generate HTTP/1.1\r\nHost: x\r\nExpect:100-continue\r\nTransfer-Encoding: chunked\r\n\r\n",
	} {
		say(t, conn, head)
		for _, want := range []string{"HTTP/1.1 100 Continue\r\n", "\r\n"} {
			line, err := br.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, want, line)
		}
		if strings.Contains(head, "chunked") {
			say(t, conn, "2\r\n{}\r\n0\r\n\r\n")
		} else {
			say(t, conn, "{}")
		}
		status, body := answer(t, br) // a second 100 would be read as this
		require.Equal(t, http.StatusOK, status, head)
		require.True(t, strings.HasSuffix(body, " {}"), body)
	}
	for expect, want := range map[string]int{"miracles": http.StatusExpectationFailed, "100-continue, miracles": http.StatusExpectationFailed} {
		conn, br := dial(t, ln)
		say(t, conn, "POST / HTTP/1.1\r\nHost: x\r\nExpect: "+expect+"\r\nContent-Length: 2\r\n\r\n")
		status, _ := answer(t, br)
		require.Equal(t, want, status)
	}
	conn, br = dial(t, ln)
	say(t, conn, "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}")
	status, body := answer(t, br)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "POST / {}", body)
}

// TestRefusedHeads: a request that another server might read differently is refused, before any
// of its body has come, and the connection ends. Bytes behind it are no request.
func TestRefusedHeads(t *testing.T) { tlstest.OverBoth(t, testRefusedHeads) }

func testRefusedHeads(t *testing.T) {
	t.Helper()
	ln := ingresstest.Listen(t)
	ingresstest.StartServer(t, ln, func(ctx *fasthttp.RequestCtx) {
		t.Errorf("served: %s", ctx.Request.Header.RawHeaders())
		echo(ctx)
	})
	const begin = "POST / HTTP/1.1\r\nHost: x\r\n"
	for name, tt := range map[string]struct {
		send   string
		status int
	}{
		"a length and chunks":         {begin + "Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		"chunks and a length":         {begin + "Transfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n", 400},
		"identity":                    {begin + "Transfer-Encoding: identity\r\n\r\n" + ask, 400},
		"identity with a length":      {begin + "Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}", 400},
		"HTTP/1.2":                    {"GET / HTTP/1.2\r\nHost: x\r\n\r\n", 505},
		"HTTP/2.0":                    {"POST / HTTP/2.0\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", 505},
		"HTTP/0.9":                    {"GET / HTTP/0.9\r\n\r\n", 505},
		"the preface of HTTP/2":       {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
		"a path with dots":            {"GET /x/../ HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		"half an escape":              {"GET /% HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		"another coding":              {begin + "Transfer-Encoding: gzip, chunked\r\n\r\n", 400},
		"identity behind chunks":      {begin + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + ask, 400},
		"an unknown coding":           {begin + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + ask, 400},
		"a vertical tab before it":    {begin + "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n" + ask, 400},
		"two lengths":                 {begin + "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400},
		"two hosts":                   {begin + "Host: y\r\n\r\n", 400},
		"two types":                   {begin + "Content-Type: text/plain\r\ncontent-type: application/json\r\n\r\n", 400},
		"two keys":                    {begin + "Authorization: Bearer a\r\nX: y\r\nAUTHORIZATION: Bearer a\r\n\r\n", 400},
		"a host with a user":          {"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400},
		"a host with a path":          {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
		"a host with a query":         {"GET / HTTP/1.1\r\nHost: a?b\r\n\r\n", 400},
		"a host with a space":         {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
		"a host beyond ASCII":         {"GET / HTTP/1.1\r\nHost: \xc3\xa4\r\n\r\n", 400},
		"a line that ends in LF":      {begin + "X: y\nContent-Length: 0\r\n\r\n", 400},
		"a head that ends in LF":      {begin + "Content-Length: 0\r\n\n" + ask, 400},
		"no line that ends in CRLF":   {"GET / HTTP/1.1\nHost: x\n\n", 400},
		"a first line ending in LF":   {"GET / HTTP/1.1\nHost: x\r\n\r\n", 400},
		"half a head with LF":         {"GET / HTTP/1.1\nHo", 400},
		"an end of LF":                {"GET / HTTP/1.1\r\nHost: x\n\n", 400},
		"a space in a name":           {begin + "X Y: z\r\n\r\n", 400},
		"a space behind a name":       {begin + "Content-Length : 1\r\n\r\n", 400},
		"a tab behind a name":         {begin + "Transfer-Encoding\t: chunked\r\n\r\n", 400},
		"a field in two lines":        {begin + "X: y\r\n z\r\n\r\n", 400},
		"a folded coding":             {begin + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400},
		"a folded length":             {begin + "Content-Length:\r\n\t2\r\n\r\n{}", 400},
		"a zero byte":                 {begin + "X: \x00\r\n\r\n", 400},
		"a body that is too large":    {begin + "Content-Length: 1048577\r\n\r\n", 413},
		"a head that is too large":    {begin + "X: " + strings.Repeat("y", 64<<10) + "\r\n\r\n", 431},
		"fields that are too many":    {begin + strings.Repeat("X: y\r\n", 10_000) + "\r\n", 431},
		"TLS":                         {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400},
		"a zero":                      {"\x00", 400},
		"chunks of an old client":     {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		"a refused head with a 100":   {begin + "Expect: 100-continue\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		"too large, and waits for it": {begin + "Expect: 100-continue\r\nContent-Length: 1048577\r\n\r\n", 413},
	} {
		t.Run(name, func(t *testing.T) {
			conn, br := dial(t, ln)
			go func() { _, _ = io.WriteString(conn, tt.send) }()
			r, err := http.ReadResponse(br, nil)
			require.NoError(t, err)
			_, _ = io.Copy(io.Discard, r.Body)
			require.Equal(t, tt.status, r.StatusCode)
			require.True(t, r.Close)
			_, err = br.ReadByte()
			require.ErrorIs(t, err, io.EOF)
		})
	}
}

// TestRefusedPipelines: a request whose head has a line that ends in LF alone, and that came in one
// piece with others before it, is refused once those have their whole answers.
func TestRefusedPipelines(t *testing.T) { tlstest.OverBoth(t, testRefusedPipelines) }

func testRefusedPipelines(t *testing.T) {
	t.Helper()
	ln := ingresstest.Listen(t)
	ingresstest.StartServer(t, ln, echo)
	const chunked = "POST /generate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
	for _, first := range []string{ask, chunked, chunked + ask, ask + chunked} {
		for _, second := range []string{
			"GET / HTTP/1.1\nHost: x\r\n\r\n", "GET / HTTP/1.1\nHost: x\n\n", "POST / HTTP/1.1\nHost: x\r\nContent-Length: 2\r\n\r\n{}", "GET / HTTP/1.1\nHo",
			"GET / HTTP/1.1\r\nHost: x\nX: y\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nX: y\n\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\n\r\n{}",
			"GET / HTTP/1.1\r\nHost: x\r\n\n" + ask, "GET / HTTP/1.1\r\nHost: x\r\n\n",
		} {
			conn, br := dial(t, ln)
			say(t, conn, first+second+ask)
			for range strings.Count(first, "POST") {
				status, body := answer(t, br)
				require.Equal(t, http.StatusOK, status, second)
				require.Equal(t, asked, body, second)
			}
			status, _ := answer(t, br)
			assert.Equal(t, http.StatusBadRequest, status, second)
			_, err := br.ReadByte()
			assert.ErrorIs(t, err, io.EOF, second)
		}
	}
}

// TestURLsInQueries: a path ends where its query begins.
func TestURLsInQueries(t *testing.T) {
	ln := ingresstest.Listen(t)
	ingresstest.StartServer(t, ln, func(ctx *fasthttp.RequestCtx) { fmt.Fprintf(ctx, "%s %s", ctx.Path(), ctx.QueryArgs().Peek("u")) })
	conn, br := dial(t, ln)
	for target, want := range map[string]string{
		"/generate?u=http://x/y": "/generate http://x/y", "/generate?://x/y": "/generate ", "/generate?u=//x/y": "/generate //x/y",
		"http://y/generate?u=http://x/y": "/generate http://x/y", "http://y?u=http://x/y": "/ http://x/y",
	} {
		say(t, conn, "GET "+target+" HTTP/1.1\r\nHost: x\r\n\r\n")
		status, body := answer(t, br)
		require.Equal(t, http.StatusOK, status, target)
		require.Equal(t, want, body, target)
	}
}

// TestNominatedFields: fields that Connection names end here, and "close" counts wherever it
// stands.
func TestNominatedFields(t *testing.T) {
	ln := ingresstest.Listen(t)
	ingresstest.StartServer(t, ln, func(ctx *fasthttp.RequestCtx) {
		fmt.Fprintf(ctx, "%s %s", ctx.Request.Header.Peek("X-Hop"), ctx.Request.Header.Peek(fasthttp.HeaderXForwardedFor))
	})
	for lines, closes := range map[string]bool{
		"Connection: X-Hop\r\n":                              false,
		"Connection: X-Hop, close\r\n":                       true,
		"Connection: close\r\nConnection: x-hop\r\n":         true,
		"Connection: X-Other\r\nConnection: TE, X-Hop\r\n":   false,
		"Connection: x-forwarded-for, X-Hop\r\n":             false, // a proxy has named the client
		"Connection: keep-alive\r\nConnection: X-Hop, b\r\n": false,
	} {
		conn, br := dial(t, ln)
		say(t, conn, "GET / HTTP/1.1\r\nHost: x\r\nX-Hop: 1\r\nX-Forwarded-For: 2\r\n"+lines+"\r\n")
		r, err := http.ReadResponse(br, nil)
		require.NoError(t, err)
		body, _ := io.ReadAll(r.Body)
		assert.Equal(t, " 2", string(body), lines)
		assert.Equal(t, closes, r.Close, lines)
	}
}

// TestKeepAlive: HTTP/1.0 connections end unless they ask not to; an answer of the handler's
// own error leaves a connection open.
func TestKeepAlive(t *testing.T) {
	ln := ingresstest.Listen(t)
	ingresstest.StartServer(t, ln, func(ctx *fasthttp.RequestCtx) { ctx.Error("no", fasthttp.StatusNotFound) })
	for head, open := range map[string]bool{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n":                         true,
		"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":    false,
		"GET / HTTP/1.0\r\n\r\n":                                    false,
		"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n":          true,
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}": true,
	} {
		conn, br := dial(t, ln)
		for range 3 {
			say(t, conn, head)
			status, _ := answer(t, br)
			require.Equal(t, http.StatusNotFound, status)
			if !open {
				_, err := br.ReadByte()
				require.ErrorIs(t, err, io.EOF, head)
				break
			}
		}
	}
}

// TestParkedConnections: a connection goes on after it has waited without fasthttp.
func TestParkedConnections(t *testing.T) { tlstest.OverBoth(t, testParkedConnections) }

func testParkedConnections(t *testing.T) {
	t.Helper()
	ln := ingresstest.Listen(t)
	s := ingresstest.StartServer(t, ln, echo)
	conn, br := dial(t, ln)
	for range 3 {
		say(t, conn, ask)
		_, body := answer(t, br)
		require.Equal(t, asked, body)
		require.Eventually(t, func() bool { return s.Busy() == 0 }, ingresstest.Patience, time.Millisecond)
		require.Equal(t, 1, s.Connections())
	}
	say(t, conn, ask[:9]) // and in pieces
	say(t, conn, ask[9:]+ask)
	for range 2 {
		_, body := answer(t, br)
		require.Equal(t, asked, body)
	}
}

// TestIdleTimeout: a connection that sends no request for long is closed, parked or not.
func TestIdleTimeout(t *testing.T) {
	ln := ingresstest.Listen(t)
	ingresstest.StartServer(t, ln, echo, withLimits(ingress.Limits{Idle: 50 * time.Millisecond}))
	conn, br := dial(t, ln)
	say(t, conn, ask)
	_, body := answer(t, br)
	require.Equal(t, asked, body)
	_, err := br.ReadByte()
	require.ErrorIs(t, err, io.EOF)
}

// TestDrain: a drain closes connections that wait, and lets answers end; then it is over.
func TestDrain(t *testing.T) { tlstest.OverBoth(t, testDrain) }

func testDrain(t *testing.T) {
	t.Helper()
	ln, begun, release := ingresstest.Listen(t), make(chan struct{}), make(chan struct{})
	s := ingresstest.StartServer(t, ln, func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) == "/slow" {
			close(begun)
			<-release
		}
		echo(ctx)
	})
	open := func(send string) (*bufio.Reader, func()) {
		conn, br := dial(t, ln)
		if send != "" {
			say(t, conn, send)
		}
		return br, func() { conn.Close() }
	}
	silent, _ := open("")
	_, closePart := open("POST /gen")
	idle, _ := open(ask)
	answer(t, idle)
	busy, _ := open("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
	<-begun
	drained := make(chan error, 1)
	go func() { drained <- s.Shutdown(context.Background()) }()
	if !tlstest.Encrypted(t) { // else the handshake is still to come, and fails
		_, err := silent.ReadByte()
		require.ErrorIs(t, err, io.EOF)
	}
	_, err := idle.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	select {
	case err := <-drained:
		t.Fatalf("the drain did not wait: %v", err)
	default:
	}
	close(release)
	r, err := http.ReadResponse(busy, nil)
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, r.Body)
	require.True(t, r.Close)
	closePart()
	ingresstest.Within(t, "drain", func() { require.NoError(t, <-drained) })
	require.Zero(t, s.Connections())
}

// TestDrainCuts: a drain whose time has run out closes the connections that are left.
func TestDrainCuts(t *testing.T) {
	ln, begun, release := ingresstest.Listen(t), make(chan struct{}), make(chan struct{})
	s := ingresstest.StartServer(t, ln, func(ctx *fasthttp.RequestCtx) {
		close(begun)
		<-release
	})
	conn, br := dial(t, ln)
	say(t, conn, ask)
	<-begun
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, s.Shutdown(ctx), context.Canceled)
	_, err := br.ReadByte()
	require.Error(t, err)
	close(release)
}

// TestLeave: while another process accepts from the same socket, each connection of this one stays
// for an answer that tells its client to close it, and those that ask nothing end at last.
func TestLeave(t *testing.T) { tlstest.OverBoth(t, testLeave) }

func testLeave(t *testing.T) {
	t.Helper()
	ln := ingresstest.Listen(t)
	s := ingresstest.StartServer(t, ln, echo)
	var waiting []net.Conn
	var answers []*bufio.Reader
	for i := range 6 {
		conn, br := dial(t, ln)
		if i%2 == 0 { // else it has not asked yet
			say(t, conn, ask)
			answer(t, br)
		} else if tlstest.Encrypted(t) {
			require.NoError(t, conn.(*tls.Conn).Handshake())
		}
		waiting, answers = append(waiting, conn), append(answers, br)
	}
	for s.Connections() < len(waiting) { // accepted
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan struct{})
	go func() { defer close(left); s.Leave(ctx, time.Hour) }()
	for { // the listener is closed
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			break
		}
		conn.Close()
	}
	for i, conn := range waiting[:4] {
		say(t, conn, ask)
		r, err := http.ReadResponse(answers[i], nil)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, r.Body)
		require.NoError(t, err)
		require.True(t, r.Close, "connection %d", i)
		_, err = answers[i].ReadByte()
		require.ErrorIs(t, err, io.EOF)
	}
	select {
	case <-left:
		t.Fatal("connections wait for their request, and Leave has ended")
	default:
	}
	cancel()
	ingresstest.Await(t, "ctx's end", left)
	s.Leave(t.Context(), 0)
	for _, br := range answers[4:] {
		_, err := br.ReadByte()
		require.ErrorIs(t, err, io.EOF)
	}
	require.Zero(t, s.Connections())
}

// errUnwanted is an answer other than the expected one.
var errUnwanted = errors.New("another answer")
