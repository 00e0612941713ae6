//go:build cgo && linux

package sidecar

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// TestClientsThatDoNotRead are cut, and leave their connections to others.
func TestClientsThatDoNotRead(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	asked := make(chan struct{})
	server := newServer(func(ctx *fasthttp.RequestCtx) { ctx.SetBody(make([]byte, 32<<20)); close(asked) }, 10*time.Millisecond)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	<-asked
	require.Eventually(t, func() bool { return server.GetOpenConnectionsCount() == 0 }, patience, time.Millisecond)
	require.NoError(t, server.Shutdown())
	require.NoError(t, <-ended)
}
