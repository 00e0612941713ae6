package request

import (
	"fmt"
	"hash/maphash"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// failing is the request of a new client and prompt, whose attempt at a worker has failed.
func failing() (*exchange, *worker.Rank) {
	h := &Handler{metrics: &Metrics{}}
	h.config.Store(&Config{})
	h.sources.seed = maphash.MakeSeed()
	x := &exchange{h: h, call: call{&fasthttp.RequestCtx{}}}
	x.errors.x = x
	return x, &worker.Rank{Worker: &worker.Worker{URL: "http://ill"}}
}

// TestFailures walks the table: each cause is found by its errors, has an answer that fits whose
// fault it is, and counts against its worker when and only when the table says so.
func TestFailures(t *testing.T) {
	for i := range failures {
		c, row := cause(i), &failures[i]
		t.Run(fmt.Sprintf("%d %s", i, row.label), func(t *testing.T) {
			if c == causeNone {
				assert.Equal(t, failure{}, *row)
				return
			}
			for _, err := range row.is {
				assert.Equal(t, c, causeOf(fmt.Errorf("cannot get answer: %w", err)), "an earlier row hides this one")
			}
			e := row.client("llama")
			assert.NotEmpty(t, e.Message)
			if row.fault >= faultBusy {
				assert.GreaterOrEqual(t, e.Status, http.StatusInternalServerError, "the client is told that it is at fault")
			}
			if c.leadsTo(again) {
				assert.NotEqual(t, faultNone, row.fault, "another worker is asked about nobody's fault")
			} else {
				assert.Zero(t, row.then&(untaken|free|pause|lastResort|suspect), "what follows only if another worker is asked")
			}
			if row.fault < faultWorker {
				_, rank := failing()
				assert.False(t, c.speaksAgainst(rank, time.Now()))
				assert.Zero(t, faultsOf(rank))
				return
			}
			walkFault(t, c)
		})
	}
}

func faultsOf(rank *worker.Rank) int { return rank.Worker.Breaker.Faults() }

// walkFault has a worker fail so, and another one answer well or nobody at all.
func walkFault(t *testing.T, c cause) {
	t.Helper()
	at := failures[c].fault
	x, rank := failing()
	assert.True(t, c.speaksAgainst(rank, time.Now()))
	x.errors.failed(rank, c)
	now := at == faultWorker || at == faultLoss
	assert.Equal(t, now, faultsOf(rank) == 1, "counts at once")
	x.choice.decision.Rank = &worker.Rank{Worker: &worker.Worker{URL: "http://well"}}
	x.errors.settle(x.choice.decision.Rank, finding{})
	assert.Equal(t, 1, faultsOf(rank), "another worker has answered well")

	x, rank = failing()
	x.errors.failed(rank, c)
	x.errors.undecided()
	assert.Equal(t, 1, faultsOf(rank), "of a new client and prompt")
	again := &worker.Rank{Worker: &worker.Worker{URL: "http://other"}}
	x.errors.reset()
	x.errors.failed(again, c)
	x.errors.undecided()
	assert.Equal(t, at == faultWorker, faultsOf(again) == 1, "the request has failed elsewhere, too")

	x, rank = failing()
	full := &worker.Rank{Worker: &worker.Worker{URL: "http://full"}}
	x.errors.list = append(x.errors.list, errorAnswer{rank: full, finding: findingOf(http.StatusTooManyRequests, false)})
	x.errors.failed(rank, c)
	x.errors.undecided()
	assert.Equal(t, 1, faultsOf(rank), "a full worker has no opinion")
	assert.Zero(t, faultsOf(full))
}

// TestCausesOfStatuses: every status has one cause, and no success has any.
func TestCausesOfStatuses(t *testing.T) {
	for status := 100; status < 600; status++ {
		for _, transfer := range []bool{false, true} {
			c := causeOfStatus(status, transfer)
			assert.Equal(t, status < 400, c == causeNone, status)
			assert.Equal(t, status >= 500 && transfer, c == causeTransfer, status)
			assert.Equal(t, c == causeNone, c.err() == nil, status)
		}
	}
	for status, want := range map[int]cause{400: causeInvalid, 404: causeInvalid, 429: causeBusy, 500: causeBroken, 503: causeBusy, 504: causeBroken} {
		assert.Equal(t, want, causeOfStatus(status, false), status)
	}
}

// TestADeadEngineIsDialledOnce: all that were in flight there learn of its death by one connection, one after another as well. A request
// that was sent later met another process.
func TestADeadEngineIsDialledOnce(t *testing.T) {
	dials, answer := 0, error(syscall.ECONNREFUSED)
	c := newCulprits(&Config{})
	c.dial = func(string) (net.Conn, error) {
		dials++
		conn, _ := net.Pipe()
		return conn, answer
	}
	a, b := &worker.Worker{URL: "http://a:1", Addr: "a:1"}, &worker.Worker{URL: "http://b:1", Addr: "b:1"}
	sent := time.Now()
	for range 2000 {
		assert.True(t, c.gone(a, sent, false))
		assert.True(t, c.gone(b, sent, false))
	}
	assert.Equal(t, 2, dials)
	answer = nil
	later := time.Now().Add(time.Minute)
	assert.False(t, c.gone(a, later, false), "the engine has been started again")
	assert.Equal(t, 3, dials)
	assert.True(t, c.gone(a, sent, false), "its predecessor has died all the same")
	assert.Equal(t, 3, dials)
}

// TestKeep: a monitor may end an attempt between the arrival of its first byte and its use. The
// connection is closed then: the bytes must not be forwarded as the beginning of an answer.
func TestKeep(t *testing.T) {
	x := &exchange{}
	a := singleAttempt{x: x}
	require.NoError(t, a.keep())
	x.canceler.Cancel()
	require.ErrorIs(t, a.keep(), upstream.ErrCanceled)
	x.canceler.Reset()
	require.NoError(t, a.keep())
}
