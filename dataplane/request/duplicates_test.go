package request_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/request"
)

// silentWorkers accept requests and do not answer them until the test lets them; their probes
// are answered.
func silentWorkers(t *testing.T, n int) (silent []*hanging, workers []*fakeWorker) {
	t.Helper()
	for range n {
		g := hang(newFakeWorker(t, info(1)), givesReply, "/generate")
		silent, workers = append(silent, g), append(workers, g.fakeWorker)
	}
	return silent, workers
}

func goOn(silent []*hanging) {
	for _, g := range silent {
		close(g.goOn)
	}
}

// asked returns the number of workers that have got a request.
func asked(silent []*hanging) (n int) {
	for _, g := range silent {
		if len(g.arrived) > 0 {
			n++
		}
	}
	return n
}

// Equal requests without an answer go to two workers, until one of these has survived them: a
// request that takes long ends no engine.
func TestEqualRequestsThatTakeLongGoToAll(t *testing.T) {
	silent, workers := silentWorkers(t, 5)
	h := start(t, workers, withPolicy("round-robin"))
	began := time.Now()
	var answers []<-chan waited
	for asked(silent) < 2 {
		require.Less(t, time.Since(began), patience)
		answers = append(answers, h.asks(idsBody))
		time.Sleep(tick)
	}
	for asked(silent) < len(silent) {
		require.Less(t, time.Since(began), patience, "%d workers are asked", asked(silent))
		answers = append(answers, h.asks(idsBody))
		time.Sleep(100 * time.Millisecond)
	}
	goOn(silent)
	for _, a := range answers {
		assert.Equal(t, http.StatusOK, (<-a).status)
	}
}

// A request that may go neither to the two workers with equal requests nor to another one is
// answered by its deadline.
func TestAnEqualRequestWaitsForItsDeadline(t *testing.T) {
	const deadline = time.Second
	stream := strings.Replace(idsBody, "{", `{"stream":true,`, 1) // without an event it says nothing of its worker, however long
	silent, workers := silentWorkers(t, 3)
	h := start(t, workers, withPolicy("round-robin"))
	var answers []<-chan waited
	for began := time.Now(); asked(silent) < 2; time.Sleep(tick) {
		require.Less(t, time.Since(began), patience)
		answers = append(answers, h.asks(stream))
	}
	for _, g := range silent {
		if len(g.arrived) > 0 {
			h.worker(g.fakeWorker).Drain(true)
		}
	}
	h.requests.Configure(func(c *request.Config) { c.FirstByteTimeout = deadline })
	late := <-h.asks(stream)
	assert.Equal(t, http.StatusGatewayTimeout, late.status, late.body)
	assert.GreaterOrEqual(t, late.took, deadline)
	goOn(silent)
	for _, a := range answers {
		<-a
	}
	assert.Equal(t, 2, asked(silent))
}
