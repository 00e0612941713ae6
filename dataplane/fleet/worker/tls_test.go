package worker_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

// listening serves connections with serve until the test ends, and returns its address.
func listening(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// described answers every request as a worker would that is ready.
func described(conn net.Conn) {
	for in := bufio.NewReader(conn); ; {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body := map[string]string{"/server_info": `{"version":"0.5.23"}`, "/v1/models": `{"data":[{"id":"tiny"}]}`}[req.URL.Path]
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
	}
}

func TestProbesOverTLS(t *testing.T) {
	ca := tlstest.NewAuthority(t)
	good, expired := ca.Issue("127.0.0.1"), ca.Expired("127.0.0.1")
	encrypted := func(pair tlstest.Pair, serve func(net.Conn)) func(net.Conn) {
		cfg := &tls.Config{Certificates: []tls.Certificate{pair.TLS}}
		return func(conn net.Conn) { serve(tls.Server(conn, cfg)) }
	}
	picky := func(conn net.Conn) {
		s := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{good.TLS}, ClientAuth: tls.RequireAnyClientCert})
		described(s)
	}
	says := func(answer string) func(net.Conn) {
		return func(conn net.Conn) {
			_, _ = bufio.NewReader(conn).Peek(1)
			_, _ = io.WriteString(conn, answer)
		}
	}
	trust := tlsconfig.ClientFiles{CA: ca.File}
	tests := []struct {
		name, scheme string
		serve        func(net.Conn)
		trust        tlsconfig.ClientFiles
		says         string // "" where the worker becomes ready
	}{
		{"good", "https://", encrypted(good, described), trust, ""},
		{"shown a certificate", "https://", picky, tlsconfig.ClientFiles{CA: ca.File, Cert: good.Cert, Key: good.Key}, ""},
		{"not shown a certificate", "https://", picky, trust, "certificate required"},
		{"unchecked", "https://", encrypted(expired, described), tlsconfig.ClientFiles{Insecure: true}, ""},
		{"expired", "https://", encrypted(expired, described), trust, "expired"},
		{"unknown authority", "https://", encrypted(good, described), tlsconfig.ClientFiles{}, "unknown authority"},
		{"plain", "https://", says("HTTP/1.1 400 Bad Request\r\n\r\n"), trust, "use http://"},
		{"closes", "https://", says(""), trust, "does it speak TLS"},
		{"TLS that sends an alert", "http://", says("\x15\x03\x01\x00\x02\x02\x46"), trust, "use https://"},
		{"TLS that closes", "http://", says(""), trust, "use https://"},
		{
			"TLS that says so", "http://",
			says("HTTP/1.1 400 Bad Request\r\nContent-Length: 48\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"), trust, "use https://",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			settings, err := tlsconfig.NewClient(tt.trust, slog.New(slog.DiscardHandler))
			require.NoError(t, err)
			// The time-out is for a machine that is busy: nothing here needs any.
			r := worker.NewRegistry(worker.Config{
				Interval: time.Millisecond, Timeout: time.Minute, Log: slog.New(slog.DiscardHandler), TLS: settings.Config,
			}, nil)
			w, err := r.Add(tt.scheme + listening(t, tt.serve))
			require.NoError(t, err)
			defer func() { require.NoError(t, r.Remove(w.URL)) }()
			require.Eventually(t, func() bool {
				if tt.says == "" {
					return w.State() == worker.Ready
				}
				return strings.Contains(w.LastError(), tt.says)
			}, 5*time.Minute, time.Millisecond)
			if tt.says != "" {
				require.NotEqual(t, worker.Ready, w.State())
			}
		})
	}
}

// TestRefusedCertificatesAreNoDeath: a certificate that expires in the middle of a worker's life, or of
// which the router or the worker has lost the authority, takes it out of the choice. The process
// lives, and its cache with it.
func TestRefusedCertificatesAreNoDeath(t *testing.T) {
	ca, other := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	own := ca.Issue("router")
	settings := func(pair tlstest.Pair, clients *tlstest.Authority) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{pair.TLS}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients.Pool()}
	}
	good := settings(ca.Issue("127.0.0.1"), ca)
	refuses := settings(ca.Issue("127.0.0.1"), other)
	refuses.MaxVersion = tls.VersionTLS12 // later ones may reset the connection before the alert is read
	for name, bad := range map[string]*tls.Config{
		"expired":                 settings(ca.Expired("127.0.0.1"), ca),
		"another name":            settings(ca.Issue("another.example"), ca),
		"another authority":       settings(other.Issue("127.0.0.1"), ca),
		"the router's is unknown": refuses,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			cfg, conns := good, []net.Conn{}
			with := func(to *tls.Config) {
				mu.Lock()
				defer mu.Unlock()
				cfg = to
				for _, c := range conns {
					_ = c.Close()
				}
			}
			addr := listening(t, func(conn net.Conn) {
				mu.Lock()
				s := tls.Server(conn, cfg)
				conns = append(conns, conn)
				mu.Unlock()
				described(s)
			})
			trust, err := tlsconfig.NewClient(tlsconfig.ClientFiles{CA: ca.File, Cert: own.Cert, Key: own.Key}, slog.New(slog.DiscardHandler))
			require.NoError(t, err)
			seen := &calls{}
			r := worker.NewRegistry(worker.Config{
				Interval: time.Hour, LoadEvery: -1, Timeout: time.Minute, Log: slog.New(slog.DiscardHandler), TLS: trust.Config,
			}, seen) // the end of its connection has a worker probed
			w, err := r.Add("https://" + addr)
			require.NoError(t, err)
			defer func() { require.NoError(t, r.Remove(w.URL)) }()
			awaits := func(state worker.State) {
				require.Eventually(t, func() bool { return w.State() == state }, 5*time.Minute, time.Millisecond, w.LastError())
			}
			awaits(worker.Ready)
			with(bad)
			awaits(worker.Probing)
			with(good)
			w.Probe()
			awaits(worker.Ready)
			require.Equal(t, []string{"up"}, seen.all())
		})
	}
}

// TestHandshakeThatHangs: a worker that accepts and says nothing is slow, not dead, and its
// removal does not wait for it.
func TestHandshakeThatHangs(t *testing.T) {
	r := worker.NewRegistry(worker.Config{Interval: time.Millisecond, Timeout: 20 * time.Millisecond, Log: slog.New(slog.DiscardHandler)}, nil)
	w, err := r.Add("https://" + listening(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return w.State() == worker.Slow }, 5*time.Minute, time.Millisecond)
	require.NoError(t, r.Remove(w.URL))
}
