package lint

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Report lists the findings in a set of prompts.
type Report struct {
	Prompts int       `json:"prompts"` // compared prompts
	Grouped int       `json:"grouped"` // of them, those of a template that at least 3 have
	Tokens  float64   `json:"tokens"`  // of all prompts; text counts 4 bytes a token
	Now     float64   `json:"now"`     // share of the tokens that another prompt begins with too
	Then    float64   `json:"then"`    // the same, with stable parts first
	Finding []Finding `json:"findings"`
}

// Finding is a template with changing parts before stable ones; shares are of its prompts' tokens.
type Finding struct {
	Model   string  `json:"model"`
	Prompts int     `json:"prompts"`
	Tokens  float64 `json:"tokens"` // of a prompt, on average
	Now     float64 `json:"now"`    // share before the first token that changes
	Then    float64 `json:"then"`   // the same, with stable parts first
	Lost    float64 `json:"lost"`   // Then - Now: the share of the cache that is lost

	// Where the first change is: a message's role, "tools", "prompt" or "ids".
	Part        string   `json:"part"`
	Offset      int      `json:"offset"`       // bytes into that part; of ids, the number before
	Before      float64  `json:"before"`       // tokens before it
	StableAfter float64  `json:"stable_after"` // stable tokens behind it
	Changes     int      `json:"changes"`      // changing parts before stable ones
	Kind        Kind     `json:"kind"`
	Values      []string `json:"values"` // values of that part in some prompts

	Example string `json:"example"` // an excerpt with «the changing part» marked
	Better  string `json:"better"`  // the same in a better order
	Advice  string `json:"advice"`
}

const (
	// minPrompts is the number of prompts of a template that shows its changing parts.
	minPrompts = 3
	// minLostShare of a template's tokens and minTokens of each of its prompts are the least loss
	// that is reported: 64 tokens are a large page of a KV cache.
	minLostShare, minTokens = 0.05, 64
)

// Check finds templates with changing parts before stable ones, the greatest loss of tokens first.
func Check(prompts []*Prompt) *Report {
	r := &Report{Prompts: len(prompts), Finding: []Finding{}}
	all := make([]*units, len(prompts))
	for i, p := range prompts {
		all[i] = newUnits(p)
		r.Tokens += all[i].weight(len(all[i].hash))
	}
	shared, lost := 0.0, 0.0
	for _, g := range group(all) {
		if len(g) < minPrompts {
			continue
		}
		r.Grouped += len(g)
		members := measure(g)
		for _, m := range members {
			shared += m.weight(m.shared)
			lost += m.lost
		}
		if f, ok := find(members); ok {
			r.Finding = append(r.Finding, f)
		}
	}
	if r.Tokens > 0 {
		r.Now, r.Then = shared/r.Tokens, (shared+lost)/r.Tokens
	}
	slices.SortStableFunc(r.Finding, func(a, b Finding) int {
		return cmp.Compare(b.Lost*b.Tokens*float64(b.Prompts), a.Lost*a.Tokens*float64(a.Prompts))
	})
	return r
}

// find describes a group, if it loses enough.
func find(members []measured) (f Finding, ok bool) {
	var tokens, shared, lost float64
	worst := &members[0]
	for i := range members {
		m := &members[i]
		tokens, shared, lost = tokens+m.weight(len(m.hash)), shared+m.weight(m.shared), lost+m.lost
		if m.lost > worst.lost {
			worst = m
		}
	}
	n := float64(len(members))
	if lost < minLostShare*tokens || lost < minTokens*n {
		return f, false
	}
	f = Finding{
		Model: worst.Model, Prompts: len(members), Tokens: tokens / n, Now: shared / tokens, Then: (shared + lost) / tokens, Lost: lost / tokens,
		StableAfter: worst.lost, Changes: worst.changes(),
	}
	from, to := worst.change()
	f.Part, f.Offset = worst.location(from)
	f.Before = worst.weight(from)
	f.Values = values(members, worst)
	f.Kind = kindOf(worst.excerpt(from, to))
	if len(worst.IDs) > 0 && f.Kind != KindOrder {
		f.Kind = KindUnknown
	}
	f.Example, f.Better = worst.examples(from, to)
	f.Advice = f.advise()
	return f, true
}

// values lists the text of some prompts at the first change of the worst one.
func values(members []measured, worst *measured) (out []string) {
	add := func(m *measured) {
		from, to := m.change()
		if v := shorten(strings.TrimSpace(m.excerpt(from, to)), excerptBytes); v != "" && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	add(worst)
	for i := range members {
		if len(out) < 3 && members[i].lost > 0 {
			add(&members[i])
		}
	}
	return out
}

// excerptBytes bounds each piece of an excerpt, contextUnits the text around the change.
const excerptBytes, contextUnits = 72, 14

// examples shows the change at its position and at a harmless one.
func (m *measured) examples(from, to int) (before, after string) {
	flat := func(a, b int) string { return strings.Join(strings.Fields(m.excerpt(a, b)), " ") }
	head, change := flat(max(from-contextUnits, 0), from), shorten(flat(from, to), excerptBytes)
	next := flat(to, min(to+contextUnits, len(m.hash)))
	before = fmt.Sprintf("… %s «%s» %s …", head, change, next)
	if from == to { // another order
		return before, fmt.Sprintf("… %s … the same parts, always in one order …", head)
	}
	return before, fmt.Sprintf("… %s %s … (all %.0f stable tokens) … «%s»", head, next, m.weight(from)+m.lost, change)
}

// shorten cuts text at whole characters.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// Percent writes a share in percent.
func Percent(share float64) string { return fmt.Sprintf("%.0f %%", math.Round(100*share)) }
