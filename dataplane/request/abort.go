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
	clients   clientAborts
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
	// maxClientAborts bounds the aborts that clients ask for, and maxAbortsOfClient those of one.
	// Each takes a place for abortAgain.
	maxClientAborts, maxAbortsOfClient = 512, 128
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
		slots: make(chan struct{}, maxAborts), clients: clientAborts{of: map[uint64]int{}}, stop: make(chan struct{}),
	}
}

// send aborts a request in the background, for the log by its name, by the worker's ids of its
// prompts.
func (a *aborter) send(w *worker.Worker, name []byte, ids []string) {
	select {
	case a.slots <- struct{}{}:
		a.start(w, name, ids, func() { <-a.slots })
	default:
		a.metrics.abortsDropped.Inc()
	}
}

// sendFor is send for a client that asks for it. It reports false where too many aborts of the
// client, or of all, are under way.
func (a *aborter) sendFor(client uint64, w *worker.Worker, name []byte, ids []string) bool {
	if !a.clients.begin(client) {
		a.metrics.abortsDropped.Inc()
		return false
	}
	a.start(w, name, ids, func() { a.clients.end(client) })
	return true
}

func (a *aborter) start(w *worker.Worker, name []byte, ids []string, end func()) {
	log := a.log.With(logKeyName, string(name))
	a.running.Go(func() {
		defer end()
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

// clientAborts are the aborts under way that clients have asked for. They have places of their own,
// so that they crowd out none of the router's.
type clientAborts struct {
	mu  sync.Mutex
	all int            // guarded by mu
	of  map[uint64]int // by client; guarded by mu
}

// begin takes a place.
func (c *clientAborts) begin(client uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= maxClientAborts || c.of[client] >= maxAbortsOfClient {
		return false
	}
	c.all++
	c.of[client]++
	return true
}

// end gives a place back.
func (c *clientAborts) end(client uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.of[client]--; c.of[client] == 0 {
		delete(c.of, client)
	}
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
