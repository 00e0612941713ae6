package tier

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/valyala/fasthttp"
)

// Hint is what a router tells the node that it has chosen: a request for these pages is on its way.
type Hint struct {
	Model     string   `json:"model"`               // as the engine names it; "" is any
	InputIDs  []uint32 `json:"input_ids,omitempty"` // the prompt's tokens,
	Hashes    []string `json:"hashes,omitempty"`    // or SGLang's page hashes, 64 hexadecimal digits each, from the first page on
	PageSize  int      `json:"page_size,omitempty"` // tokens of a page; 0 is that of the engines here
	hashBytes []Hash
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
		if err != nil || len(raw) != len(Hash{}) {
			return e, fmt.Errorf("%w: hash %q, want 64 hexadecimal digits", ErrHint, text)
		}
		h.hashBytes = append(h.hashBytes, Hash(raw))
	}
	if len(h.Hashes) == 0 && len(h.InputIDs) == 0 {
		return e, fmt.Errorf("%w: neither input_ids nor hashes", ErrHint)
	}
	for _, s := range t.spacesOf(h.Model, h.PageSize) {
		hashes := h.hashBytes
		if len(hashes) == 0 {
			hashes = PageHashes(h.InputIDs, s.tokens)
		}
		e.Namespaces++
		e.Pages += len(hashes)
		e.Ready += t.find(s.ns, hashes, t.cfg.Ask)
	}
	t.counts.hinted.Add(int64(e.Pages))
	return e, nil
}

// modelSpace is a namespace of a model.
type modelSpace struct {
	ns     uint32
	tokens int // of a page
}

// spacesOf lists the namespaces of a model. Their names are written by the backend in integrations/sglang.
func (t *Tier) spacesOf(model string, pageSize int) []modelSpace {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []modelSpace
	for ns, s := range t.index.spaces {
		var name struct {
			Model  string `json:"model"`
			Tokens int    `json:"tokens"`
		}
		if json.Unmarshal([]byte(s.name), &name) != nil || name.Tokens <= 0 {
			continue
		}
		if (model == "" || name.Model == model) && (pageSize == 0 || name.Tokens == pageSize) {
			found = append(found, modelSpace{uint32(ns), name.Tokens})
		}
	}
	return found
}

// PageHashes names the whole pages of a prompt as SGLang does: each is SHA-256 of the one before it and of its tokens as
// little-endian 32-bit numbers.
func PageHashes(tokens []uint32, pageSize int) []Hash {
	hashes := make([]Hash, 0, len(tokens)/pageSize)
	var buf []byte
	for ; len(tokens) >= pageSize; tokens = tokens[pageSize:] {
		for _, id := range tokens[:pageSize] {
			buf = binary.LittleEndian.AppendUint32(buf, id)
		}
		h := Hash(sha256.Sum256(buf))
		hashes = append(hashes, h)
		buf = append(buf[:0], h[:]...)
	}
	return hashes
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
