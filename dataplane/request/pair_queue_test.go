package request_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/request"
)

// A request waits while no pair has room at both workers, is sent as soon as one has, and the
// queue ends empty. Either worker may be the full one: with two prefill workers and one decode
// worker, it is the latter.
func TestPairQueue(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name              string
		prefills, decodes int
	}{{"decode is full", 2, 1}, {"prefill is full", 1, 2}, {"both are", 1, 1}} {
		t.Run(tt.name, func(t *testing.T) {
			p, d := newPair(t, tt.prefills, tt.decodes, 1)
			finish := make(chan struct{})
			for _, l := range append(append([]*fakeLeg(nil), p...), d...) {
				l.does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
					room := l.arrives(b)
					<-finish
					if l.waits(r, room) {
						says(http.StatusOK, "application/json", decodeReply)(l, rw, r, b)
					}
				})
			}
			h := startPair(t, p, d, withConfig(func(c *request.Config) { c.Queue.MaxInFlight, c.Queue.Timeout = 2, patience }))
			const requests = 8
			var wg sync.WaitGroup
			counted := func() (n int64) {
				st := h.admin.Status()
				for _, w := range st.Workers {
					if w.Role == "decode" {
						n += w.Load.OwnInFlight
					}
				}
				return n + int64(st.Queue.Waiting)
			}
			for i := range requests { // one after the other: those of one instant pass before the first is counted
				require.Eventually(t, func() bool { return counted() == int64(i) }, patience, tick, "not all are sent or wait")
				wg.Go(func() {
					resp, got, err := h.do(http.MethodPost, h.base+"/generate", pairRequest(false))
					if assert.NoError(t, err) {
						assert.Equal(t, http.StatusOK, resp.StatusCode)
						assert.Equal(t, decodeReply, got)
					}
				})
			}
			require.Eventually(t, func() bool {
				q := h.admin.Status().Queue
				return q.Waiting > 0 && h.admin.Status().InFlight == requests
			}, patience, tick, "nobody waits")
			close(finish)
			wg.Wait()
			noneRunning(t, h)
			require.Eventually(t, func() bool { return h.admin.Status().Queue.Waiting == 0 }, patience, 10*time.Millisecond)
		})
	}
}
