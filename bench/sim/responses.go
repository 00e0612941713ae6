package sim

import (
	"slices"
	"strings"
	"sync"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fastjson"

	"github.com/warmpath/warmpath/dataplane/prompt/responses"
)

// responseStore is the memory of /v1/responses, with --enable-response-store.
type responseStore struct {
	mu    sync.Mutex
	items map[string][][]byte // inputs and outputs of the conversation up to a response
	whole map[string]string   // the response as it is shown
}

// conversation returns the inputs and outputs up to a response.
func (s *responseStore) conversation(id string) (items [][]byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	items, ok = s.items[id]
	return items, ok
}

// put stores a response, unless it was cancelled.
func (s *responseStore) put(id string, items [][]byte, whole string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.Contains(s.whole[id], `"status":"cancelled"`) {
		return
	}
	if s.items == nil {
		s.items, s.whole = map[string][][]byte{}, map[string]string{}
	}
	s.items[id], s.whole[id] = items, whole
}

// show returns a response.
func (s *responseStore) show(id string) (whole string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	whole, ok = s.whole[id]
	return whole, ok
}

// cancel marks a response that is not finished.
func (s *responseStore) cancel(id string) (whole string, was bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	whole = s.whole[id]
	changed := strings.Replace(whole, `"status":"queued"`, `"status":"cancelled"`, 1)
	s.whole[id] = changed
	return changed, changed != whole
}

// responsesAPI serves /v1/responses.
type responsesAPI struct {
	*process
	jobs    *jobReader
	answers *answerer
	admin   *adminAPI
	store   responseStore
}

// errNoStore is the answer where responses are not stored.
func errNoStore(param string) *problem {
	return &problem{status: fasthttp.StatusBadRequest, param: param, message: "Response store is disabled. Stateful Responses require " +
		"--enable-response-store on a standalone server; response storage is unavailable in PD mode."}
}

func errNoResponse(id string) *problem {
	return &problem{status: fasthttp.StatusNotFound, param: "response_id", message: "Response with id '" + id + "' not found."}
}

func (a *responsesAPI) stores() bool { return a.cfg.ResponseStore && a.cfg.Mode == "" }

// create serves POST /v1/responses.
func (a *responsesAPI) create(ctx *fasthttp.RequestCtx) {
	j, f, err := a.job(ctx)
	if err != nil {
		asProblem(err).responses(ctx)
		return
	}
	if !f.background || j.stream {
		a.answers.answer(ctx, j, f)
		return
	}
	queued := string(f.object(nil, j, "queued", "[]", nil))
	a.store.put(j.id, f.items, queued)
	a.answers.submit(j, false)
	a.wg.Go(func() {
		defer a.answers.done(j)
		if p, ok := a.answers.wait(j, j.reqs[0]); ok {
			f.whole(nil, j, []progress{p})
		}
	})
	writeJSON(ctx, fasthttp.StatusOK, []byte(queued))
}

// retrieve serves GET /v1/responses/ID.
func (a *responsesAPI) retrieve(ctx *fasthttp.RequestCtx) {
	id := strings.TrimPrefix(string(ctx.Path()), "/v1/responses/")
	whole, ok := a.store.show(id)
	switch {
	case !a.stores():
		errNoStore("response_id").responses(ctx)
	case !ok:
		errNoResponse(id).responses(ctx)
	default:
		writeJSON(ctx, fasthttp.StatusOK, []byte(whole))
	}
}

// cancel serves POST /v1/responses/ID/cancel.
func (a *responsesAPI) cancel(ctx *fasthttp.RequestCtx) {
	id := strings.TrimSuffix(strings.TrimPrefix(string(ctx.Path()), "/v1/responses/"), "/cancel")
	_, ok := a.store.show(id)
	switch {
	case !a.stores():
		errNoStore("response_id").responses(ctx)
		return
	case !ok:
		errNoResponse(id).responses(ctx)
		return
	}
	whole, was := a.store.cancel(id)
	if was {
		for _, k := range a.admin.ranks {
			k.abort(id, false)
		}
	}
	writeJSON(ctx, fasthttp.StatusOK, []byte(whole))
}

// job reads a body: as in SGLang, it becomes a chat.
func (a *responsesAPI) job(ctx *fasthttp.RequestCtx) (*job, *responsesFormat, error) {
	v, err := fastjson.ParseBytes(ctx.PostBody())
	if err != nil || v.Type() != fastjson.TypeObject {
		return nil, nil, errJSON
	}
	store := v.Get("store") == nil || v.GetBool("store")
	f := &responsesFormat{request: v, stores: a.stores() && store, background: v.GetBool("background"), api: a}
	previous := string(v.GetStringBytes("previous_response_id"))
	switch {
	case previous != "" && !a.stores():
		return nil, nil, errNoStore("previous_response_id")
	case f.background && !a.stores():
		return nil, nil, errNoStore("background")
	case f.background && !store:
		return nil, nil, &problem{status: fasthttp.StatusBadRequest, param: "store", message: "background=true requires store=true."}
	}
	if previous != "" {
		var ok bool
		if f.items, ok = a.store.conversation(previous); !ok {
			return nil, nil, errNoResponse(previous)
		}
	}
	o, err := chatOfResponses(ctx.PostBody(), f.items)
	if err != nil {
		return nil, nil, err
	}
	f.items = append(slices.Clip(f.items), v.Get("input").MarshalTo(nil))
	j := a.jobs.openAIJob(o, ctx)
	prompt := chatPrompt(o)
	p := parseSampling(o)
	if limit := v.Get("max_output_tokens"); limit != nil && limit.Type() == fastjson.TypeNumber {
		if p.max = limit.GetInt() - 2; p.max < 0 { // room for special tokens
			o.fail(refused("max_new_tokens must be at least 0, got %d.", p.max))
		}
	}
	j.n = p.n
	f.holds = len(v.GetArray("tools")) > 0 && string(v.GetStringBytes("tool_choice")) != "none"
	j, err = a.jobs.finish(j, o, [][]uint32{prompt}, p)
	return j, f, err
}

// chatOfResponses is the chat of a body, for a template that takes one system message.
func chatOfResponses(body []byte, history [][]byte) (*object, error) {
	whole := parseObject(body)
	if whole.err != nil {
		return nil, whole.err
	}
	if whole.raw("input") == nil {
		return nil, invalid("missing", "input", "Field required")
	}
	var c responses.Converter
	chat, err := c.AppendChat(nil, body, history, responses.Dialect{})
	if err != nil {
		return nil, refused("%s", err)
	}
	o := parseObject(chat)
	o.adopt(whole, append([]string{"model", "stream", "stop", "cache_salt", "extra_key"}, pairFields...)...)
	id := whole.raw("request_id")
	if id == nil {
		id = appendJSONString(nil, "resp_"+newID())
	}
	o.fields = append(o.fields, field{[]byte("rid"), id})
	return o, o.err
}
