package request_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/request"
)

// TestClaimsRefuseNobody: a router that claims all places of a worker without reports leaves the
// others their part of them: of two the half, and beyond it requests are refused.
func TestClaimsRefuseNobody(t *testing.T) {
	w, began, finish := busyWorker(t)
	h := start(t, []*fakeWorker{w}, withWorkers(func(c *worker.Config) { c.LoadEvery = -1 }), func(s *settings) {
		s.Request.Queue = request.QueueConfig{MaxInFlight: 6, Timeout: 20 * time.Millisecond}
	})
	load := &h.Registry.Snapshot().Ranks[0].Load
	load.SetRouters(2)
	load.ReplacePeer(time.Now(), worker.RouterLoad{}, worker.RouterLoad{InFlight: 1 << 20, Waiting: 1 << 20, Pending: 1 << 30, Used: 1 << 30})
	var served, refused sync.WaitGroup
	statuses := make([]*int, 3)
	for i := range statuses {
		statuses[i] = h.send(t.Context(), &served, `{"text":"mine"}`)
		require.Eventually(t, func() bool { return len(began) == i+1 }, patience, tick)
	}
	more := h.send(t.Context(), &refused, `{"text":"one more"}`)
	refused.Wait()
	require.Equal(t, http.StatusTooManyRequests, *more)
	for range statuses {
		finish <- struct{}{}
	}
	served.Wait()
	for _, status := range statuses {
		require.Equal(t, http.StatusOK, *status)
	}
}
