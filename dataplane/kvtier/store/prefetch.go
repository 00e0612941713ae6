package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/valyala/fasthttp"
)

// Hint says over HTTP that a request for these pages is on its way. Routers say so with package hint.
type Hint struct {
	Model     string   `json:"model"`                // as the engine names it; "" is any
	InputIDs  []uint32 `json:"input_ids,omitempty"`  // the prompt's tokens,
	Hashes    []string `json:"hashes,omitempty"`     // or SGLang's page hashes, 64 hexadecimal digits each, from the first page on
	PageSize  int      `json:"page_size,omitempty"`  // tokens of a page; 0 is that of the engines here
	CacheSalt string   `json:"cache_salt,omitempty"` // of the prompt, where the request has one
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
	hashes := func(tokens int) []Hash {
		if len(h.hashBytes) > 0 {
			return h.hashBytes
		}
		return PageHashes(h.InputIDs, tokens, h.CacheSalt)
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

// PageHashes names the whole pages of a prompt as SGLang's storage does: each is SHA-256 of the one before it and of its tokens as
// little-endian 32-bit numbers. With a cache salt, "" is none, the first one has a seed before it.
func PageHashes(tokens []uint32, pageSize int, salt string) []Hash {
	ids := make([]byte, 0, 4*len(tokens))
	for _, id := range tokens {
		ids = binary.LittleEndian.AppendUint32(ids, id)
	}
	return pageHashes(ids, pageSize, salt)
}

// pageHashes is PageHashes of ids of 4 bytes each.
func pageHashes(ids []byte, pageSize int, salt string) []Hash {
	page := 4 * pageSize
	hashes := make([]Hash, 0, len(ids)/page)
	buf := make([]byte, 0, len(Hash{})+page)
	if salt != "" {
		seed := storageSeed(salt)
		buf = append(buf, seed[:]...)
	}
	for ; len(ids) >= page; ids = ids[page:] {
		h := Hash(sha256.Sum256(append(buf, ids[:page]...)))
		hashes = append(hashes, h)
		buf = append(buf[:0], h[:]...)
	}
	return hashes
}

// storageSeed is what stands before the first page of prompts with a cache salt (storage_namespace_seed of SGLang 0.5.23): a mark, that there is no
// extra_key (0), that there is a salt (1), its length and itself. The hashes in KV events have another seed.
func storageSeed(salt string) Hash {
	b := append([]byte("sglang-cache-namespace-v1"), 0, 1)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(salt)))
	return sha256.Sum256(append(b, salt...))
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
