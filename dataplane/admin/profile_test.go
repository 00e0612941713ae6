package admin_test

import (
	"context"
	"io"
	"net/http"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/testkit"
)

// gzipMagic begins every profile.
const gzipMagic = "\x1f\x8b"

// TestProfiles: those of the runtime, and one of the CPU for a bounded time.
func TestProfiles(t *testing.T) {
	h := start(t, nil)
	resp, got := h.Do(http.MethodGet, h.Operator+"/debug/pprof/", "")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Contains(t, got, "allocs, block, goroutine, heap, mutex, profile, threadcreate")
	for _, path := range []string{"heap", "goroutine", "allocs", "profile?seconds=1"} {
		resp, got := h.Do(http.MethodGet, h.Operator+"/debug/pprof/"+path, "")
		require.Equal(t, http.StatusOK, resp.StatusCode, got)
		assert.True(t, strings.HasPrefix(got, gzipMagic), path)
		assert.Empty(t, resp.Header.Get("Content-Encoding"))
	}
	_, got = h.Do(http.MethodGet, h.Operator+"/debug/pprof/goroutine?debug=2", "")
	assert.Contains(t, got, "goroutine ")
	for path, status := range map[string]int{
		"profile?seconds=61": http.StatusBadRequest, "profile?seconds=0": http.StatusBadRequest, "profile?seconds=-1": http.StatusBadRequest,
		"profile?seconds=99999999999999999999": http.StatusBadRequest, "profile?seconds=x": http.StatusBadRequest, "profile?seconds=": http.StatusBadRequest,
		"heap?seconds=1": http.StatusBadRequest, "cmdline": http.StatusNotFound, "trace": http.StatusNotFound, "no": http.StatusNotFound,
	} {
		resp, got := h.Do(http.MethodGet, h.Operator+"/debug/pprof/"+path, "")
		assert.Equal(t, status, resp.StatusCode, "%s: %s", path, got)
	}
	resp, _ = h.Do(http.MethodPost, h.Operator+"/debug/pprof/heap", "")
	assert.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
}

// TestProfileEndsWithItsOperator: while a profile is made another one is refused. It ends when its operator leaves, and at shutdown.
func TestProfileEndsWithItsOperator(t *testing.T) {
	h := start(t, nil)
	running := func() bool {
		if pprof.StartCPUProfile(io.Discard) != nil {
			return true
		}
		pprof.StopCPUProfile()
		return false
	}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := longProfile(ctx, h)
		left <- err
	}()
	testkit.Await(t, "no profile runs", running)
	resp, _ := h.Do(http.MethodGet, h.Operator+"/debug/pprof/profile?seconds=1", "")
	require.Equal(t, http.StatusConflict, resp.StatusCode)
	leave()
	require.ErrorIs(t, <-left, context.Canceled)
	testkit.Await(t, "the profile runs on", func() bool { return !running() })

	whole := make(chan string, 1)
	go func() {
		got, err := longProfile(t.Context(), h)
		assert.NoError(t, err)
		whole <- got
	}()
	testkit.Await(t, "no profile runs", running)
	h.Stop()
	assert.True(t, strings.HasPrefix(<-whole, gzipMagic), "a shutdown ends it")
}

// longProfile fetches a profile of a minute, again where the test's own look was in its way.
func longProfile(ctx context.Context, h *harness) (string, error) {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.Operator+"/debug/pprof/profile?seconds=60", nil)
		if err != nil {
			return "", err
		}
		resp, err := h.Client.Do(req)
		if err != nil {
			return "", err
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusConflict {
			return string(got), err
		}
	}
}
