package admin

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// HotPrefixes is the body of GET /index: the common beginnings of recent prompts, and the ranks
// that hold them now. The recent ones are those of GET /choices.
type HotPrefixes struct {
	Prompts int       `json:"prompts"` // that were compared
	Since   time.Time `json:"since"`   // time of the oldest; of none 0001-01-01
	// Those of most requests first, at most 32. One may begin with another.
	Prefixes []HotPrefix `json:"prefixes"`
	LeftOut  int         `json:"left_out"` // prefixes beyond these
}

// HotPrefix is a common beginning of prompts.
type HotPrefix struct {
	Model    string    `json:"model"`
	LoRA     string    `json:"lora,omitempty"`
	Salted   bool      `json:"salted,omitempty"`
	Requests int       `json:"requests"` // of HotPrefixes.Prompts
	Tokens   int       `json:"tokens"`   // an estimate unless exact
	Exact    bool      `json:"exact"`
	At       time.Time `json:"at"` // of its latest request
	// Text is its beginning and end; absent where only ids are known, and no tokenizer.
	Text string   `json:"text,omitempty"`
	IDs  []uint32 `json:"ids,omitempty"` // the first token ids
	// Those of most tokens first, at most 8. Decode ranks of pairs, and ranks that get no requests,
	// are none.
	Holders []PrefixHolder `json:"holders"`
	Held    int            `json:"held"` // number of all holders
}

// PrefixHolder is a rank that holds a leading part of a prefix.
type PrefixHolder struct {
	ID     string `json:"id"`
	Tokens int    `json:"tokens"` // of the prefix, in any tier of the engine
	GPU    int    `json:"gpu"`    // of Tokens
	Source string `json:"source"` // exact or approximate
}

const (
	// maxPrefixes and maxHolders bound an answer: look-ups of 32 prompts of 16,384 tokens at 1,000
	// ranks take 70 ms of a CPU.
	maxPrefixes, maxHolders = 32, 8
	// excerptRunes and excerptIDs are enough to tell prompts apart.
	excerptRunes, excerptIDs = 160, 12
)

// serveIndex answers GET /index.
func (e *explainer) serveIndex(ctx *fasthttp.RequestCtx) {
	all, kept, since := e.router.Prefixes()
	answer := HotPrefixes{Prompts: kept, Since: since, Prefixes: []HotPrefix{}, LeftOut: max(len(all)-maxPrefixes, 0)}
	var scratch routing.Scratch
	for i := range all[:len(all)-answer.LeftOut] {
		answer.Prefixes = append(answer.Prefixes, e.hotPrefix(&scratch, &all[i]))
	}
	e.json(ctx, fasthttp.StatusOK, answer)
}

func (e *explainer) hotPrefix(scratch *routing.Scratch, p *routing.Prefix) HotPrefix {
	out := HotPrefix{
		Model: p.Prompt.Model, LoRA: p.Prompt.LoRA, Salted: p.Prompt.Salt != "", Requests: p.Requests,
		Tokens: p.Tokens(), Exact: p.Prompt.Exact, At: p.At, Holders: []PrefixHolder{},
	}
	if out.Exact {
		ids := p.Prompt.Tokens[:p.Length]
		out.IDs = ids[:min(len(ids), excerptIDs)]
		if m := e.models.Find(out.Model); m != nil {
			out.Text = excerpt(m, ids)
		}
	} else {
		out.Text = shortened(string(p.Prompt.Text[:p.Length]))
	}
	x := e.router.Explain(scratch, &p.Prompt, 0)
	for i := range x.Ranks {
		c := &x.Ranks[i]
		if n := min(c.Cached, out.Tokens); n > 0 {
			out.Holders = append(out.Holders, PrefixHolder{ID: c.Rank.ID(), Tokens: n, GPU: min(c.GPU, n), Source: c.Source.String()})
		}
	}
	slices.SortStableFunc(out.Holders, func(a, b PrefixHolder) int { return cmp.Compare(b.Tokens, a.Tokens) })
	out.Held = len(out.Holders)
	out.Holders = out.Holders[:min(out.Held, maxHolders)]
	return out
}

// excerpt is the text of the ends of ids, of which a rune has seldom more than three.
func excerpt(m *tokens.Model, ids []uint32) string {
	const most = 3 * excerptRunes
	if len(ids) <= 2*most {
		return shortened(m.Text(ids))
	}
	return shortened(m.Text(ids[:most]) + m.Text(ids[len(ids)-most:]))
}

// shortened leaves out the middle of a long text.
func shortened(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if utf8.RuneCountInString(text) <= 2*excerptRunes {
		return text
	}
	runes := []rune(text)
	return string(runes[:excerptRunes]) + " … " + string(runes[len(runes)-excerptRunes:])
}
