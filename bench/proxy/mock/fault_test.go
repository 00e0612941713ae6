package mock_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/proxy/mock"
)

// TestFaults: a worker that was told to fail does so, for probes too, until it is told to stop; others do not.
func TestFaults(t *testing.T) {
	w, urls := start(t, mock.Config{Workers: 2, PageSize: 4, CachePages: 100})
	fault := func(kind string) int {
		status, _ := get(t, urls[0]+"/bench/fault?kind="+kind)
		return status
	}
	require.Equal(t, http.StatusOK, fault("busy"))
	for _, path := range []string{"/ready", "/generate"} {
		status, _ := post(t, urls[0]+path, `{"text":"x"}`)
		require.Equal(t, http.StatusServiceUnavailable, status, path)
	}
	require.Equal(t, http.StatusOK, fault("close"))
	_, err := http.Post(urls[0]+"/generate", "application/json", strings.NewReader(`{"text":"x"}`))
	require.Error(t, err)
	status, _ := post(t, urls[1]+"/generate", `{"text":"x"}`)
	require.Equal(t, http.StatusOK, status, "the other one")
	require.Equal(t, http.StatusBadRequest, fault("fever"))
	require.Equal(t, http.StatusOK, fault("none"))
	status, _ = post(t, urls[0]+"/generate", `{"text":"x"}`)
	require.Equal(t, http.StatusOK, status)
	s, ok := w.Stats(t.Context())
	require.True(t, ok)
	require.GreaterOrEqual(t, s.Faulty, uint64(3))
}
