package request

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/responses"
)

// pathResponses is OpenAI's Responses API. A worker with --enable-response-store keeps responses in
// its memory, and no other worker can continue them (previous_response_id) or show them.
const pathResponses = "/v1/responses"

// maxTurnBytes bounds the conversations that the router remembers, to know the prompt of a request
// that names only the response before. Of 2 KB a turn they are some 25,000 turns.
const maxTurnBytes = 64 << 20

// errTemplate refuses a chat template in a body. SGLang 0.5.23 refuses it for chats and forgets to
// here: a template of two nested loops stops an engine for good.
var errTemplate = openai.BadRequest("chat_template_kwargs",
	"A chat template in a request is not allowed. Workers permit it with --trust-request-chat-template.")

// errHolder is for a stored response, or an open session, of a worker that is down.
func errHolder(param, does string) *openai.Error {
	return &openai.Error{
		Status: fasthttp.StatusServiceUnavailable, Type: "overloaded_error", Param: param, Code: "no_worker",
		Message: "The worker that " + does + " cannot take a request now. No other worker has it.",
	}
}

// turn is the part of an exchange that only /v1/responses has.
type turn struct {
	converter responses.Converter
	head      responses.Head
	model     string // as its workers name it
	guess     guess
	history   [][]byte
	once      bool // sent to one worker only; see exchange.giveUp
	answer    responses.AnswerScanner
	result    responses.Answer
	ended     bool // result is the whole answer
}

func (t *turn) reset() {
	clear(t.history)
	t.head, t.history, t.ended = responses.Head{}, t.history[:0], false
	t.model, t.guess, t.once = "", noGuess, false
	t.result = responses.Answer{}
}

// parse reads a body of /v1/responses as the chat that SGLang makes of it and of the conversation
// before.
func (t *turn) parse(x *exchange, body []byte) (read []byte, err error) {
	h := x.h
	if t.head, err = t.converter.Read(body); err != nil {
		return nil, err
	}
	if t.head.Template && !h.limits(t.head.Model).Templates {
		return nil, errTemplate
	}
	whole := true
	if previous := t.head.Previous; previous != "" {
		if x.prompt.holder = holderOf(x, previous); x.prompt.holder == nil && x.credential.key != nil {
			return nil, errNoResponse("previous_response_id", previous)
		}
		t.history, whole = h.turns.History(t.history[:0], previous)
	}
	rules := h.rules(t.head.Model)
	// A request in the background goes on behind its answer, and gpt-oss may call the worker's own
	// tools.
	t.once = t.head.Background || rules.NoChat && t.head.Tools
	inline, known := rules.InlineSystem, rules.Known || rules.Parser != ""
	if w := anyWorker(h.Registry, t.head.Model); w != nil && !known {
		t.model = w.Info().Model()
		t.guess = h.proofs.guess(t.model)
		inline = t.guess == guessInline
	}
	var exact, doubtful bool
	x.converted, exact, doubtful = t.converter.AppendBody(x.converted[:0], t.history, responses.Dialect{InlineSystem: inline, NoChat: rules.NoChat})
	if !doubtful {
		t.guess = noGuess
	}
	if err := x.req.Parse(x.api, x.converted); err != nil {
		return nil, err
	}
	x.req.Approximate = !exact || !whole
	return x.converted, nil
}

// responsePath splits the path of a stored response into the response's id and the rest.
func responsePath(path []byte) (id, rest string, ok bool) {
	name, ok := bytes.CutPrefix(path, []byte(pathResponses+"/"))
	if !ok {
		return "", "", false
	}
	first, behind, _ := bytes.Cut(name, []byte{'/'})
	return string(first), string(behind), len(first) > 0
}

// find finds the worker of the stored response that the path names, where it names one. The error
// is the API's own for a response that no worker has.
func (t *turn) find(x *exchange) error {
	id, _, ok := responsePath(x.call.path())
	if !ok {
		return nil
	}
	if x.prompt.holder = holderOf(x, id); x.prompt.holder != nil {
		return nil
	}
	if x.credential.key != nil {
		return errNoResponse("response_id", id)
	}
	stores := 0
	for _, w := range x.h.Registry.Snapshot().Workers {
		if x.prompt.holder == nil || w.Info() != nil && w.Info().ResponseStore {
			x.prompt.holder = w // the only one, or one that answers with the API's error
		}
		if w.Info() != nil && w.Info().ResponseStore {
			stores++
		}
	}
	if stores > 1 {
		return errNoResponse("response_id", id)
	}
	return nil
}

// errNoResponse is the API's error for a response that no worker has, or that is another client's.
func errNoResponse(param, id string) error {
	return &openai.Error{
		Status: fasthttp.StatusNotFound, Type: "invalid_request_error", Param: param,
		Message: "Response with id " + strconv.Quote(id) + " not found.", Code: "not_found",
	}
}

// holderOf returns the worker that stores a response of the request's client, nil where that is not
// known or the worker is gone: any other one answers that it has no such response.
func holderOf(x *exchange, id string) *worker.Worker {
	url, client := "", x.credential.name()
	if client == "" {
		url = x.h.turns.Worker(id)
	}
	return workerBy(x.h, url, digestOf(id), client)
}

// workerBy returns the worker of a URL, or without one that of the digest in ids; nil: it
// is gone.
func workerBy(h *Handler, url, digest, client string) *worker.Worker {
	for _, w := range h.Registry.Snapshot().Workers {
		if w.URL == url || url == "" && digest != "" && digest == string(appendDigest(nil, w.URL, client)) {
			return w
		}
	}
	return nil
}

// digestLen is the part of an id that names the worker and the client's key: 48 bits of the hash of
// its URL and of the key's name. Every router knows by it the worker of a response, also after a
// restart, and that a response is not another client's.
const digestLen = 12

// digestOf returns the part of an id that appendDigest makes, "" where the id has another form.
func digestOf(id string) string {
	if len(id) != openai.ResponseIDLen || id[:len(openai.ResponsePrefix)] != openai.ResponsePrefix {
		return ""
	}
	return id[len(openai.ResponsePrefix):][:digestLen]
}

// appendDigest appends the name of a worker in ids of a client's responses. client is the name of
// its key. That is not a secret: to use an id, a client must know its random rest as well.
func appendDigest(dst []byte, url, client string) []byte {
	h := fnv.New64a()
	_, _ = h.Write([]byte(url))
	if client != "" {
		_, _ = h.Write([]byte(" " + client)) // a URL has no space
	}
	return appendHex(dst, h.Sum64(), digestLen)
}

// appendHex appends the low digits of v, an even number of them.
func appendHex(dst []byte, v uint64, digits int) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], v)
	return hex.AppendEncode(dst, b[len(b)-digits/2:])
}

// renewResponse is renew for /v1/responses, where the id of the request is that of the response.
func (id *requestID) renewResponse(w *worker.Worker, client string) {
	id.reset()
	id.key = rand.Uint64()
	id.rid = appendDigest(append(id.rid, openai.ResponsePrefix...), w.URL, client)
	id.rid = appendHex(appendHex(id.rid, id.key, 16), rand.Uint64(), openai.ResponseIDLen-len(openai.ResponsePrefix)-digestLen-16)
	id.field = append(append(append(id.field, `"request_id":"`...), id.rid...), '"')
}

// scan reads a piece of the answer, and remembers the turn before the client can send the next one.
func (t *turn) scan(x *exchange, p []byte) {
	_, _ = t.answer.Write(p)
	if t.ended || len(p) == 0 || !x.answer.events && p[len(p)-1] != '}' {
		return
	}
	if t.result, t.ended = t.answer.Answer(); t.ended {
		t.remember(x)
	}
}

// remember remembers a turn that a worker stores, and the session of its response.
func (t *turn) remember(x *exchange) {
	w := x.choice.answering().Worker
	x.h.Router.Known.NameAnswer(&x.choice.prompt, &x.choice.decision, t.result.ID)
	if info := w.Info(); info == nil || !info.ResponseStore || !t.head.Store || t.result.ID == "" {
		return
	}
	kept := responses.Turn{Worker: w.URL, Previous: t.head.Previous}
	if t.result.Finished() {
		kept.Input, kept.Output = t.head.Input, t.result.Output
	}
	x.h.turns.Put(t.result.ID, kept)
}

// appendEnd appends the events that end a stream whose worker has failed.
func (t *turn) appendEnd(dst []byte, id, model string, e *openai.Error) []byte {
	number := t.answer.Events()
	dst = append(dst, "event: error\ndata: {\"type\":\"error\",\"code\":"...)
	dst = openai.AppendString(dst, e.Code)
	dst = openai.AppendString(append(dst, `,"message":`...), e.Message)
	dst = strconv.AppendInt(append(dst, `,"param":null,"sequence_number":`...), int64(number), 10)
	dst = append(dst, "}\n\nevent: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\":"...)
	dst = openai.AppendString(dst, id)
	dst = openai.AppendString(append(dst, `,"object":"response","created_at":0,"status":"failed","model":`...), model)
	dst = openai.AppendString(append(dst, `,"output":[],"error":{"code":"server_error","message":`...), e.Message)
	dst = append(dst, `},"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"usage":null},"sequence_number":`...)
	dst = strconv.AppendInt(dst, int64(number)+1, 10)
	return append(dst, "}\n\n"...)
}

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
