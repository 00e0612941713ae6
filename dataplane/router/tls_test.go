package router_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

// secureWorker is a worker over TLS that requires a certificate of the authority.
func secureWorker(t *testing.T, ca *tlstest.Authority) *httptest.Server {
	t.Helper()
	w := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/server_info":
			_, _ = io.WriteString(rw, `{"version":"0.5.23","served_model_name":"tiny","page_size":4,"dp_size":1}`)
		case "/v1/models":
			_, _ = io.WriteString(rw, `{"data":[{"id":"tiny"}]}`)
		case "/generate":
			_, _ = io.WriteString(rw, `{"text":"x"}`)
		}
	}))
	w.TLS = &tls.Config{
		Certificates: []tls.Certificate{ca.Issue("127.0.0.1").TLS}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(),
	}
	w.StartTLS()
	t.Cleanup(w.Close)
	return w
}

// TestTLSOnBothSides runs a router that asks its clients for certificates and shows one to its
// worker.
func TestTLSOnBothSides(t *testing.T) {
	ca := tlstest.NewAuthority(t)
	server, client := ca.Issue("127.0.0.1"), ca.Issue("client.test")
	worker := secureWorker(t, ca)
	d, err := router.New(router.Config{
		Listen: "127.0.0.1:0", Operator: config.Operator{Listen: "127.0.0.1:0"}, Sources: fleet.SourceConfig{Workers: []string{worker.URL}},
		Probes:    config.Probes{Timeout: time.Minute, HangAfter: time.Hour}, // this machine may be busy, which says nothing of the worker
		TLS:       tlsconfig.ServerFiles{Cert: server.Cert, Key: server.Key, ClientCA: ca.File},
		WorkerTLS: tlsconfig.ClientFiles{CA: ca.File, Cert: client.Cert, Key: client.Key},
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-done)
	}()
	pem, err := os.ReadFile(ca.File)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(pem))
	shows := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{client.TLS}}}}
	silent := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer shows.CloseIdleConnections()
	defer silent.CloseIdleConnections()

	require.Eventually(t, func() bool {
		resp, err := shows.Get("https://" + d.Addr() + "/ready")
		return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	}, 5*time.Minute, 10*time.Millisecond, "the worker is probed over TLS")
	require.Eventually(t, func() bool { // 502 where the machine stood still in the handshake with the worker, which has 1.5 s
		resp, err := shows.Post("https://"+d.Addr()+"/generate", "application/json", strings.NewReader(`{"input_ids":[1,2,3]}`))
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.Body.Close() == nil && string(body) == `{"text":"x"}`
	}, 5*time.Minute, 10*time.Millisecond, "the worker's answer")

	_, err = silent.Get("https://" + d.Addr() + "/health")
	require.ErrorContains(t, err, "certificate required")
	resp, err := silent.Get("https://" + d.OperatorAddr() + "/status")
	require.NoError(t, err, "operators have their key")
	require.NoError(t, resp.Body.Close())
}

func TestContradictingTLSSettings(t *testing.T) {
	ca := tlstest.NewAuthority(t)
	for _, cfg := range []router.Config{
		{Listen: "127.0.0.1:0", TLS: tlsconfig.ServerFiles{ClientCA: ca.File}},
		{Listen: "127.0.0.1:0", WorkerTLS: tlsconfig.ClientFiles{CA: ca.File, Insecure: true}},
	} {
		_, err := router.New(cfg)
		require.ErrorIs(t, err, config.ErrTLS)
	}
	_, err := router.New(router.Config{Listen: "127.0.0.1:0", TLS: tlsconfig.ServerFiles{Cert: ca.File}})
	require.ErrorIs(t, err, tlsconfig.ErrFiles)
}
