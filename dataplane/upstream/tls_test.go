package upstream_test

import (
	"crypto/tls"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/ingress/ingresstest"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// TestTLS sends bodies of one record, and by the writer goroutine, over one connection.
func TestTLS(t *testing.T) {
	t.Run("tls", func(t *testing.T) {
		w := startWorker(t, each(ok))
		tr := newTransport(t, upstream.Config{})
		for _, size := range []int{0, 100, 4 << 20, 100} {
			status, body, err := get(tr, post(w.addr(), strings.Repeat("x", size), "y"))
			if status != 200 || body != "ok" || err != nil {
				t.Errorf("body of %d: %d %q %v", size, status, body, err)
			}
		}
		if n := tr.Idle(""); n != 1 {
			t.Errorf("Idle = %d, want 1", n)
		}
	})
}

// TestHandshakeFails: nothing was sent, the words say why, and nobody waits longer than a dial
// may take.
func TestHandshakeFails(t *testing.T) {
	ca := tlstest.NewAuthority(t)
	good, expired, named := ca.Issue("127.0.0.1"), ca.Expired("127.0.0.1"), ca.Issue("worker.test")
	trusting := &tls.Config{RootCAs: ca.Pool()}
	shows := func(p tlstest.Pair) func(int, *peer) {
		return func(_ int, p2 *peer) {
			s := tls.Server(p2.Conn, &tls.Config{Certificates: []tls.Certificate{p.TLS}})
			_ = s.Handshake()
			_, _ = io.Copy(io.Discard, s)
		}
	}
	tests := []struct {
		name    string
		serve   func(int, *peer)
		trust   *tls.Config
		timeout time.Duration
		says    string
		also    error
	}{
		{name: "unknown authority", serve: shows(good), trust: &tls.Config{}, says: "unknown authority"},
		{name: "expired", serve: shows(expired), trust: trusting, says: "expired"},
		{name: "wrong name", serve: shows(named), trust: trusting, says: "127.0.0.1"},
		{name: "plain HTTP", serve: each(ok), trust: trusting, also: tlsconfig.ErrPlain, says: "use http://"},
		{
			name: "plain HTTP that complains", trust: trusting, also: tlsconfig.ErrPlain,
			serve: func(_ int, p *peer) {
				p.send("HTTP/1.1 400 Bad Request\r\n\r\nInvalid HTTP request received.")
				p.gone()
			},
		},
		{name: "closes", serve: func(_ int, p *peer) { _ = p.tcp.CloseWrite(); p.gone() }, trust: trusting, says: "does it speak TLS"},
		{name: "never answers", serve: func(_ int, p *peer) { p.gone() }, trust: trusting, timeout: 100 * time.Millisecond, says: "in time"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			serve := tt.serve
			if tt.also != nil && tt.name == "plain HTTP" { // the handshake's first message holds no line
				serve = func(_ int, p *peer) { _, _ = p.br.Peek(1); p.send(ok); p.gone() }
			}
			w := startWorker(t, serve)
			req := post(w.addr())
			req.Target = upstream.Target{Addr: w.addr(), TLS: tt.trust}
			ingresstest.Within(t, "Do", func() {
				_, err := newTransport(t, upstream.Config{DialTimeout: tt.timeout}).Do(nil, req)
				wantErr(t, "Do", err, upstream.ErrDial)
				if tt.also != nil {
					wantErr(t, "Do", err, tt.also)
				}
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("error %v, want it to say %q", err, tt.says)
				}
			})
		})
	}
}

// TestWorkerSpeaksTLS: a plain request is met by an alert, or by a handshake's failure.
func TestWorkerSpeaksTLS(t *testing.T) {
	for _, alert := range []string{"\x15\x03\x01\x00\x02\x02\x46", "\x15\x03\x03\x00\x02\x02\x0a and more bytes"} {
		w := startWorker(t, func(_ int, p *peer) {
			p.request()
			p.send(alert)
		})
		_, _, err := get(newTransport(t, upstream.Config{}), post(w.addr()))
		wantErr(t, "get", err, upstream.ErrBadResponse)
		wantErr(t, "get", err, tlsconfig.ErrTLS)
	}
}

// TestWorkerRefusesCertificate: with TLS 1.3 a client's certificate is refused after its
// handshake is done.
func TestWorkerRefusesCertificate(t *testing.T) {
	ca := tlstest.NewAuthority(t)
	pair := ca.Issue("127.0.0.1")
	w := startWorker(t, func(_ int, p *peer) {
		s := tls.Server(p.Conn, &tls.Config{Certificates: []tls.Certificate{pair.TLS}, ClientCAs: ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert})
		_ = s.Handshake()
		p.gone() // else unread bytes of the request would reset the connection, and the alert with it
	})
	req := post(w.addr())
	req.Target = upstream.Target{Addr: w.addr(), TLS: &tls.Config{RootCAs: ca.Pool()}}
	ingresstest.Within(t, "Do", func() {
		_, err := newTransport(t, upstream.Config{}).Do(nil, req)
		if err == nil || !strings.Contains(err.Error(), "certificate required") {
			t.Errorf("error %v, want it to say that a certificate is required", err)
		}
	})
}

// TestSessionsAreResumed: a second connection costs no signature.
func TestSessionsAreResumed(t *testing.T) {
	ca := tlstest.NewAuthority(t)
	pair := ca.Issue("127.0.0.1")
	cfg := &tls.Config{Certificates: []tls.Certificate{pair.TLS}}
	resumed := make(chan bool, 2)
	w := startWorker(t, func(_ int, p *peer) {
		s := tls.Server(p.Conn, cfg)
		if s.Handshake() != nil {
			return
		}
		resumed <- s.ConnectionState().DidResume
		buf := make([]byte, 4096)
		if _, err := s.Read(buf); err == nil {
			_, _ = io.WriteString(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
		}
		_ = s.Close()
	})
	client, err := tlsconfig.NewClient(tlsconfig.ClientFiles{CA: ca.File}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tr, req := newTransport(t, upstream.Config{}), post(w.addr())
	req.Target = upstream.Target{Addr: w.addr(), TLS: client.Config("127.0.0.1")}
	for i := range 2 {
		if _, body, err := get(tr, req); body != "ok" || err != nil {
			t.Fatalf("get = %q %v", body, err)
		}
		if got := <-resumed; got != (i == 1) {
			t.Errorf("connection %d: resumed %v", i, got)
		}
	}
}
