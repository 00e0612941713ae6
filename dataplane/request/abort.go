package request

import (
	"log/slog"
	"slices"
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
	underWay  abortsUnderWay
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
// client, or of all, are under way. One that is under way already takes no place: a batch has a
// thousand ids, and each abort of it would send all of them.
func (a *aborter) sendFor(client uint64, w *worker.Worker, name []byte, ids []string) bool {
	if a.underWay.has(w, ids) {
		return true
	}
	if !a.clients.begin(client) {
		a.metrics.abortsDropped.Inc()
		return false
	}
	a.start(w, name, ids, func() { a.clients.end(client) })
	return true
}

func (a *aborter) start(w *worker.Worker, name []byte, ids []string, end func()) {
	log := a.log.With(logKeyName, string(name))
	a.underWay.begin(w, ids)
	a.running.Go(func() {
		defer end()
		defer a.underWay.end(w, ids)
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

// abortsUnderWay are the ids of all aborts under way, with the workers that get them.
type abortsUnderWay struct {
	mu sync.Mutex
	of map[string][]*worker.Worker // nearly always one; guarded by mu
}

func (u *abortsUnderWay) begin(w *worker.Worker, ids []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of == nil {
		u.of = map[string][]*worker.Worker{}
	}
	for _, id := range ids {
		u.of[id] = append(u.of[id], w)
	}
}

func (u *abortsUnderWay) end(w *worker.Worker, ids []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, id := range ids {
		i := slices.Index(u.of[id], w)
		if u.of[id] = slices.Delete(u.of[id], i, i+1); len(u.of[id]) == 0 {
			delete(u.of, id)
		}
	}
}

// has reports whether a worker gets the aborts of all ids.
func (u *abortsUnderWay) has(w *worker.Worker, ids []string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, id := range ids {
		if !slices.Contains(u.of[id], w) {
			return false
		}
	}
	return true
}

// ends reports whether an abort under way may end a request with such an id.
func (u *abortsUnderWay) ends(id *requestID, req *openai.Request) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.of) > 0 && slices.ContainsFunc(id.all(req), func(id string) bool { return u.of[id] != nil })
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
