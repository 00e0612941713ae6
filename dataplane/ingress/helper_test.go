package ingress_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/ingress/ingresstest"
	"github.com/warmpath/warmpath/dataplane/leaktest"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

func TestMain(m *testing.M) {
	leaktest.Main(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1")) // for the life of the process
}

// withLimits sets the limits of a server's clients.
func withLimits(l ingress.Limits) func(*ingress.Config) {
	return func(c *ingress.Config) { c.Limits = func() ingress.Limits { return l } }
}

// echo answers with the target and the body.
func echo(ctx *fasthttp.RequestCtx) {
	fmt.Fprintf(ctx, "%s %s %s", ctx.Method(), ctx.RequestURI(), ctx.Request.Body())
}

// dial opens a client's connection.
func dial(t testing.TB, ln net.Listener) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(ingresstest.Patience)))
	if tlstest.Encrypted(t) {
		conn = tls.Client(conn, tlstest.Client(t))
	}
	return conn, bufio.NewReader(conn)
}

// say sends bytes as they are.
func say(t testing.TB, conn net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
}

// answer reads one answer.
func answer(t testing.TB, br *bufio.Reader) (status int, body string) {
	t.Helper()
	r, err := http.ReadResponse(br, nil)
	require.NoError(t, err)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, string(b)
}
