package request

import (
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
)

// ownIDs are a prompt's token ids that were made in this process.
type ownIDs struct {
	writer *tokens.Writer
	cursor *promptcache.Cursor
	ids    []uint32
	lent   tokens.Prompt // a worker's, where the choice rests on those
	model  *tokens.Model // that made the ids which the choice rests on; nil where others did

	forward bool   // the worker gets the ids, and need not tokenize
	field   []byte // in which it gets them
}

func (o *ownIDs) init(c *promptcache.Cursor) { o.cursor, o.writer = c, tokens.NewWriter(c) }

// keptIDs bounds what a pooled exchange keeps.
const keptIDs = 1 << 16

func (o *ownIDs) reset() {
	o.lent.Release()
	o.lent = tokens.Prompt{}
	o.model, o.ids, o.forward = nil, o.ids[:0], false
	if cap(o.ids) > keptIDs {
		o.ids = nil
	}
	if cap(o.field) > keptText {
		o.field = nil
	}
}

// tokenize gets the prompt's ids where they tell more than text: made here when the model's are proved to be right, else by a worker.
func (e *exchange) tokenize() bool {
	if e.s.Tokenizer == nil {
		return false
	}
	target := e.s.anyWorker(&e.prompt)
	if target == nil {
		return false
	}
	name := target.Info().Model()
	if !e.s.Router.NeedsTokens(name) {
		return false
	}
	m := e.s.Models.Find(name)
	fresh, made := e.makeIDs(m)
	if made && m.Verified(&e.req) {
		e.own.model = m
		e.prompt.Tokens, e.prompt.Exact = e.own.ids, true
		if !fresh {
			e.prompt.Hashes, e.prompt.Block = e.own.cursor.Chain()
		}
		e.own.forward = e.s.live().ForwardIDs && tokens.Forwardable(&e.req)
		e.s.Models.Sample(m, target.URL, &e.req, e.own.ids)
		return true
	}
	known, err := e.s.Tokenizer.Prompt(nil, target.URL, &e.req)
	if err != nil {
		return false
	}
	e.own.lent = known
	if made {
		e.s.Models.Compare(m, &e.req, e.own.ids, known.IDs)
	}
	e.prompt.Tokens, e.prompt.Hashes, e.prompt.Block = known.IDs, known.Hashes, known.Block
	e.prompt.Exact = true
	return true
}

// makeIDs fills e.own.ids; fresh says that the cursor knows nothing of their hashes.
func (e *exchange) makeIDs(m *tokens.Model) (fresh, made bool) {
	if m == nil || e.own.writer == nil {
		return true, false
	}
	ids, fresh, err := e.own.writer.Append(e.own.ids[:0], m, &e.req)
	e.own.ids = ids
	return fresh, err == nil
}

// proveLength compares how many tokens the worker says that the prompt had.
func (e *exchange) proveLength(usage openai.Usage) {
	if e.own.model != nil && usage.HasPrompt && e.req.N <= 1 {
		e.s.Models.CompareLength(e.own.model, &e.req, len(e.own.ids), usage.PromptTokens)
	}
}
