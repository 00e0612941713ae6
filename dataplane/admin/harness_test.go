package admin_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/leaktest"
	"github.com/warmpath/warmpath/dataplane/request/requesttest"
)

func TestMain(m *testing.M) { leaktest.Main(m, leaktest.FastHTTP()...) }

// The fixture's parts by short names.
type fakeWorker = requesttest.Worker

var (
	newFakeWorker = requesttest.NewWorker
	info          = requesttest.Info
	withOperator  = requesttest.WithOperator
	withPolicy    = requesttest.WithPolicy
)

const (
	idsBody  = requesttest.IDsBody
	idsReply = requesttest.IDsReply
)

// harness is a router over fake workers, which it probes often.
type harness struct {
	*requesttest.Router
	t *testing.T
}

func start(t *testing.T, workers []*fakeWorker, options ...requesttest.Option) *harness {
	t.Helper()
	often := requesttest.WithWorkers(func(c *worker.Config) { c.Interval = 20 * time.Millisecond })
	return &harness{Router: requesttest.Start(t, workers, append([]requesttest.Option{often}, options...)...), t: t}
}

// newPair makes so many prefill and decode workers.
func newPair(t *testing.T, prefills, decodes int) (p, d []*fakeWorker) {
	t.Helper()
	port := requesttest.Bootstrap(t)
	half := func(mode string) *fakeWorker {
		w := newFakeWorker(t, requesttest.HalfInfo(mode, 1, port))
		w.Answers("/generate", idsReply)
		return w
	}
	for range prefills {
		p = append(p, half("prefill"))
	}
	for range decodes {
		d = append(d, half("decode"))
	}
	return p, d
}
