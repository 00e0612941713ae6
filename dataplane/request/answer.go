package request

import (
	"bytes"
	"crypto/subtle"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/request/disagg"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// answer is a worker's answer on its way to the client.
type answer struct {
	x        *exchange
	resp     *upstream.Response // until it is closed
	status   int
	events   bool      // it is a stream of events
	failed   bool      // the stream has reported an error behind its beginning
	unread   bool      // no client can read its first event
	plain    bool      // it is a document that the router can read
	read     bool      // as a whole, before it is forwarded: the usage is known
	last     byte      // of the document, without white space
	operator bool      // it is for an operator, by the request's key
	parts    int       // events of a stream, for a client with a key
	whole    bool      // it came in one piece, and so ended when it began
	ended    bool      // the stream has had its last event
	line     []byte    // of a stream, whose end is in a later piece; up to disagg.MaxEvent bytes
	begin    []byte    // buffer for a beginning that did not come in one piece
	open     bool      // a comment has passed before the first event
	firstAt  time.Time // time of its first byte

	gaps   gaps // of a stream
	usage  openai.UsageScanner
	output openai.OutputScanner
	ids    []uint32 // generated
}

var _ upstream.Observer = (*answer)(nil)

// forward forwards the answer to the client.
func (a *answer) forward(resp *upstream.Response) {
	x, d := a.x, &a.x.choice.decision
	a.resp, a.status = resp, resp.Status
	// An answer that the worker has compressed is not read, and nothing is added to it.
	readable := !isCoded(resp)
	mime := resp.Peek("Content-Type")
	a.events = readable && isEventStream(mime)
	a.plain = readable && !a.events && x.repeatable() && (x.inference || disagg.FormAt(x.call.path()) != nil) && resp.Status == fasthttp.StatusOK
	switch {
	case a.events && isType(mime, lineStream): // also of a prompt without a text
		resp.WholeLines()
	case a.events:
		resp.WholeEvents()
	}
	if x.prompt.session != "" && resp.Status == fasthttp.StatusOK {
		x.noteSession()
	}
	if x.inference {
		x.prompt.turn.answer.Reset(a.events)
		a.output.Reset(x.req.Stream)
	}
	d.Rank.Count.Requests.Add(1)
	// Forward ends the exchange when the answer has no body: the header's values are taken out of
	// it before, and not into its own memory.
	m, shown := marks{worker: x.nameOf(x.choice.answering())}, a.shown()
	if d.Decode != nil {
		d.Decode.Count.Requests.Add(1)
		m.prefill = d.Rank.ID()
	}
	var buf [32]byte
	if x.inference {
		m.overlap, m.source = appendOverlap(buf[:0], d.Matched, d.Total), d.Source.String()
	}
	ctx, firstAt := x.call.ctx, a.firstAt
	switch {
	case d.Decode != nil && x.pair.merges:
		upstream.ForwardRewrite(ctx, resp, a, firstAt, &x.pair.merger)
	case x.renames(resp):
		upstream.ForwardRewrite(ctx, resp, a, firstAt, &renamer{x: x})
	case a.compresses(resp):
		upstream.ForwardGzip(ctx, resp, a, firstAt, &x.h.compressors)
	default:
		a.whole = !a.events && resp.Whole()
		upstream.Forward(ctx, resp, a, firstAt)
	}
	m.write(&ctx.Response.Header, shown)
}

// appendOverlap appends the blocks that the rank holds of a prompt's.
func appendOverlap(dst []byte, matched, total int) []byte {
	dst = append(strconv.AppendInt(dst, int64(matched), 10), '/')
	return strconv.AppendInt(dst, int64(total), 10)
}

// Body implements upstream.Observer.
func (a *answer) Body(p []byte) {
	switch {
	case a.x.api == openai.APIResponses:
		a.x.prompt.turn.scan(a.x, p)
	case a.x.inference && !a.read:
		_, _ = a.usage.Write(p)
	}
	if a.hasIDs() {
		_, _ = a.output.Write(p)
	}
	if a.events && a.x.credential.key != nil {
		end := eventEnd
		if a.x.api == openai.APIOllama {
			end = eventEnd[:1]
		}
		a.parts += bytes.Count(p, end)
	}
	if a.plain {
		if end := bytes.TrimRight(p, " \t\r\n"); len(end) > 0 {
			a.last = end[len(end)-1]
		}
	}
	if a.events && a.x.inference {
		a.gaps.piece(time.Now())
		a.readEvents(p)
	}
	if a.x.inference && !a.failed && a.x.single.found.cause == causeNone {
		a.failed = a.events && a.open && a.isUnreadable(p)
		if !a.failed {
			a.x.choice.answering().Load.Worked()
		}
	}
}

// isUnreadable reports whether the first event, which comes behind a comment, is none of the API's.
// The client gets an error in its place.
func (a *answer) isUnreadable(p []byte) bool {
	verdict, f := disagg.JudgeStream(a.x.api, p, false)
	a.open = verdict == disagg.More
	if a.unread = verdict == disagg.Failed && f == disagg.NoAnswer; a.unread {
		a.resp.DropRest()
	}
	return verdict == disagg.Failed
}

// isCut reports whether an answer that has ended lacks its end.
func (a *answer) isCut() bool {
	switch {
	case a.plain:
		return a.last != '}' && a.last != ']'
	case !a.events || !a.x.inference:
		return false
	case a.x.api == openai.APIResponses:
		return !a.x.prompt.turn.answer.Ended()
	}
	a.readLine(a.line) // it may end with the stream
	return !a.ended
}

// Broken implements upstream.Observer: the worker's answer ended early. A stream ends with an
// error; a JSON document is cut, so that a part of it does not pass for the whole.
func (a *answer) Broken(error) []byte {
	if !a.events {
		return nil
	}
	if x := a.x; x.api == openai.APIResponses {
		return x.prompt.turn.appendEnd(nil, string(x.id.rid), x.req.Model, errCut)
	}
	return errorEnd(a.x.call.path(), errCut)
}

// Ended implements upstream.Observer: a stream without its last event gets an error in its place.
func (a *answer) Ended() []byte {
	if a.unread || !a.failed && a.x.single.found.cause == causeNone && a.isCut() {
		return a.Broken(nil)
	}
	return nil
}

// Closed implements upstream.Observer: the answer has ended, one way or another.
func (a *answer) Closed(err error) {
	a.resp = nil
	a.x.finish(err)
}

// good reports whether the answer is a success, so that its usage counts.
func (a *answer) good() bool {
	return a.status == fasthttp.StatusOK && a.x.single.found.cause == causeNone && !a.failed
}

// endedAt returns the time of an answer's end, which is now unless it came in one piece.
func (a *answer) endedAt() time.Time {
	if a.whole {
		return a.firstAt
	}
	return time.Now()
}

// report tells the worker's breaker how an answer has ended that began well; errorAnswers.settle
// has told it about others.
func (a *answer) report(rank *worker.Rank, now time.Time, err error) {
	w := rank.Worker
	switch {
	case a.x.single.found.cause != causeNone:
	case err == nil && !a.failed:
		w.Succeeded(a.x.single.sent)
		a.x.h.sources.answered(a.x, now)
	case err == nil, !a.x.client.Gone() && causeOf(err).speaksAgainst(rank, now):
		a.x.unexplained(w, now)
	default:
		w.Inconclusive()
	}
}

// reported returns the usage that the answer reports. Anthropic's API leaves out cached tokens
// where there are none.
func (a *answer) reported(w *worker.Worker) openai.Usage {
	if t := &a.x.prompt.turn; t.ended {
		a.failed = a.failed || t.result.Status == "failed"
		return t.result.Usage.Believable()
	}
	u := a.usage.Usage().Believable()
	if a.x.api == openai.APIMessages && u.HasPrompt && !u.HasCached {
		info := w.Info()
		u.HasCached = info != nil && info.CacheReport
	}
	return u
}

// eventEnd ends an event. Inside a text, line breaks are escaped.
var eventEnd = []byte("\n\n")

// computed returns the tokens that the worker has computed, for the client's account: as reported
// by the answer, else the estimate of the prompt and one token for each event of a stream.
func (a *answer) computed(usage openai.Usage) (prompt, completion int) {
	prompt = a.x.credential.taken
	switch {
	case !a.x.inference:
		return prompt, 0
	case usage.HasPrompt:
		return usage.PromptTokens, usage.CompletionTokens
	}
	return prompt, max(usage.CompletionTokens, a.parts)
}

// learn tells the router how many tokens of the prompt the rank had in its cache.
func (a *answer) learn(usage openai.Usage) {
	x := a.x
	if !usage.HasPrompt || !usage.HasCached || !x.prompt.alone() {
		usage = openai.Usage{}
	}
	x.h.Router.Answered(&x.choice.scratch, &x.choice.prompt, &x.choice.decision, usage.PromptTokens,
		usage.CachedTokens)
}

// stored returns how many prompt tokens the rank must have added to its cache, in whole pages. It
// is 0 wherever the engine may have kept them out for another reason: an answer without a token
// may be that to a prompt that never ran.
func (a *answer) stored(usage openai.Usage) int {
	x := a.x
	d, p, info := &x.choice.decision, &x.choice.prompt, x.choice.decision.Rank.Worker.Info()
	page := info.PageSize
	if info.Events != nil && info.Events.BlockSize > 0 {
		page = info.Events.BlockSize
	}
	if !x.prompt.complete() || !x.prompt.alone() || x.req.Unstored || info.NoCache || page == 0 ||
		usage.CompletionTokens == 0 || usage.PromptTokens != p.Len() {
		return 0
	}
	known := max(usage.CachedTokens, d.Cached, d.Predicted) / page * page
	return max(p.Len()/page*page-known-page, 0) // the last page of a prompt is computed each time
}

// hasIDs reports whether the answer has the generated ids, and the next turn could begin with them.
func (a *answer) hasIDs() bool {
	return a.x.api == openai.APIGenerate && a.x.req.HasIDs && !a.x.req.Batch
}

// generatedIDs returns those ids, valid until the next request.
func (a *answer) generatedIDs() []uint32 {
	a.ids = a.ids[:0]
	if a.hasIDs() {
		a.ids = a.output.AppendIDs(a.ids)
	}
	return a.ids
}

func (a *answer) reset() {
	a.status, a.events, a.failed, a.whole, a.parts, a.firstAt = 0, false, false, false, 0, time.Time{}
	a.unread, a.plain, a.read, a.open, a.ended, a.last, a.gaps = false, false, false, false, false, 0, gaps{}
	if len(a.begin) > maxPooledBegin {
		a.begin = nil
	}
	if a.line = a.line[:0]; cap(a.line) > maxPooledBegin {
		a.line = nil
	}
}

// Parts of the lines of a stream. Inside a text, quotes and line breaks are escaped, so that no
// text is taken for one.
var (
	fieldData  = []byte("data:")
	fieldEvent = []byte("event:")
	wordStop   = []byte(`"message_stop"`)
	wordType   = []byte(`"type"`)
	wordDone   = []byte(`"done":true`) // as SGLang writes it
	// The ends of "error" and "abort", which disagg.ReportsError reads: JSON is full of quotes, and
	// a search that begins with a rarer letter stops less often.
	endError = []byte(`rror"`)
	endAbort = []byte(`bort"`)
)

// readEvents looks for the last event and for errors in a piece, which may end anywhere.
func (a *answer) readEvents(p []byte) {
	for len(p) > 0 {
		if p[0] == '\n' && len(a.line) == 0 { // as every other line
			p = p[1:]
			continue
		}
		line, rest, ended := disagg.CutLine(p)
		p = rest
		if len(a.line) > 0 || !ended {
			a.line = append(a.line, line[:min(len(line), disagg.MaxEvent-len(a.line))]...)
			line = a.line
		}
		if ended {
			a.readLine(line)
			a.line = a.line[:0]
		}
	}
}

// readLine reads a line of a stream.
func (a *answer) readLine(line []byte) {
	if data, ok := bytes.CutPrefix(line, fieldData); ok {
		a.readData(bytes.TrimSpace(data))
	} else if a.x.api == openai.APIOllama {
		a.ended = a.ended || bytes.Contains(line, wordDone)
		a.failed = a.failed || bytes.Contains(line, endError) && disagg.ReportsError(line)
	} else if name, ok := bytes.CutPrefix(line, fieldEvent); ok {
		switch string(bytes.TrimSpace(name)) {
		case "error", "response.failed":
			a.failed = true
		}
	}
}

// readData reads a line of data.
func (a *answer) readData(data []byte) {
	switch {
	case string(data) == "[DONE]":
		a.ended = a.ended || a.x.api != openai.APIMessages
	case a.x.api == openai.APIMessages && isStop(data):
		a.ended = true
	case bytes.Contains(data, endError), a.x.api == openai.APIGenerate && bytes.Contains(data, endAbort):
		a.failed = a.failed || disagg.ReportsError(data)
	}
}

// isStop reports whether data is the last event of /v1/messages.
func isStop(data []byte) bool {
	before, _, ok := bytes.Cut(data, wordStop)
	return ok && bytes.HasSuffix(bytes.TrimRight(before, ": "), wordType)
}

// finding is the judgement of an answer by its beginning.
type finding struct {
	cause  cause // causeNone: it begins well, and its end tells the rest
	status int   // of the error, which a status of 200 may hide
	hidden bool  // a good status hides it: most clients read no more than that
	mute   bool  // nothing follows the good status: no client gets that
}

// another is the finding of an answer of another kind than asked for. Paths other than those of
// inference are the worker's own affair.
func (a *answer) another(resp *upstream.Response) finding {
	f := finding{cause: causeBroken, status: fasthttp.StatusBadGateway}
	if !a.x.inference {
		return f
	}
	f.mute = len(resp.Begin()) == 0
	if verdict, failure := disagg.JudgeJSON(resp.Begin(), true); verdict == disagg.Failed && resp.Whole() {
		f.hidden, f.status = true, failure.Status
	}
	return f
}

// findingOf judges the status of an error.
func findingOf(status int, transfer bool) finding {
	return finding{cause: causeOfStatus(status, transfer), status: status}
}

// maxErrorAnswer bounds the error answer that is kept while another worker is asked.
const maxErrorAnswer = disagg.MaxEvent

var (
	eventStream = []byte("text/event-stream")
	lineStream  = []byte("application/x-ndjson") // of Ollama's API
	identity    = []byte("identity")
	typeHTML    = []byte("text/html")
)

// isEventStream reports whether a Content-Type is that of a stream of events. Types have no case.
func isEventStream(mime []byte) bool { return isType(mime, eventStream) || isType(mime, lineStream) }

func isType(mime, kind []byte) bool {
	return len(mime) >= len(kind) && bytes.EqualFold(mime[:len(kind)], kind)
}

// isCoded reports whether an answer is compressed.
func isCoded(resp *upstream.Response) bool {
	coding := resp.Peek(fasthttp.HeaderContentEncoding)
	return len(coding) > 0 && !bytes.EqualFold(coding, identity)
}

// examine waits for the beginning of an answer and judges it. It holds back no more than the first
// event of a stream, up to disagg.MaxEvent, and message_start, which SGLang sends together with the
// text behind it, and of these nothing behind which a comment comes; and of a document all
// before a member of its API, or, where it goes out compressed, up to maxPooledBegin: the client
// would get nothing of that before. An error is the connection's.
func (a *answer) examine(resp *upstream.Response) (finding, error) {
	x := a.x
	// A streaming worker sends its header before it has computed anything. The client is promised
	// nothing until the first byte of the body.
	if len(resp.Begin()) == 0 {
		if err := a.awaitFirstByte(resp); err != nil {
			return finding{}, err
		}
	}
	switch {
	case resp.Status >= fasthttp.StatusInternalServerError && x.choice.decision.Decode != nil:
		return a.examineError(resp)
	case resp.Status >= fasthttp.StatusBadRequest:
		return findingOf(resp.Status, false), nil
	}
	mime := resp.Peek(fasthttp.HeaderContentType)
	events := isEventStream(mime)
	switch {
	case !x.repeatable():
		return finding{}, nil
	case resp.Status != fasthttp.StatusOK, events != (x.inference && x.req.Stream),
		isCoded(resp):
		// Nothing that was asked for. An engine never redirects, and the request refuses codings.
		return a.another(resp), nil
	}
	if events {
		return a.look(resp, false, func(p []byte, whole bool) (disagg.Verdict, disagg.Failure) {
			verdict, f := disagg.JudgeStream(x.api, p, whole)
			// A comment passes at once: it keeps alive proxies in front of the router, too.
			if a.open = verdict == disagg.More && disagg.EndsInComment(p); a.open {
				verdict = disagg.Good
			}
			return verdict, f
		})
	}
	// Not an engine's, but of a proxy in front of it.
	if len(resp.Begin()) == 0 || bytes.HasPrefix(mime, typeHTML) {
		return a.another(resp), nil
	}
	form, usage := disagg.FormOf(x.api), &a.usage
	if !x.inference {
		form = disagg.FormAt(x.call.path())
	}
	if !x.inference || x.api == openai.APIResponses {
		usage = nil
	}
	found, err := a.look(resp, resp.Whole(), func(p []byte, whole bool) (disagg.Verdict, disagg.Failure) {
		a.read = whole
		return disagg.JudgeAnswer(form, p, whole, usage)
	})
	if err != nil || found.cause != causeNone || !a.compresses(resp) {
		return found, err
	}
	n, err := a.fill(resp, maxPooledBegin, func([]byte, bool) bool { return false })
	if err != nil && !errors.Is(err, io.EOF) {
		return finding{}, err
	}
	resp.Unread(a.begin[:n])
	return found, nil
}

// awaitFirstByte waits for the first byte of the body for as long as a worker may take to begin,
// the time until its header included.
func (a *answer) awaitFirstByte(resp *upstream.Response) error {
	cfg := a.x.h.live()
	if cfg.FirstByteTimeout > 0 {
		resp.Within(max(cfg.FirstByteTimeout-time.Since(a.x.single.sent), time.Millisecond))
	} else {
		resp.Within(0)
	}
	err := resp.Await()
	resp.Within(cfg.StallTimeout)
	return err
}

// look judges the beginning of an answer by verdictOf, which returns disagg.More where it needs
// more than it has. whole says that all of the answer has come.
func (a *answer) look(resp *upstream.Response, whole bool, verdictOf func(p []byte, whole bool) (disagg.Verdict, disagg.Failure)) (finding, error) {
	// Fast path: the first event came in one piece.
	verdict, f := verdictOf(resp.Begin(), whole)
	if verdict == disagg.More {
		n, err := a.fill(resp, disagg.MaxBegin, func(p []byte, whole bool) bool {
			verdict, f = verdictOf(p, whole)
			return verdict != disagg.More
		})
		if err != nil && !errors.Is(err, io.EOF) {
			return finding{}, err
		}
		resp.Unread(a.begin[:n])
	}
	if verdict != disagg.Failed {
		return finding{}, nil
	}
	found := findingOf(f.Status, f.Transfer)
	found.hidden, found.mute = f != disagg.NoAnswer && !f.Empty, f.Empty
	return found, nil
}

// examineError judges a pair's answer of status 500 or above by its text.
func (a *answer) examineError(resp *upstream.Response) (finding, error) {
	n, err := a.fill(resp, disagg.MaxEvent, func([]byte, bool) bool { return false })
	if err != nil && !errors.Is(err, io.EOF) {
		return finding{}, err
	}
	resp.Unread(a.begin[:n])
	return findingOf(resp.Status, disagg.IsTransferError(a.begin[:n])), nil
}

// fill reads the beginning of an answer until enough reports true, the answer ends, or limit bytes
// are read.
func (a *answer) fill(resp *upstream.Response, limit int, enough func(p []byte, whole bool) bool) (n int, err error) {
	if a.begin == nil {
		a.begin = make([]byte, disagg.MaxEvent)
	}
	for {
		if n == len(a.begin) {
			a.begin = append(make([]byte, 0, 2*n), a.begin...)
			a.begin = a.begin[:2*n]
		}
		var m int
		m, err = resp.Read(a.begin[n:min(len(a.begin), limit)])
		n += m
		if enough(a.begin[:n], errors.Is(err, io.EOF)) || err != nil || n == limit {
			return n, err
		}
	}
}

// maxPooledBegin bounds the buffer that a pooled exchange keeps.
const maxPooledBegin = 64 << 10

// renamer puts the client's own name of its request, or of each of a list, in the place of the
// router's ids in an answer.
type renamer struct {
	x    *exchange
	held []byte // the end of the pieces so far, where it may begin an id
}

// lowDigits is how many hex digits of a router's id differ within a list.
const lowDigits = 8

// renames reports whether an answer, which the worker has not compressed, has another name of the
// request than the client's. The ids of /v1/responses are the router's own always, and in a session
// the worker knows its requests by the ids that it got.
func (x *exchange) renames(resp *upstream.Response) bool {
	return x.inference && x.api != openai.APIResponses && x.prompt.session == "" && !x.id.kept && len(x.id.rid) > 0 &&
		(x.req.RID != "" || len(x.req.RIDs) > 0) && !isCoded(resp)
}

// Append implements upstream.Rewriter.
func (r *renamer) Append(dst, p []byte) []byte {
	r.held = append(r.held, p...)
	id, rest := &r.x.id, r.held
	begin := id.rid[:len(id.rid)-lowDigits] // of all ids of the attempt
	at := bytes.Index(rest, begin)
	for ; at >= 0 && len(rest)-at >= len(id.rid); at = bytes.Index(rest, begin) {
		dst = append(dst, rest[:at]...)
		dst = r.appendName(dst, rest[at:at+len(id.rid)])
		rest = rest[at+len(id.rid):]
	}
	if at < 0 {
		at = len(rest) - begins(rest, begin)
	}
	dst = append(dst, rest[:at]...)
	r.held = append(r.held[:0], rest[at:]...)
	return dst
}

// appendName appends the client's name for an id, as in a JSON string.
func (r *renamer) appendName(dst, rid []byte) []byte {
	lo, err := strconv.ParseUint(string(rid[len(rid)-lowDigits:]), 16, 32)
	if err != nil {
		return append(dst, rid...)
	}
	name := r.x.req.RID
	if names := r.x.req.RIDs; len(names) > 0 {
		if name = ""; uint32(lo)-r.x.id.lo < uint32(len(names)) {
			name = names[uint32(lo)-r.x.id.lo]
		}
	}
	if name == "" {
		return append(dst, rid...)
	}
	at := len(dst)
	dst = openai.AppendString(dst, name)
	return append(dst[:at], dst[at+1:len(dst)-1]...) // without its quotes
}

// End implements upstream.Rewriter.
func (r *renamer) End(dst []byte) []byte {
	dst = append(dst, r.held...)
	r.held = r.held[:0]
	return dst
}

// begins returns the length of the longest end of p that begins whole.
func begins(p, whole []byte) int {
	for n := min(len(p), len(whole)-1); n > 0; n-- {
		if bytes.HasSuffix(p, whole[:n]) {
			return n
		}
	}
	return 0
}

// Values of Config.Audience.
const (
	AudienceAll       = "all"
	AudienceOperators = "operators"
	AudienceNone      = "none"
)

// marks are the X-Warmpath-* fields of an answer; empty ones are not sent. They tell the topology,
// and the overlap tells exactly which prompts others have sent.
type marks struct {
	worker  string // with a pair the decode worker
	prefill string
	overlap []byte
	source  string
}

// write is the only place where such fields are set. Package upstream has dropped those of a worker
// that is a router itself.
func (m *marks) write(h *fasthttp.ResponseHeader, shown bool) {
	if !shown {
		return
	}
	if m.worker != "" {
		h.SetCanonical([]byte("X-Warmpath-Worker"), []byte(m.worker))
	}
	if m.prefill != "" {
		h.SetCanonical([]byte("X-Warmpath-Prefill"), []byte(m.prefill))
	}
	if len(m.overlap) > 0 {
		h.SetCanonical([]byte("X-Warmpath-Overlap"), m.overlap)
		h.SetCanonical([]byte("X-Warmpath-Overlap-Source"), []byte(m.source))
	}
}

// shown reports whether the client may see the marks.
func (a *answer) shown() bool {
	switch a.x.h.live().Audience {
	case AudienceAll:
		return true
	case AudienceOperators:
		return a.operator
	default:
		return false
	}
}

// isOperator compares a request's key in constant time.
func isOperator(authorization, key []byte) bool {
	scheme, token, ok := bytes.Cut(authorization, []byte(" "))
	return ok && len(key) > 0 && bytes.EqualFold(scheme, []byte("bearer")) && subtle.ConstantTimeCompare(token, key) == 1
}
