package request

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/fnv"
	"math/rand/v2"
	"strconv"

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
		t.history, whole = h.turns.History(t.history[:0], previous)
		x.prompt.holder = holderOf(h, previous)
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

// responsePath splits the path of one stored response: its id, and what is behind it.
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
	h := x.h
	if x.prompt.holder = holderOf(h, id); x.prompt.holder != nil {
		return nil
	}
	stores := 0
	for _, w := range h.Registry.Snapshot().Workers {
		if x.prompt.holder == nil || w.Info() != nil && w.Info().ResponseStore {
			x.prompt.holder = w // the only one, or one that answers with the API's error
		}
		if w.Info() != nil && w.Info().ResponseStore {
			stores++
		}
	}
	if stores > 1 {
		return &openai.Error{
			Status: fasthttp.StatusNotFound, Type: "invalid_request_error", Param: "response_id",
			Message: "Response with id " + strconv.Quote(id) + " not found.", Code: "not_found",
		}
	}
	return nil
}

// holderOf returns the worker that stores a response, nil where that is not known or the worker is
// gone: any other one answers that it has no such response.
func holderOf(h *Handler, id string) *worker.Worker {
	return workerBy(h, h.turns.Worker(id), digestOf(id))
}

// workerBy returns the worker of a URL, or without one that of the name in ids; nil: it is gone.
func workerBy(h *Handler, url, digest string) *worker.Worker {
	for _, w := range h.Registry.Snapshot().Workers {
		if w.URL == url || url == "" && digest != "" && digest == string(appendDigest(nil, w.URL)) {
			return w
		}
	}
	return nil
}

// digestLen is the part of an id that names the worker: 48 bits of its URL's hash. Every router
// knows the worker of a response by it, also after a restart.
const digestLen = 12

// digestOf returns the part of an id that names the worker, "" where the id has another form.
func digestOf(id string) string {
	if len(id) != openai.ResponseIDLen || id[:len(openai.ResponsePrefix)] != openai.ResponsePrefix {
		return ""
	}
	return id[len(openai.ResponsePrefix):][:digestLen]
}

// appendDigest appends the name of a worker in ids.
func appendDigest(dst []byte, url string) []byte {
	h := fnv.New64a()
	_, _ = h.Write([]byte(url))
	return appendHex(dst, h.Sum64(), digestLen)
}

// appendHex appends the low digits of v, an even number of them.
func appendHex(dst []byte, v uint64, digits int) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], v)
	return hex.AppendEncode(dst, b[len(b)-digits/2:])
}

// renewResponse is renew for /v1/responses, where the id of the request is that of the response.
func (id *requestID) renewResponse(w *worker.Worker) {
	id.reset()
	id.key = rand.Uint64()
	id.rid = appendDigest(append(id.rid, openai.ResponsePrefix...), w.URL)
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
