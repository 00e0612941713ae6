package chattemplate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Model renders chat requests as the workers of one model do. It is safe for concurrent use.
type Model struct {
	template *Template
	dialect  dialect
	format   contentFormat
	lowFlag  bool // the template has the kwarg low_effort, which SGLang sets by itself
	defaults []byte
	tokens   []entryToken
	limits   Limits
	now      func() time.Time
	rules    Rules

	reasoning string // the worker's reasoning parser
}

// entryToken is a special token that the template reads.
type entryToken struct{ name, text string }

// Config configures a [Model].
type Config struct {
	Source Source
	Engine Engine
	Limits Limits
	// Now is the clock of strftime_now, in the workers' time zone; nil is time.Now.
	Now func() time.Time
}

// New compiles the model's template. Errors are those of [Compile], and [ErrUnsupported] for an
// engine that is known to render in another way, or not known at all.
func New(cfg Config) (*Model, error) {
	d, err := dialectOf(cfg.Engine.Version)
	if err != nil {
		return nil, err
	}
	if err := cfg.Engine.check(); err != nil {
		return nil, err
	}
	t, err := Compile(cfg.Source.Template)
	if err != nil {
		return nil, err
	}
	m := &Model{
		template: t, dialect: d, format: detectFormat(cfg.Source.Template),
		reasoning: cfg.Engine.ReasoningParser,
		limits:    cfg.Limits, now: cfg.Now,
		// template_detection.py, nemotron_3_super_low_effort.
		lowFlag: strings.Contains(cfg.Source.Template, "low_effort") && strings.Contains(cfg.Source.Template, "truncate_history_thinking"),
	}
	if m.now == nil {
		m.now = time.Now
	}
	if sent(cfg.Engine.DefaultKwargs) {
		if m.defaults = cfg.Engine.DefaultKwargs; !d.defaults {
			return nil, fmt.Errorf("%w: default template kwargs before SGLang 0.5.16", ErrUnsupported)
		}
	}
	for _, name := range t.names {
		text, known := cfg.Source.Tokens[name]
		switch {
		case known && text != "":
			m.tokens = append(m.tokens, entryToken{name, text})
		case !known && slices.Contains(tokenNames, name):
			return nil, fmt.Errorf("%w: the template reads %s, which the model's files do not give", ErrUnsupported, name)
		}
	}
	m.rules = rulesOf(m, cfg.Source.Template, &cfg.Engine)
	return m, nil
}

// tokenNames are the special tokens for which a tokenizer's class may have a default that the files
// do not show.
var tokenNames = []string{"bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"}

// size is the bytes of a request that a template can see.
func (r *Request) size() int {
	return len(r.Messages) + len(r.Tools) + len(r.Kwargs) + len(r.ToolChoice) + len(r.ReasoningEffort) + len(r.Reasoning)
}

// RenderBegun appends the prompt of a chat request to dst: the text that the worker would tokenize,
// without adding special tokens. begun is the offset in out of the text of a message that the
// answer continues (continue_final_message), len(out) where there is none: SGLang tokenizes that
// text apart, with special tokens, and takes the one off that begins a text. Errors are
// [ErrUnsupported] and [ErrLimit], after which the caller leaves the prompt to the worker, and
// [ErrTemplate], after which the worker will refuse the request; dst is then returned as it was.
// The request's bytes are only read, and not kept.
func (m *Model) RenderBegun(dst []byte, req Request) (out []byte, begun int, err error) {
	s := m.template.begin(dst, m.limits, req.size()+len(m.defaults), m.now)
	defer m.template.end(s, dst, &out, &err)
	p := &s.prep
	p.m, p.s, p.req = m, s, req
	messages, tools := p.read()
	if s.err != nil {
		return dst, len(dst), s.err
	}
	err = p.attempt(messages, tools)
	if errors.Is(err, ErrTemplate) && tools.k == kList {
		// After any error, SGLang tries once more, with the bare functions for tools.
		s.retry(dst)
		err = p.attempt(messages, p.bareFunctions(tools))
	}
	if err != nil {
		return dst, len(dst), err
	}
	begun = len(s.out)
	return append(s.out, p.begun...), begun, nil
}
