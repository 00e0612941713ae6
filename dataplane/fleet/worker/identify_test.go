package worker_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

func TestIdentify(t *testing.T) {
	recorded, err := os.ReadFile("testdata/server_info_0.5.23.json")
	require.NoError(t, err)
	old := `{"model_path":"/m","tp_size":4,"page_size":1,"base_gpu_id":2,"gpu_id_step":2,"nnodes":2,"device":"cuda","enable_dp_attention":true}`
	tests := []struct {
		name   string
		serve  http.HandlerFunc
		worker bool // it is one
		final  bool // it says that it is none
		asks   int64
	}{
		{"SGLang", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(recorded) }, true, false, 1},
		{"an old release", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/get_server_info" {
				http.NotFound(w, r)
				return
			}
			fmt.Fprint(w, old)
		}, true, false, 2},
		{"a web server", http.NotFound, false, true, 2},
		{"another API", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"version":"1","model_path":""}`) }, false, true, 1},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `<html>`) }, false, true, 1},
		{"impossible", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"model_path":"m","tp_size":1,"dp_size":99999}`)
		}, false, true, 1},
		{"a key is wanted", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, false, true, 1},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, false, true, 1},
		{"a router", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Warmpath-Worker", "http://gpu1:30000")
			_, _ = w.Write(recorded)
		}, false, true, 1},
		{"it starts", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, false, false, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var asks atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asks.Add(1)
				assert.Equal(t, "warmpath-node", r.Header.Get("User-Agent"))
				tt.serve(w, r)
			}))
			defer s.Close()
			info, err := worker.Identify(t.Context(), s.URL, worker.Config{Timeout: 30 * time.Second})
			assert.Equal(t, tt.worker, err == nil, "%v", err)
			assert.Equal(t, tt.worker, info != nil)
			if !tt.worker {
				assert.Equal(t, tt.final, errors.Is(err, worker.ErrNotWorker), "%v", err)
			}
			assert.Equal(t, tt.asks, asks.Load(), "requests")
		})
	}
}

// TestIdentifyOthers asks servers that do not speak HTTP: those that greet are told apart at
// once, silence may pass.
func TestIdentifyOthers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	greeting := []byte("SSH-2.0-OpenSSH_9.2p1\r\n")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = c.Write(greeting)
		}
	}()
	url := "http://" + l.Addr().String()
	_, err = worker.Identify(t.Context(), url, worker.Config{Timeout: time.Hour})
	require.ErrorIs(t, err, worker.ErrNotWorker)
	assert.Contains(t, err.Error(), "does not speak HTTP")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err = worker.Identify(ctx, url, worker.Config{})
	assert.ErrorIs(t, err, context.Canceled)
	l.Close()
	<-ended
	_, err = worker.Identify(t.Context(), "http://127.0.0.1:1", worker.Config{})
	require.Error(t, err)
	assert.NotErrorIs(t, err, worker.ErrNotWorker, "what refuses connections may start")
	_, err = worker.Identify(t.Context(), "ftp://x", worker.Config{})
	assert.ErrorIs(t, err, worker.ErrBadURL)

	silent, err := net.Listen("tcp", "127.0.0.1:0") // its backlog takes the connection
	require.NoError(t, err)
	defer silent.Close()
	_, err = worker.Identify(t.Context(), "http://"+silent.Addr().String(), worker.Config{Timeout: 20 * time.Millisecond})
	require.Error(t, err)
	assert.NotErrorIs(t, err, worker.ErrNotWorker, "silence is no answer")
}

func TestPlacement(t *testing.T) {
	info, err := worker.ParseInfo([]byte(`{"port":30001,"device":"cuda","pp_size":2,"nnodes":2,"base_gpu_id":4,"gpu_id_step":2,"enable_dp_attention":true}`), "h")
	require.NoError(t, err)
	assert.Equal(t, worker.Placement{Port: 30001, Device: "cuda", PPSize: 2, Nodes: 2, BaseGPU: 4, GPUStep: 2, DPAttention: true}, info.Placement)
	info, err = worker.ParseInfo([]byte(`{"port":700000,"base_gpu_id":-1}`), "h")
	require.NoError(t, err)
	assert.Zero(t, info.Placement)
}
