package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAttackTellsWhatIsWrong: a proxy that loses, doubles or smuggles requests is told from one that does not.
func TestAttackTellsWhatIsWrong(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	worker := l.Addr().String()
	require.NoError(t, l.Close())
	to := &url.URL{Scheme: "http", Host: worker}
	again := func(r *http.Request, body []byte) {
		if resp, err := http.Post(to.String()+r.URL.Path, "application/json", bytes.NewReader(body)); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}
	peers := map[string]func(rw http.ResponseWriter, r *http.Request, body []byte) bool{
		"sound":   func(http.ResponseWriter, *http.Request, []byte) bool { return true },
		"doubles": func(_ http.ResponseWriter, r *http.Request, body []byte) bool { again(r, body); return true },
		"smuggles": func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
			again(r, []byte(`{"text":"good hidden"}`))
			return true
		},
		"loses all": func(rw http.ResponseWriter, r *http.Request, _ []byte) bool { return r.Header.Get("User-Agent") == "" },
	}
	args := []string{"attack", "--worker", worker, "--workers", "1", "--only", "Connection names fields"}
	for name, pass := range peers {
		proxy := httputil.NewSingleHostReverseProxy(to)
		var warm atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if warm.Add(1) == 1 && name == "loses all" { // the one by which it is known to serve
				proxy.ServeHTTP(rw, r)
				return
			}
			if !pass(rw, r, body) {
				rw.WriteHeader(http.StatusBadGateway)
				return
			}
			proxy.ServeHTTP(rw, r)
		}))
		t.Cleanup(s.Close)
		args = append(args, "--peer", name+"="+s.URL)
	}
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetArgs(args)
	require.NoError(t, root.ExecuteContext(t.Context()))
	rows := map[string]string{}
	for line := range strings.Lines(out.String()) {
		for name := range peers {
			if strings.HasPrefix(line, "| "+name+" |") && rows[name] == "" {
				rows[name] = line
			}
		}
	}
	for name, want := range map[string]string{"doubles": "DOUBLED", "smuggles": "SMUGGLED", "loses all": "LOST"} {
		assert.Contains(t, rows[name], want)
		assert.NotContains(t, rows["sound"], want)
	}
	assert.Contains(t, out.String(), "requests left at the workers")
}
