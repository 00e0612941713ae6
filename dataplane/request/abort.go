package request

import (
	"log/slog"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// aborter has workers stop requests after their client has left or their other leg has failed.
type aborter struct {
	transport *upstream.Transport
	metrics   *Metrics
	log       *slog.Logger
	slots     chan struct{}
	stop      chan struct{}
	once      sync.Once
	running   sync.WaitGroup
	refused   sync.Once // was logged
}

const (
	// maxAborts bounds the goroutines: when more clients leave within abortAgain, the workers' own
	// detection of closed connections must do. The death of a pair's worker causes as many aborts
	// at once as it had requests.
	maxAborts = 1024
	// abortAgain is the pause before the second abort. A worker ignores an id until its tokenizer
	// is done with the request.
	abortAgain   = time.Second
	abortTimeout = 2 * time.Second
	// maxAbortedPrompts bounds the aborted ids of one batch.
	maxAbortedPrompts = 1024
)

func newAborter(t *upstream.Transport, m *Metrics, log *slog.Logger) *aborter {
	return &aborter{
		transport: t, metrics: m, log: log,
		slots: make(chan struct{}, maxAborts), stop: make(chan struct{}),
	}
}

// send aborts a request in the background, for the log by its name. The worker names the prompts of
// a batch rid_0, rid_1 and so on, or by the client's own list.
func (a *aborter) send(w *worker.Worker, name, rid []byte, rids []string, batch bool, prompts int) {
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
	log := a.log.With(logKeyName, string(name))
	a.running.Go(func() {
		defer func() { <-a.slots }()
		a.abort(w, log, ids)
		timer := time.NewTimer(abortAgain)
		defer timer.Stop()
		select {
		case <-timer.C:
			a.abort(w, log, ids)
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
	abortType  = upstream.Field{Key: "Content-Type", Value: []byte("application/json")}
)

// abort sends one abort for each id.
func (a *aborter) abort(w *worker.Worker, log *slog.Logger, ids []string) {
	for _, id := range ids {
		body := append(openai.AppendStringField([]byte{'{'}, "rid", id), '}')
		resp, err := a.transport.Do(nil, &upstream.Request{
			Target: upstream.Target{Addr: w.Addr, TLS: w.TLS}, Method: methodPost,
			Path: abortPath, Extra: []upstream.Field{abortType, {Key: headerAuthorization, Value: w.Key().Admin()}},
			Body: [][]byte{body}, HeaderTimeout: abortTimeout, ReadTimeout: abortTimeout,
		})
		if err != nil {
			log.Debug("cannot abort request", "worker", w.URL, "error", err)
			return
		}
		status := resp.Status
		_ = resp.Close()
		if status == fasthttp.StatusUnauthorized || status == fasthttp.StatusForbidden {
			a.refused.Do(func() {
				log.Warn("worker refuses aborts, so that requests go on whose clients have left: give its key in --worker-api-key-file, "+
					"its --admin-api-key where it has one", "worker", w.URL, "status", status)
			})
			return
		}
		a.metrics.aborts.Inc()
	}
}

// wait ends the pauses and waits for the aborts that are under way.
func (a *aborter) wait() {
	a.once.Do(func() { close(a.stop) })
	a.running.Wait()
}
