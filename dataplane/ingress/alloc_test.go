//go:build !race

package ingress_test

import (
	"bytes"
	"net"
	"strconv"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/ingress/ingresstest"
)

// exchange returns a function that sends a request with a body of size bytes over one connection and
// reads the answer.
func exchange(t testing.TB, size int) func() {
	t.Helper()
	ln := ingresstest.Listen(t)
	ingresstest.StartServer(t, ln, func(ctx *fasthttp.RequestCtx) { ctx.SetBody(ctx.Request.Body()[:2]) })
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ask := append([]byte(sized+strconv.Itoa(size)+"\r\n\r\n"), bytes.Repeat([]byte("ab"), size/2)...)
	buf := make([]byte, 1<<10)
	return func() {
		if _, err := conn.Write(ask); err != nil {
			t.Fatal(err)
		}
		for n := 0; !bytes.HasSuffix(buf[:n], []byte("\r\n\r\nab")); {
			m, err := conn.Read(buf[n:])
			if err != nil {
				t.Fatal(err)
			}
			n += m
		}
	}
}

// TestRequestDoesNotAllocate: a request with a body, from its first byte to the answer.
func TestRequestDoesNotAllocate(t *testing.T) {
	for _, size := range []int{300, 8 << 10} {
		once := exchange(t, size)
		for range 100 {
			once()
		}
		if n := testing.AllocsPerRun(1000, once); n != 0 {
			t.Errorf("a request of %d bytes allocates %v times, want 0", size, n)
		}
	}
}

// BenchmarkRequest is a request with client and server in one process.
func BenchmarkRequest(b *testing.B) {
	for _, size := range []int{300, 8 << 10} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			once := exchange(b, size)
			b.ReportAllocs()
			for b.Loop() {
				once()
			}
		})
	}
}
