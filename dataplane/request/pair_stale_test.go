package request_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// closesIdle has a leg close each connection that it has answered on once: the router learns of it
// when its next request is on the way.
func closesIdle(l *fakeLeg, then act) (closed func() int) {
	var mu sync.Mutex
	used, n := map[string]bool{}, 0 // guarded by mu
	l.does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
		mu.Lock()
		again := used[r.RemoteAddr]
		used[r.RemoteAddr] = true
		if again {
			n++
		}
		mu.Unlock()
		if again {
			dies(l, rw, r, b)
		}
		then(l, rw, r, b)
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// A connection that a worker has closed while it was idle is no failure of either leg: the request
// is sent again on new ones, in new rooms, to the same pair.
func TestPairStaleConnections(t *testing.T) {
	t.Parallel()
	for _, legs := range []string{"prefill", "decode", "both"} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%v", legs, stream), func(t *testing.T) {
				t.Parallel()
				p, d := newPair(t, 1, 1, 1)
				closed := func() int { return 0 }
				if legs != "decode" {
					closed = closesIdle(p[0], meets)
				}
				if legs != "prefill" {
					closed = closesIdle(d[0], meets)
				}
				h := startPair(t, p, d)
				// A prefill leg that is a moment behind its partner's answer is stopped, and leaves no
				// connection: on a busy machine that may be several in a row.
				const requests, most = 6, 1000
				for n := 0; n < requests || n < most && closed() == 0; n++ {
					resp, got := h.post("/generate", pairRequest(stream))
					require.Equal(t, http.StatusOK, resp.StatusCode, got)
					require.Equal(t, pairReply(stream), got)
				}
				assert.NotZero(t, closed(), "no connection was used again")
				noneBlamed(t, h)
				noneRunning(t, h)
			})
		}
	}
}

// SGLang refuses an id that it still has, and the leg that was reached keeps the client's own until
// it is aborted: such a request takes new connections from the beginning.
func TestPairStaleConnectionsAndOwnIDs(t *testing.T) {
	t.Parallel()
	p, d := newPair(t, 1, 1, 1)
	stale := []func() int{closesIdle(p[0], meets), closesIdle(d[0], meets)}
	h := startPair(t, p, d)
	for i := range 3 {
		resp, got := h.post("/generate", fmt.Sprintf(`{"rid":"%032d","text":"x"}`, i))
		require.Equal(t, http.StatusOK, resp.StatusCode, got)
	}
	for _, closed := range stale {
		assert.Zero(t, closed(), "requests on connections that may be stale")
	}
	noneBlamed(t, h)
	noneRunning(t, h)
}

// A worker that ends the new connection too has failed.
func TestPairStaleConnectionToADeadLeg(t *testing.T) {
	t.Parallel()
	for _, leg := range []string{"prefill", "decode"} {
		t.Run(leg, func(t *testing.T) {
			t.Parallel()
			p, d := newPair(t, 1, 1, 1)
			bad := p[0]
			if leg == "decode" {
				bad = d[0]
			}
			h := startPair(t, p, d)
			resp, got := h.post("/generate", pairRequest(true))
			require.Equal(t, http.StatusOK, resp.StatusCode, got)
			bad.does(dies)
			resp, got = h.post("/generate", pairRequest(true))
			assert.Equal(t, http.StatusBadGateway, resp.StatusCode, got)
			for _, w := range h.registry.Snapshot().Workers {
				if w.URL == bad.url {
					assert.NotZero(t, w.Breaker.Faults())
				} else {
					assert.Zero(t, w.Breaker.Faults())
				}
			}
			noneRunning(t, h)
		})
	}
}

// noneBlamed requires that no worker was held responsible for a failure.
func noneBlamed(t *testing.T, h *harness) {
	t.Helper()
	for _, w := range h.registry.Snapshot().Workers {
		assert.Zero(t, w.Breaker.Faults(), w.URL)
		assert.Zero(t, w.Breaker.Opened(), w.URL)
		for _, r := range w.Ranks() {
			assert.Zero(t, r.Count.Errors.Load(), w.URL)
		}
	}
}
