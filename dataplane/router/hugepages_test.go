package router

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/router/config"
	"github.com/warmpath/warmpath/radix/hugepage"
)

func newIdle(t *testing.T, hugePages bool) *Router {
	t.Helper()
	d, err := New(Config{Listen: "127.0.0.1:0", Memory: config.Memory{HugePages: hugePages}, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return d
}

// run runs d until the test ends.
func run(t *testing.T, d *Router) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
}

// metrics returns the text of /metrics, once the router serves it.
func metrics(t *testing.T, d *Router) string {
	t.Helper()
	defer http.DefaultClient.CloseIdleConnections()
	resp, err := http.Get("http://" + d.OperatorAddr() + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}

func TestHugePagesOnlyWhereAsked(t *testing.T) {
	d := newIdle(t, false)
	run(t, d)
	text := metrics(t, d)
	assert.Contains(t, text, "warmpath_index_blocks")
	assert.NotContains(t, text, "warmpath_huge_page_bytes")
	assert.Zero(t, d.Status().HugePageBytes)
}

func TestHugePagesAreShown(t *testing.T) {
	if setting := hugepage.Setting(); setting != "always" && setting != "madvise" {
		t.Skipf("transparent huge pages are %q here", setting)
	}
	d := newIdle(t, true)
	ballast := make([]byte, 96<<20) // stands for an index
	for i := range ballast {
		ballast[i] = 1
	}
	runtime.GC() // knows of it then
	run(t, d)
	const enough = 16 << 20
	for end := time.Now().Add(5 * time.Minute); d.Status().HugePageBytes < enough; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			require.Less(t, hugepage.Bytes(), int64(enough), "the router does not say how much of it is in huge pages")
			t.Skip("the kernel gives no huge pages")
		}
	}
	assert.Contains(t, metrics(t, d), "warmpath_huge_page_bytes ")
	runtime.KeepAlive(ballast)
}
