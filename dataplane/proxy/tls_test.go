package proxy_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/dataplane/proxy"
)

func TestTLS(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		if n != r.ContentLength {
			w.WriteHeader(http.StatusBadRequest)
		}
		io.WriteString(w, "ok")
	}))
	defer srv.Close()
	target := proxy.Target{
		Addr: srv.Listener.Addr().String(),
		TLS:  srv.Client().Transport.(*http.Transport).TLSClientConfig,
	}
	tr := newTransport(t, proxy.Config{DialTimeout: patience})
	// In one record, by the writer goroutine, and on the same connection again.
	for _, size := range []int{0, 100, 4 << 20, 100} {
		req := post("", strings.Repeat("x", size), "y")
		req.Target = target
		status, body, err := get(tr, req)
		if status != 200 || body != "ok" || err != nil {
			t.Errorf("body of %d: %d %q %v", size, status, body, err)
		}
	}
	if n := tr.Idle(""); n != 1 {
		t.Errorf("Idle = %d, want 1", n)
	}
	req := post("")
	req.Target = proxy.Target{Addr: target.Addr, TLS: &tls.Config{}}
	_, _, err := get(tr, req)
	wantErr(t, "unknown authority", err, proxy.ErrDial)
}
