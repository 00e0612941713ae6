package request

import (
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/responses"
)

// SGLang's sessions: the worker that opens one keeps the prompts and answers of its requests, and
// no other one can continue it (session_params of /generate).
//
// The id that the router gives a session names its worker and its owner, as the id of a response
// names its worker: every router knows both by it, also after a restart. A name that the client has
// chosen is remembered by the router that opened it. It names no owner, and at the worker the names
// of all clients are one set: clients with keys cannot choose any.
const (
	pathOpenSession  = "/open_session"
	pathCloseSession = "/close_session"
	sessionPrefix    = "session_"
	sessionIDLen     = len(sessionPrefix) + digestLen + 32
)

// isSession reports whether a path opens or closes a session.
func isSession(path string) bool { return path == pathOpenSession || path == pathCloseSession }

// errNamedSession refuses a name that may be another client's at the worker.
var errNamedSession = openai.BadRequest("session_id", "Clients with API keys cannot name a session: leave session_id out, and use the id of the answer.")

// errNoSession is for a session that is not the client's, or that no worker is known to have. The
// words are SGLang's, for its clients to find.
func errNoSession(id string) *openai.Error {
	return openai.BadRequest("session_id", "Invalid request: session id "+strconv.Quote(id)+" does not exist: it was not opened by this client, or at another router "+
		"under a name of the client's, or its worker is gone.")
}

// findSession finds the worker of the session that the request closes or continues, or opens under
// a name that is known already.
func (x *exchange) findSession() error {
	p, req := &x.prompt, &x.req
	path := string(x.call.path())
	switch {
	case x.api == openai.APIGenerate && req.Opened:
		p.session = string(req.SessionID)
	case isSession(path):
		p.session = string(req.SessionID)
		// It names a socket of SGLang's own processes, and is not for clients.
		x.own = append(openai.AppendName(x.own, "http_worker_ipc"), "null"...)
	}
	switch {
	case path == pathOpenSession && p.session == "":
		p.opens = true
		return nil
	case path == pathOpenSession && x.h.Keys != nil:
		return errNamedSession
	case p.session == "":
		return nil
	}
	if p.holder = x.sessionHolder(p.session); path == pathOpenSession || p.holder != nil {
		return nil // the worker knows whether it is open
	}
	return errNoSession(p.session)
}

// sessionHolder returns the worker of a session of the request's client, nil where it is not known.
func (x *exchange) sessionHolder(id string) *worker.Worker {
	h, client := x.h, x.credential.name()
	if len(id) == sessionIDLen && strings.HasPrefix(id, sessionPrefix) {
		return workerBy(h, "", id[len(sessionPrefix):][:digestLen], client)
	}
	if client != "" {
		return nil
	}
	if url := h.turns.Worker(pathOpenSession + id); url != "" {
		return workerBy(h, url, "", "")
	}
	// A fleet of one has it, or answers that it has not.
	if workers := h.Registry.Snapshot().Workers; len(workers) == 1 && string(x.call.path()) != pathOpenSession {
		return workers[0]
	}
	return nil
}

// noteSession remembers a session that a worker has opened under a client's name, or forgets it.
func (x *exchange) noteSession() {
	key := pathOpenSession + x.prompt.session
	switch string(x.call.path()) {
	case pathCloseSession:
		x.h.turns.Forget(key)
	case pathOpenSession:
		x.h.turns.Put(key, responses.Turn{Worker: x.choice.answering().Worker.URL})
	default:
		if url := x.h.turns.Worker(key); url != "" {
			x.h.turns.Put(key, responses.Turn{Worker: url}) // the last used ones are kept
		}
	}
}

// pinRank has all requests of a session go to one rank of its worker: each rank opens the session,
// and keeps its own requests only.
func (x *exchange) pinRank() {
	p, req := &x.prompt, &x.req
	if x.api != openai.APIGenerate || p.session == "" || req.HasRank {
		return
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(p.session))
	req.Rank, req.HasRank = int(hash.Sum32()%uint32(max(len(p.holder.Ranks()), 1))), true
}

// renewSession makes the id of a session that w opens for a client.
func (id *requestID) renewSession(w *worker.Worker, client string) {
	id.reset()
	session := appendDigest([]byte(sessionPrefix), w.URL, client)
	session = appendHex(appendHex(session, rand.Uint64(), 16), rand.Uint64(), 16)
	id.field = openai.AppendStringField(id.field, "session_id", string(session))
}
