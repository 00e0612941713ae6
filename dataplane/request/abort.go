package request

import (
	"log/slog"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// aborter tells workers to stop requests whose client has gone.
type aborter struct {
	transport *upstream.Transport
	metrics   *metrics
	log       *slog.Logger
	slots     chan struct{}
	stop      chan struct{}
	once      sync.Once
	running   sync.WaitGroup
}

const (
	// abortSlots bounds the goroutines: when more clients than this leave within
	// abortAgain, the workers' own detection of closed connections must do. The death of one leg of pairs is as many aborts at
	// once as it had requests.
	abortSlots = 1024
	// abortAgain is the pause before the second try. A worker knows an id only
	// once its tokenizer is done with the request; before that, it ignores the
	// first one.
	abortAgain   = time.Second
	abortTimeout = 2 * time.Second
	// maxAbortedPrompts bounds the ids aborted of one batch.
	maxAbortedPrompts = 1024
)

func newAborter(t *upstream.Transport, m *metrics, log *slog.Logger) *aborter {
	return &aborter{transport: t, metrics: m, log: log, slots: make(chan struct{}, abortSlots), stop: make(chan struct{})}
}

// send aborts a request in the background. A batch is known to the worker as
// rid_0, rid_1 and so on, or by the client's own list.
func (a *aborter) send(w *worker.Worker, rid []byte, rids []string, batch bool, prompts int) {
	select {
	case a.slots <- struct{}{}:
	default:
		a.metrics.abortsDropped.Inc()
		return
	}
	ids := append([]string(nil), rids...)
	if len(ids) == 0 && len(rid) > 0 {
		ids = batchIDs(string(rid), batch, prompts)
	}
	a.running.Go(func() {
		defer func() { <-a.slots }()
		a.abort(w, ids)
		timer := time.NewTimer(abortAgain)
		defer timer.Stop()
		select {
		case <-timer.C:
			a.abort(w, ids)
		case <-a.stop:
		}
	})
}

func batchIDs(rid string, batch bool, prompts int) []string {
	if !batch {
		return []string{rid}
	}
	ids := make([]string, min(prompts, maxAbortedPrompts))
	for i := range ids {
		ids[i] = string(openai.AppendItemRID(nil, rid, i))
	}
	return ids
}

var (
	methodPost = []byte("POST")
	abortPath  = []byte("/abort_request")
	abortType  = []upstream.Field{{Key: "Content-Type", Value: []byte("application/json")}}
)

func (a *aborter) abort(w *worker.Worker, ids []string) {
	for _, id := range ids {
		body := append(openai.AppendStringField([]byte{'{'}, "rid", id), '}')
		resp, err := a.transport.Do(nil, &upstream.Request{
			Target: upstream.Target{Addr: w.Addr, TLS: w.TLS}, Method: methodPost, Path: abortPath, Extra: abortType,
			Body: [][]byte{body}, HeaderTimeout: abortTimeout, ReadTimeout: abortTimeout,
		})
		if err != nil {
			a.log.Debug("cannot abort request", "worker", w.URL, "error", err)
			return
		}
		_ = resp.Close()
		a.metrics.aborts.Inc()
	}
}

// wait ends the pauses and waits for what is on its way.
func (a *aborter) wait() {
	a.once.Do(func() { close(a.stop) })
	a.running.Wait()
}

// abort tells the worker to stop: closing the connection does not reliably do
// so.
func (e *exchange) abort() {
	switch {
	case e.decision.Decode != nil:
		e.abortAt(e.decision.Decode.Worker, legDecode) // stopLegs has told the other one
	case e.inferred && e.decision.Rank != nil:
		e.s.aborts.send(e.decision.Rank.Worker, e.rid, e.req.RIDs, e.req.Batch, e.req.Prompts)
	}
}

// abortAt tells one worker of a pair to stop.
func (e *exchange) abortAt(w *worker.Worker, leg string) {
	if !e.inferred {
		return
	}
	e.s.metrics.pairs.aborts.WithLabelValues(leg).Inc()
	e.s.aborts.send(w, e.rid, e.req.RIDs, e.req.Batch, e.req.Prompts)
}
