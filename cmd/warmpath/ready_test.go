package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// silence accepts connections and says nothing, until it is closed with all of them.
func silence(t *testing.T) (port string, end func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var mu sync.Mutex
	var open []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
		}
	}()
	end = sync.OnceFunc(func() {
		_ = l.Close()
		<-done
		for _, conn := range open {
			_ = conn.Close()
		}
	})
	t.Cleanup(end)
	_, port, err = net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port, end
}

// TestReadyWhenEventsAreKnown: a router that begins is not ready while it learns what its only worker holds, and is when that is
// known, or known to be unknowable.
func TestReadyWhenEventsAreKnown(t *testing.T) {
	events, end := silence(t)
	worker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ready":
		case "/v1/models":
			fmt.Fprint(w, `{"data":[{"id":"tiny"}]}`)
		case "/server_info":
			fmt.Fprintf(w, `{"version":"0.5.23","served_model_name":"tiny","page_size":4,"kv_events":
				{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":%s,"block_size":4}}`, events)
		default:
			http.NotFound(w, r)
		}
	}))
	defer worker.Close()
	cfg := router.Config{Listen: "127.0.0.1:0", Policy: config.Policy{Name: "kv"}, Sources: fleet.SourceConfig{Workers: []string{worker.URL}}, Log: slog.New(slog.DiscardHandler)}
	unhurried(&cfg)
	router, err := router.New(cfg)
	require.NoError(t, err)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	runTo(t, router.Run)

	ready := func() (ok bool, lacks map[string]string) {
		resp, err := http.Get("http://" + router.Addr() + "/ready")
		require.NoError(t, err)
		defer resp.Body.Close()
		var answer struct {
			Ready bool              `json:"ready"`
			Lacks map[string]string `json:"lacks"`
		}
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
		require.Equal(t, answer.Ready, resp.StatusCode == http.StatusOK)
		return answer.Ready, answer.Lacks
	}
	testkit.AwaitThat(t, func() bool { return stateAt(router, worker.URL) == "ready" }, func() string { return "the worker is not ready" })
	if state := router.Status().Workers[0].Events.State; state == "connecting" || state == "replaying" {
		ok, lacks := ready()
		require.False(t, ok)
		require.Contains(t, lacks["tiny"], "events")
	}
	end()
	testkit.AwaitThat(t, func() bool { ok, _ := ready(); return ok }, func() string { _, lacks := ready(); return fmt.Sprint(lacks) })
}
