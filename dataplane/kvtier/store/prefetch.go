package store

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// Hint says over HTTP that a request for these pages is on its way. Routers say so with package hint.
type Hint struct {
	Model     string   `json:"model"`                // as the engine names it; "" is any
	InputIDs  []uint32 `json:"input_ids,omitempty"`  // the prompt's tokens,
	Hashes    []string `json:"hashes,omitempty"`     // or SGLang's page hashes, 64 hexadecimal digits each, from the first page on
	PageSize  int      `json:"page_size,omitempty"`  // tokens of a page; 0 is that of the engines here
	CacheSalt string   `json:"cache_salt,omitempty"` // of the prompt, where the request has one
	hashBytes []proto.Hash
}

// Expected is what became of a hint, over all ranks of the model here.
type Expected struct {
	Namespaces int `json:"namespaces"` // ranks and forms of the model that engines here use
	Pages      int `json:"pages"`      // asked for
	Ready      int `json:"ready"`      // of these, here or on their way, from the first on
}

// ErrHint is a hint that cannot be read.
var ErrHint = errors.New("tier: bad hint")

// Prefetch has the pages of a hint pulled from other nodes where they are not here. It waits for the peers' word, not for the pages.
func (t *Tier) Prefetch(h Hint) (e Expected, err error) {
	for _, text := range h.Hashes {
		raw, err := hex.DecodeString(text)
		if err != nil || len(raw) != len(proto.Hash{}) {
			return e, fmt.Errorf("%w: hash %q, want 64 hexadecimal digits", ErrHint, text)
		}
		h.hashBytes = append(h.hashBytes, proto.Hash(raw))
	}
	if len(h.Hashes) == 0 && len(h.InputIDs) == 0 {
		return e, fmt.Errorf("%w: neither input_ids nor hashes", ErrHint)
	}
	hashes := func(tokens int) []proto.Hash {
		if len(h.hashBytes) > 0 {
			return h.hashBytes
		}
		return proto.PageHashes(h.InputIDs, tokens, h.CacheSalt)
	}
	for chain, s := range t.chainsOf(t.spacesOf(h.Model, h.PageSize), hashes) {
		_, ready := t.bring(s.ns, chain, 0, "")
		e.add(len(chain), ready)
	}
	t.counts.hinted.Add(int64(e.Pages))
	return e, nil
}

// add counts a namespace.
func (e *Expected) add(pages, ready int) {
	e.Namespaces++
	e.Pages += pages
	e.Ready += ready
}

// modelSpace is a namespace of a model.
type modelSpace struct {
	ns     uint32
	model  string
	tokens int // of a page
	bytes  int // of a page
	open   bool
}

// spacesOf lists the namespaces of a model, those of one page size together; "" is any model, 0 any
// size. Where engines of the model are here, it is theirs: what others left is of other weights, maybe.
func (t *Tier) spacesOf(model string, pageSize int) []modelSpace {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []modelSpace
	used := map[string]bool{} // models that an engine uses now
	for _, ns := range t.index.names {
		s := t.index.spaces[ns]
		if s.Model != "" && (model == "" || s.Model == model) && (pageSize == 0 || s.Tokens == pageSize) {
			found = append(found, modelSpace{ns: ns, model: s.Model, tokens: s.Tokens, bytes: s.bytes, open: s.open > 0})
			used[s.Model] = used[s.Model] || s.open > 0
		}
	}
	found = slices.DeleteFunc(found, func(s modelSpace) bool { return used[s.model] && !s.open })
	slices.SortFunc(found, func(a, b modelSpace) int { return cmp.Or(cmp.Compare(a.tokens, b.tokens), cmp.Compare(a.ns, b.ns)) })
	return found
}

// Handle answers POST /prefetch with a [Hint], and GET /tier with [Stats], both as JSON. It reports whether the request was one of them.
func (t *Tier) Handle(ctx *fasthttp.RequestCtx) bool {
	switch string(ctx.Path()) {
	case "/prefetch":
		t.handlePrefetch(ctx)
	case "/tier":
		answerJSON(ctx, t.Stats())
	default:
		return false
	}
	return true
}

func (t *Tier) handlePrefetch(ctx *fasthttp.RequestCtx) {
	if !ctx.IsPost() {
		ctx.Response.Header.Set("Allow", "POST")
		ctx.Error("POST a hint: {\"model\": …, \"input_ids\": […]}\n", fasthttp.StatusMethodNotAllowed)
		return
	}
	var h Hint
	err := json.Unmarshal(ctx.PostBody(), &h)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrHint, err)
	}
	var e Expected
	if err == nil {
		e, err = t.Prefetch(h)
	}
	if err != nil {
		ctx.Error(err.Error()+"\n", fasthttp.StatusBadRequest)
		return
	}
	answerJSON(ctx, e)
}

func answerJSON(ctx *fasthttp.RequestCtx, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		ctx.Error(err.Error()+"\n", fasthttp.StatusInternalServerError)
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(append(text, '\n'))
}
