package ingress_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/ingress/ingresstest"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

// refusedBy serves with TLS, and returns a connection to it before its handshake, with the
// errors of handshakes.
func refusedBy(t *testing.T) (client net.Conn, refused chan error) {
	t.Helper()
	refused = make(chan error, 1)
	ln := ingresstest.Listen(t)
	ingresstest.StartServer(t, ln, func(*fasthttp.RequestCtx) { t.Error("a request was served") }, func(c *ingress.Config) {
		c.TLS, c.HandshakeFailed = tlstest.Server(t), func(_ net.Addr, err error) { refused <- err }
	})
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client, refused
}

// TestPlainClient: a client that speaks HTTP to a port for TLS is told so, over a connection
// that is not reset.
func TestPlainClient(t *testing.T) {
	for _, request := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST /generate HTTP/1.1\r\nContent-Length: 60000\r\n\r\n" + strings.Repeat("x", 60000)} {
		client, refused := refusedBy(t)
		go func() {
			_, _ = io.WriteString(client, request)
		}()
		ingresstest.Within(t, "answer", func() {
			got, err := io.ReadAll(client)
			if !strings.HasPrefix(string(got), "HTTP/1.1 400 ") || !strings.Contains(string(got), "https_required") || err != nil {
				t.Errorf("answer %q %v", got, err)
			}
			client.Close()
			if err := <-refused; !strings.Contains(err.Error(), "plain HTTP") {
				t.Errorf("refused because of %v", err)
			}
		})
	}
}

// TestHandshakeRefusals: failed handshakes are told of, clients that come and go are not.
func TestHandshakeRefusals(t *testing.T) {
	tests := []struct {
		name string
		do   func(client net.Conn)
		says string // "" where nothing is worth telling
	}{
		{"garbage", func(c net.Conn) {
			_, _ = io.WriteString(c, "\x00\x01\x02\x03\x04\x05\x06\x07")
			_, _ = io.Copy(io.Discard, c)
		}, "TLS"},
		{"distrust", func(c net.Conn) {
			_ = tls.Client(c, &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "x"}).Handshake()
		}, "bad certificate"},
		{"comes and goes", func(net.Conn) {}, ""},
		{"resets", func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			refused := make(chan error, 1)
			ln := ingresstest.Listen(t)
			s := ingresstest.StartServer(t, ln, func(*fasthttp.RequestCtx) {}, func(c *ingress.Config) {
				c.TLS, c.HandshakeFailed = tlstest.Server(t), func(_ net.Addr, err error) { refused <- err }
			})
			client, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			for s.Connections() == 0 {
				runtime.Gosched()
			}
			tt.do(client)
			client.Close()
			ingresstest.Within(t, "handshake", func() {
				for s.Connections() > 0 {
					runtime.Gosched()
				}
			})
			select {
			case err := <-refused:
				if tt.says == "" || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("refused because of %v, want %q", err, tt.says)
				}
			default:
				if tt.says != "" {
					t.Error("nobody was told")
				}
			}
		})
	}
}
