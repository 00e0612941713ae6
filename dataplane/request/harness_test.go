package request_test

import (
	"crypto/tls"
	"flag"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/leaktest"
	"github.com/warmpath/warmpath/dataplane/request/requesttest"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "16") // -parallel overrides it: tests wait for most of their time
	leaktest.Main(m, leaktest.FastHTTP()...)
}

// The fixture's parts by short names.
type (
	fakeWorker = requesttest.Worker
	settings   = requesttest.Settings
	option     = requesttest.Option
)

var (
	newFakeWorker = requesttest.NewWorker
	info          = requesttest.Info
	withOperator  = requesttest.WithOperator
	withPolicy    = requesttest.WithPolicy
	withConfig    = requesttest.WithConfig
	withWorkers   = requesttest.WithWorkers
	withParts     = requesttest.WithParts
)

const (
	idsBody  = requesttest.IDsBody
	idsReply = requesttest.IDsReply
)

// harness is a router over fake workers.
type harness struct {
	*requesttest.Router
	t       *testing.T
	prompts int // that ask has sent
}

func start(t *testing.T, workers []*fakeWorker, options ...option) *harness {
	t.Helper()
	return &harness{Router: requesttest.Start(t, workers, options...), t: t}
}

// soonHung finds a hang after three probes of 2 s each: soon enough to wait for, while no
// machine stalls probe after probe for so long.
func soonHung(c *worker.Config) { c.Timeout, c.HangAfter = 2*time.Second, 3*time.Second }

// withTLS has the clients' listener speak TLS.
func withTLS(cfg *tls.Config) option {
	return func(s *settings) { s.Server.TLS = cfg }
}

// failsOver checks that a stream comes from the good one of two workers, whichever is asked first.
func failsOver(t *testing.T, path, body, answer string, fail func(bad *fakeWorker)) {
	t.Helper()
	bad, good := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
	fail(bad)
	good.Streams(path, answer)
	h := start(t, []*fakeWorker{bad, good})
	asked := false
	for i := 0; i < 40 && !asked; i++ {
		resp, got := h.Post(path, body+`,"stream":true}`)
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		assert.Equal(t, answer, got)
		asked = bad.LastBody() != ""
	}
	assert.True(t, asked, "the failing worker was never asked")
}
