package routing

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

const (
	// keptTokens and keptBytes bound the kept beginning of a prompt: 64 KiB each, 8 MiB in all.
	keptTokens = 16 << 10
	keptBytes  = 64 << 10
)

// beginning is the first part of a kept choice's prompt.
type beginning struct {
	domain promptDomain
	tokens []uint32 // where exact
	text   []byte   // else
	page   int      // tokens
}

// promptDomain has all that keeps equal beginnings from being one prefix.
type promptDomain struct {
	model, lora, salt, extraKey string
	exact                       bool
}

func (b *beginning) keep(p *Prompt, model string, page int) {
	b.domain, b.page = promptDomain{model, p.LoRA, p.Salt, p.ExtraKey, p.Exact}, page
	b.tokens, b.text = b.tokens[:0], b.text[:0]
	if p.Opaque {
		return // such prompts share no pages by tokens or text
	}
	if p.Exact {
		b.tokens = append(b.tokens, p.Tokens[:min(len(p.Tokens), keptTokens)]...)
	} else {
		b.text = append(b.text, p.Text[:min(len(p.Text), keptBytes)]...)
	}
}

// prompt returns a copy, as a prompt for look-ups.
func (b *beginning) prompt() Prompt {
	d := &b.domain
	p := Prompt{Model: d.model, LoRA: d.lora, Salt: d.salt, ExtraKey: d.extraKey, Exact: d.exact, DP: -1}
	if p.Tokens, p.Text = slices.Clone(b.tokens), bytes.Clone(b.text); !p.Exact {
		p.Estimate = len(p.Text) * unitTokens / unitBytes
	}
	return p
}

// Prefix is a common beginning of prompts of recent choices.
type Prefix struct {
	// Prompt is the latest one that begins with it, as far as that is kept.
	Prompt   Prompt
	Length   int // of the prefix: Prompt.Tokens where that is exact, else bytes of Prompt.Text
	Requests int
	At       time.Time // of the latest one
}

// Tokens returns the tokens of the prefix, an estimate unless its prompt is exact.
func (p *Prefix) Tokens() int {
	if p.Prompt.Exact {
		return p.Length
	}
	return p.Length * unitTokens / unitBytes
}

// Prefixes returns the common beginnings, of a page or more, of the prompts of [Router.Recent],
// most requests first. kept is the number of these prompts, and since the time of the oldest.
// Prompts with images, and prompts that the policy does not read, are left out. A prefix may begin
// with another: all sessions begin with the system prompt, and turns with their session.
func (r *Router) Prefixes() (all []Prefix, kept int, since time.Time) {
	prompts, pages := map[promptDomain][]Prefix{}, map[promptDomain]int{}
	r.recent.read(func(c *keptChoice, choice RecentChoice) bool {
		if b := &c.begins; len(b.tokens)+len(b.text) > 0 {
			kept, since = kept+1, choice.At
			prompts[b.domain], pages[b.domain] = append(prompts[b.domain], Prefix{Prompt: b.prompt(), At: choice.At}), b.page
		}
		return true
	})
	for domain, of := range prompts {
		slices.SortFunc(of, func(a, b Prefix) int {
			return cmp.Or(slices.Compare(a.Prompt.Tokens, b.Prompt.Tokens), bytes.Compare(a.Prompt.Text, b.Prompt.Text))
		})
		all = appendPrefixes(all, of, 0, pages[domain])
	}
	slices.SortFunc(all, func(a, b Prefix) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(b.Tokens(), a.Tokens()), b.At.Compare(a.At))
	})
	return all, kept, since
}

// appendPrefixes appends the common beginnings that are longer than above of prompts in order.
func appendPrefixes(all, prompts []Prefix, above, page int) []Prefix {
	if len(prompts) < 2 {
		return all
	}
	length := common(&prompts[0].Prompt, &prompts[len(prompts)-1].Prompt)
	latest := slices.MaxFunc(prompts, func(a, b Prefix) int { return a.At.Compare(b.At) })
	latest.Length, latest.Requests = length, len(prompts)
	if length > above && latest.Tokens() >= page {
		all, above = append(all, latest), length
	}
	for len(prompts) > 0 {
		n := 1
		for n < len(prompts) && common(&prompts[0].Prompt, &prompts[n].Prompt) > length {
			n++
		}
		all = appendPrefixes(all, prompts[:n], above, page)
		prompts = prompts[n:]
	}
	return all
}

// common returns the length of the common beginning of two prompts of one domain.
func common(a, b *Prompt) int {
	if a.Exact {
		return commonPrefix(a.Tokens, b.Tokens)
	}
	return commonPrefix(a.Text, b.Text)
}

func commonPrefix[E comparable](a, b []E) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
