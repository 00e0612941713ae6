package request

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/request/clientkey"
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
			Path: abortPath, Extra: []upstream.Field{abortType, {Key: fasthttp.HeaderAuthorization, Value: w.Key().Admin()}},
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

// requestID is the id by which a worker can abort an attempt. No id begins that of another request,
// also of another router, for SGLang aborts by prefix.
type requestID struct {
	rid   []byte
	field []byte // `"rid":"…"` where the router has chosen the id and the body takes it; else empty
	// header reports that the router has chosen the id, and the body does not take it.
	header bool
	kept   bool   // the client's own, or the client's list
	key    uint64 // random, of the router's own
	lo     uint32 // of the first of a list
}

func (id *requestID) reset() {
	*id = requestID{rid: id.rid[:0], field: id.field[:0]}
}

// keep takes the client's id.
func (id *requestID) keep(req *openai.Request) {
	id.reset()
	id.rid, id.kept = append(id.rid, req.RID...), true
}

// renew makes an id. A client's list gets one for each of its own.
func (id *requestID) renew(api openai.API, req *openai.Request) {
	id.reset()
	id.key, id.lo = rand.Uint64(), rand.Uint32()
	id.rid = openai.AppendRID(id.rid, id.key, id.lo)
	switch {
	case api == openai.APIMessages, api == openai.APIOllama:
		// Its body has no field for it. Workers read the header only with
		// SGLANG_ENABLE_REQUEST_HEADER_OVERRIDES; else the end of the connection aborts.
		id.header = true
	case len(req.RIDs) > 0:
		id.field = openai.AppendRIDsField(id.field, id.key, id.lo, len(req.RIDs))
	default:
		id.field = openai.AppendRIDField(id.field, id.rid)
	}
}

// all returns the ids that the worker has, for an abort. It names the prompts of a batch rid_0,
// rid_1 and so on.
func (id *requestID) all(req *openai.Request) (ids []string) {
	switch {
	case len(id.rid) == 0 && len(req.RIDs) == 0:
		return nil
	case id.kept && len(req.RIDs) > 0:
		return slices.Clone(req.RIDs[:min(len(req.RIDs), maxAbortedPrompts)])
	case len(req.RIDs) > 0:
		for i := range min(len(req.RIDs), maxAbortedPrompts) {
			ids = append(ids, string(openai.AppendRID(nil, id.key, id.lo+uint32(i))))
		}
		return ids
	case !req.Batch:
		return []string{string(id.rid)}
	}
	for i := range min(req.Prompts, maxAbortedPrompts) {
		ids = append(ids, string(openai.AppendItemRID(nil, string(id.rid), i)))
	}
	return ids
}

// sentIDs indexes the requests at workers by two kinds of ids that a client may send to abort one:
// the router's own, each of one request, and the client's, which several requests may share.
type sentIDs struct {
	mu    sync.Mutex
	own   map[uint64]*exchange // by the random part of the router's id; guarded by mu
	named map[string]holders   // by the client's name, each of a list; guarded by mu
	round uint64               // number of the last abort; guarded by mu
}

// holders are the requests of a name. Nearly always there is one.
type holders struct {
	first *exchange
	more  []*exchange
}

// add notes an attempt that is about to be sent. It refuses one with a client's id that another
// request has.
func (f *sentIDs) add(x *exchange) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if x.id.kept {
		for name := range x.names() {
			if f.named[name].first != nil {
				return false
			}
		}
	} else {
		f.own[x.id.key] = x
	}
	for name := range x.names() {
		at := f.named[name]
		if at.first == nil {
			at.first = x
		} else {
			at.more = append(at.more, x)
		}
		f.named[name] = at
	}
	x.listed = true
	return true
}

// remove forgets an attempt. Only then may its exchange change.
func (f *sentIDs) remove(x *exchange) {
	if !x.listed {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	x.listed = false
	if !x.id.kept {
		delete(f.own, x.id.key)
	}
	for name := range x.names() {
		at := f.named[name]
		if at.first == x && len(at.more) == 0 {
			delete(f.named, name)
			continue
		}
		if at.first == x {
			at.first, at.more = at.more[0], at.more[1:]
		} else if i := slices.Index(at.more, x); i >= 0 {
			at.more = slices.Delete(at.more, i, i+1)
		}
		f.named[name] = at
	}
}

// names are the names that the client has given its request.
func (x *exchange) names() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if x.req.RID != "" {
			yield(x.req.RID)
			return
		}
		for _, name := range x.req.RIDs[:min(len(x.req.RIDs), maxAbortedPrompts)] {
			if !yield(name) {
				return
			}
		}
	}
}

// abort calls send for each request with the id rid that the client may abort, with the ids that
// the worker knows: all of the request's, or that of one prompt of a batch. It reports false, and
// sends nothing, if to abort one prompt would end others of its batch.
func (f *sentIDs) abort(rid string, mayAbort func(*clientkey.Key) bool, send func(x *exchange, ids []string)) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.round++
	var found []*exchange // each once; thousands may have one name
	add := func(x *exchange) {
		if x != nil && x.found != f.round && mayAbort(x.credential.key) {
			x.found = f.round
			found = append(found, x)
		}
	}
	if hi, ok := idKey(rid); ok {
		add(f.own[hi])
	}
	for name := rid; ; {
		at := f.named[name]
		add(at.first)
		for _, x := range at.more {
			add(x)
		}
		i := strings.LastIndexByte(name, '_')
		if i < 0 || len(name) < len(rid) {
			break
		}
		name = name[:i]
	}
	for _, x := range found {
		if i := x.promptOf(rid); i > 0 && len(x.req.RIDs) == 0 && x.req.Prompts > 10*i {
			return false // rid_1 begins rid_10
		}
	}
	for _, x := range found {
		ids := x.id.all(&x.req)
		if i := x.promptOf(rid); i >= 0 && i < len(ids) {
			send(x, ids[i:i+1])
		} else if i == wholeRequest {
			send(x, ids)
		}
	}
	return true
}

const (
	wholeRequest = -1 - iota
	noPrompt
)

// promptOf returns the prompt of a batch that rid names: by its place, wholeRequest for all of the
// request, noPrompt where it names none.
func (x *exchange) promptOf(rid string) int {
	if len(x.req.RIDs) > 0 {
		if i := slices.Index(x.req.RIDs, rid); i >= 0 {
			return i
		}
		if i := slices.Index(x.id.all(&x.req), rid); i >= 0 {
			return i
		}
		return noPrompt
	}
	for _, name := range []string{x.req.RID, string(x.id.rid)} {
		if name == "" {
			continue
		}
		if rid == name {
			return wholeRequest
		}
		digits, ok := strings.CutPrefix(rid, name+"_")
		if !ok || !x.req.Batch {
			continue
		}
		if i, err := strconv.Atoi(digits); err == nil && i >= 0 && i < x.req.Prompts && strconv.Itoa(i) == digits {
			return i
		}
	}
	return noPrompt
}

// idKey returns the random part of an id that a router has made.
func idKey(rid string) (uint64, bool) {
	if hi, ok := openai.RIDKey(rid); ok {
		return hi, true
	}
	if digestOf(rid) == "" {
		return 0, false
	}
	const digits = 16
	hi, err := strconv.ParseUint(rid[len(openai.ResponsePrefix)+digestLen:][:digits], 16, 64)
	return hi, err == nil
}
