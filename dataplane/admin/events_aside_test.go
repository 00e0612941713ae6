package admin_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// TestEventsSetAsideAreShown in /status, /explain and the metrics, with the reason.
func TestEventsSetAsideAreShown(t *testing.T) {
	w := newFakeWorker(t, info(1))
	h := start(t, []*fakeWorker{w})
	rank := h.Worker(w).Ranks()[0]
	require.Nil(t, h.byURL()[w.URL].Trust.Events)
	for range 100 {
		rank.ReadBatch(time.Now(), false)
	}
	aside := h.byURL()[w.URL].Trust.Events
	require.NotNil(t, aside)
	require.Equal(t, worker.EventsUnreadable.Why(), aside.Why)
	e, _ := h.explain("", `{"input_ids":[1,2,3]}`)
	require.Equal(t, aside, e.Ranks[0].Trust.Events)
	require.Contains(t, h.Metrics(), `warmpath_rank_events_set_aside{fault="unreadable",rank="0",worker="`+rank.Worker.URL+`"} 1`)
	require.Contains(t, h.Metrics(), `warmpath_rank_events_set_aside_total{rank="0",worker="`+rank.Worker.URL+`"} 1`)
}
