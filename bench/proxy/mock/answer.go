package mock

import (
	"bytes"
	"strconv"

	"github.com/warmpath/warmpath/bench/proxy/wire"
)

// apis are the endpoints that take prompts.
var apis = map[string]api{"/v1/chat/completions": chat, "/v1/completions": completions, "/generate": generate}

// serve answers one request; false where its first line is none. The body may be used during the
// call only.
func (k *conn) serve(h *wire.Head, body []byte) bool {
	method, rest, _ := bytes.Cut(h.Line, []byte(" "))
	target, version, ok := bytes.Cut(rest, []byte(" "))
	if !ok {
		return false
	}
	k.last = h.Close || string(version) == "HTTP/1.0" && !h.KeepAlive
	path, query, _ := bytes.Cut(target, []byte("?"))
	get := string(method) == "GET"
	if a, ok := apis[string(path)]; ok && !get {
		k.answer(a, body)
		return true
	}
	k.worker.stats.Control++
	k.finish(k.worker.control(get, path, query, body))
	return true
}

// answer begins the answer to a prompt.
func (k *conn) answer(a api, body []byte) {
	w := k.worker
	w.stats.Requests++
	w.stats.Bytes += uint64(len(body))
	q, ok := parseAsk(a, body)
	if !ok {
		w.stats.Bad++
		k.finish(w.problem(400, "the body has no prompt"))
		return
	}
	w.ids = q.appendTokens(w.ids[:0])
	prompt := len(w.ids)
	k.prompt, k.cached = prompt, w.prefill(prompt, q.tokens)
	q.ids, q.text = nil, nil // of a body that is about to go
	if k.ask = q; q.stream {
		k.begin()
		return
	}
	out := w.whole(&q, prompt, k.cached)
	if delay := w.in.cfg.TTFT; delay > 0 {
		k.later(append([]byte(nil), out...), int64(delay))
		return
	}
	k.finish(out)
}

// prefill uses the cache for the prompt in w.ids and its answer, and tells of the changes.
func (w *worker) prefill(prompt, answer int) (cached int) {
	if prompt == 0 {
		return 0
	}
	w.ids = answerIDs(w.ids, answer-1)
	cached, held, parent := w.cache.use(w.ids, prompt)
	w.stats.Prompt += uint64(prompt)
	w.stats.Cached += uint64(cached)
	if w.pub != nil {
		w.pub.publish(w.cache, w.ids[held*w.cache.page:], held > 0, parent)
	}
	return cached
}

// finish sends a whole answer.
func (k *conn) finish(out []byte) {
	if k.conn.Write(out) != nil || k.last {
		k.close()
	}
}

// later sends an answer after a delay.
func (k *conn) later(out []byte, delay int64) {
	k.busy, k.left, k.event = true, 0, out
	l := k.worker.in.loop
	l.Arm(&k.next, l.Now()+delay)
}

// begin starts a stream.
func (k *conn) begin() {
	k.busy, k.left = true, k.ask.tokens
	k.event = appendEvent(k.event[:0], &k.ask, k.prompt, k.cached, k.worker.in.cfg.Model)
	l := k.worker.in.loop
	k.due = l.Now() + int64(k.worker.in.cfg.TTFT)
	if k.worker.in.cfg.TTFT > 0 {
		l.Arm(&k.next, k.due)
		return
	}
	k.more()
}

// streamHead is SGLang's, less its date and server.
const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"

// more sends the next event of a stream, or an answer that had to wait. Without a gap all events go
// at once, each by a call of its own.
func (k *conn) more() {
	l := k.worker.in.loop
	gap := int64(k.worker.in.cfg.Gap)
	if !k.ask.stream {
		k.end(k.event)
		return
	}
	for {
		out := k.event
		if k.left == k.ask.tokens {
			out = append(append(k.worker.out[:0], streamHead...), k.event...)
			k.worker.out = out
		}
		if k.left--; k.left < 0 {
			k.end(appendEnd(k.worker.out[:0], k))
			return
		}
		if k.conn.Write(out) != nil {
			k.worker.stats.Left++
			k.close()
			return
		}
		if gap > 0 && k.left > 0 {
			k.due += gap
			l.Arm(&k.next, max(k.due, l.Now()))
			return
		}
	}
}

// end sends the last bytes and continues with requests that came meanwhile.
func (k *conn) end(out []byte) {
	k.busy = false
	k.finish(out)
	if !k.busy {
		k.conn.Again()
	}
}

// headRoom is for the head of an answer, which is written before its body when that is known.
const headRoom = 128

// seal puts a head before the body that begins at out[headRoom].
func seal(out []byte, status int) []byte {
	var room [headRoom]byte
	h := append(room[:0], "HTTP/1.1 "...)
	h = appendInt(h, status)
	h = append(h, " OK\r\nContent-Type: application/json\r\nContent-Length: "...)
	h = appendInt(h, len(out)-headRoom)
	h = append(h, "\r\n\r\n"...)
	return out[headRoom-copy(out[headRoom-len(h):], h):]
}

// blank is an answer to which a body is to be appended.
func (w *worker) blank() []byte {
	if cap(w.out) < headRoom {
		w.out = make([]byte, headRoom, 4096)
	}
	return w.out[:headRoom]
}

// whole is an answer in one piece, valid until the next.
func (w *worker) whole(q *ask, prompt, cached int) []byte {
	b := w.blank()
	switch q.api {
	case generate:
		b = append(b, `{"text":"`...)
		b = AppendWords(b, q.tokens)
		b = append(b, `","output_ids":[`...)
		b = AppendAnswer(b, q.tokens)
		b = append(b, `],"meta_info":{"id":"mock","finish_reason":{"type":"length","length":`...)
		b = appendInt(b, q.tokens)
		b = append(b, `},"weight_version":"default","total_retractions":0,`...)
		b = append(appendMeta(b, prompt, q.tokens, cached), `,"e2e_latency":0.001}}`...)
	case completions:
		b = append(b, `{"id":"mock","object":"text_completion","created":1700000000,"model":"`...)
		b = append(append(b, w.in.cfg.Model...), `","choices":[{"index":0,"text":"`...)
		b = AppendWords(b, q.tokens)
		b = append(b, `","logprobs":null,"finish_reason":"length","matched_stop":null}],"usage":`...)
		b = append(appendUsage(b, prompt, q.tokens, cached), `,"metadata":{"weight_version":"default"}}`...)
	default:
		b = append(b, `{"id":"mock","object":"chat.completion","created":1700000000,"model":"`...)
		b = append(append(b, w.in.cfg.Model...), `","choices":[{"index":0,"message":{"role":"assistant","content":"`...)
		b = AppendWords(b, q.tokens)
		b = append(b, `","reasoning_content":null,"tool_calls":null},"logprobs":null,"finish_reason":"length","matched_stop":null}],"usage":`...)
		b = append(appendUsage(b, prompt, q.tokens, cached), `,"metadata":{"weight_version":"default"}}`...)
	}
	w.out = b
	return seal(b, 200)
}

// appendEvent appends the chunk that brings one token. /generate is told in increments, as SGLang
// does with --stream-output.
func appendEvent(dst []byte, q *ask, prompt, cached int, model string) []byte {
	var room [512]byte
	b := append(room[:0], "data: "...)
	switch q.api {
	case generate:
		b = append(b, `{"text":"`+Word+`","output_ids":[`...)
		b = AppendAnswer(b, 1)
		b = append(b, `],"meta_info":{"id":"mock","finish_reason":null,"weight_version":"default","total_retractions":0,`...)
		b = append(appendMeta(b, prompt, q.tokens, cached), "}}\n\n"...)
	case completions:
		b = append(b, `{"id":"mock","object":"text_completion","created":1700000000,"model":"`...)
		b = append(append(b, model...), `","choices":[{"index":0,"text":"`+Word+`","logprobs":null,"finish_reason":null,"matched_stop":null}],`...)
		b = append(b, `"usage":null}`+"\n\n"...)
	default:
		b = append(b, `{"id":"mock","object":"chat.completion.chunk","created":1700000000,"model":"`...)
		b = append(append(b, model...), `","choices":[{"index":0,"delta":{"role":null,"content":"`+Word+`","reasoning_content":null,`...)
		b = append(b, `"tool_calls":null},"logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":null}`+"\n\n"...)
	}
	return appendChunk(dst, b)
}

// appendEnd appends the usage, if it was requested, and the end mark.
func appendEnd(dst []byte, k *conn) []byte {
	if k.ask.usage && k.ask.api != generate {
		var room [512]byte
		b := append(room[:0], `data: {"id":"mock","object":"chat.completion.chunk","created":1700000000,"model":"`...)
		b = append(append(b, k.worker.in.cfg.Model...), `","choices":[],"usage":`...)
		b = append(appendUsage(b, k.prompt, k.ask.tokens, k.cached), "}\n\n"...)
		dst = appendChunk(dst, b)
	}
	return append(dst, "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"...)
}

func appendChunk(dst, b []byte) []byte {
	dst = strconv.AppendInt(dst, int64(len(b)), 16)
	dst = append(append(dst, "\r\n"...), b...)
	return append(dst, "\r\n"...)
}

// AppendWords appends the text of an answer of n tokens.
func AppendWords(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, Word...)
	}
	return dst
}

func appendMeta(dst []byte, prompt, answer, cached int) []byte {
	dst = appendInt(append(dst, `"prompt_tokens":`...), prompt)
	dst = appendInt(append(dst, `,"completion_tokens":`...), answer)
	return appendInt(append(dst, `,"cached_tokens":`...), cached)
}

func appendUsage(dst []byte, prompt, answer, cached int) []byte {
	dst = appendInt(append(dst, `{"prompt_tokens":`...), prompt)
	dst = appendInt(append(dst, `,"total_tokens":`...), prompt+answer)
	dst = appendInt(append(dst, `,"completion_tokens":`...), answer)
	dst = appendInt(append(dst, `,"prompt_tokens_details":{"cached_tokens":`...), cached)
	return append(dst, `},"reasoning_tokens":0}`...)
}

func appendInt(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) }
