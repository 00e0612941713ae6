package chattemplate

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// Rules are the properties of a model and its workers by which SGLang converts requests of other
// APIs (/v1/messages, /v1/responses) to chat completions. The zero value is an unknown model.
type Rules struct {
	// Known is false where the model's template is not known.
	Known bool
	// InlineSystem reports that the template renders a system message behind others; else SGLang
	// moves its text into the first one (detect_inline_system_support).
	InlineSystem bool
	// NoChat reports a model for which SGLang makes no chat of /v1/responses: gpt-oss has a prompt
	// format of its own there, and beam other tools.
	NoChat bool
	// Parser is the worker's --reasoning-parser, "" without one.
	Parser string
	// ThinkStart and ThinkEnd surround the thinking of earlier turns in an assistant's text. Both
	// are "" where SGLang drops it; see NativeThinking.
	ThinkStart, ThinkEnd string
	// NativeThinking reports a parser whose template may take earlier thinking as
	// reasoning_content. Which of both it does is not known here.
	NativeThinking bool
	// Thinking is the way to switch reasoning on and off.
	Thinking Thinking
}

// RulesOf returns the rules of a model as a client names it.
type RulesOf func(model string) Rules

// Thinking is the way in which SGLang switches the reasoning of a model (apply_reasoning_enabled).
type Thinking struct {
	// Kwarg is a template variable that is true or false.
	Kwarg string
	// Always is a model that reasons always: it cannot be switched off.
	Always bool
	// Effort is a model that is switched by reasoning_effort, medium or none.
	Effort bool
}

// Rules returns the rules of conversion of the model.
func (m *Model) Rules() Rules { return m.rules }

func rulesOf(m *Model, source string, e *Engine) Rules {
	r := Rules{Known: true, Parser: e.ReasoningParser, InlineSystem: m.inlineSystem(), NoChat: e.ModelType == "gpt_oss" || e.ModelType == "beam"}
	if r.Parser == "" || r.Parser == "auto" {
		r.Known = r.Parser == ""
		return r
	}
	p, ok := reasoningParsers[strings.ToLower(r.Parser)]
	if r.NativeThinking = !ok; ok {
		r.ThinkStart, r.ThinkEnd = p.start, p.end
		r.Thinking = thinkingOf(source, p.byDefault)
	}
	return r
}

// inlineProbe is the text that detect_inline_system_support looks for.
const inlineProbe = "__sglang_inline_system_sentinel__"

// inlineSystem renders a system message between two turns. The template gets the messages alone,
// without the functions and the special tokens of transformers: a template that needs them fails,
// as it does in SGLang.
func (m *Model) inlineSystem() bool {
	messages := []byte(`[{"role":"system","content":"t"},{"role":"user","content":"t"},` +
		`{"role":"system","content":"` + inlineProbe + `"},{"role":"user","content":"t"}]`)
	var out []byte
	var err error
	func() {
		s := m.template.begin(nil, m.limits, len(messages), m.now)
		defer m.template.end(s, nil, &out, &err)
		v := decodeJSON(s, messages, false)
		for i := range globals {
			if name := globals[i].name; name != "raise_exception" && name != "strftime_now" {
				s.set(name, value{k: kFunc, n: int64(i)})
			}
		}
		s.set("messages", v)
		s.set("add_generation_prompt", boolValue(false))
		if err = s.render(); err == nil {
			out = slices.Clone(s.out)
		}
	}()
	return err == nil && bytes.Contains(out, []byte(inlineProbe))
}

// reasoningParser is a detector of srt/parser/reasoning_parser.py.
type reasoningParser struct{ start, end, byDefault string }

// plainThink are the marks of most parsers.
const plainThink, plainThinkEnd = "<think>", "</think>"

// reasoningParsers are the detectors that write earlier thinking into the text. response_template,
// beam, kimi_k3, deepseek-v4, inkling, muse and hunyuan are left out: their history or their switch
// has rules of its own.
var reasoningParsers = map[string]reasoningParser{
	"deepseek-r1":             {plainThink, plainThinkEnd, "always"},
	"deepseek-v3":             {plainThink, plainThinkEnd, "thinking"},
	"dots":                    {plainThink, plainThinkEnd, "enable_thinking"},
	"glm45":                   {plainThink, plainThinkEnd, "enable_thinking"},
	"ling3":                   {plainThink, plainThinkEnd, "enable_thinking"},
	"k2_horizon":              {"<ifm|think>", "</ifm|think>", "always"},
	"kimi":                    {"◁think▷", "◁/think▷", "always"},
	"kimi_k2":                 {plainThink, plainThinkEnd, "thinking"},
	"mimo":                    {plainThink, plainThinkEnd, "enable_thinking"},
	"poolside_v1":             {plainThink, plainThinkEnd, "enable_thinking"},
	"qwen3":                   {plainThink, plainThinkEnd, "enable_thinking"},
	"qwen3-thinking":          {plainThink, plainThinkEnd, "enable_thinking"},
	"minimax":                 {plainThink, plainThinkEnd, "enable_thinking"},
	"minimax-append-think":    {plainThink, plainThinkEnd, "always"},
	"nanbeige":                {plainThink, plainThinkEnd, "enable_thinking"},
	"step3":                   {plainThink, plainThinkEnd, "always"},
	"step3p5":                 {plainThink, plainThinkEnd, "always"},
	"mistral":                 {"[THINK]", "[/THINK]", "mistral"},
	"nemotron_3":              {plainThink, plainThinkEnd, "enable_thinking"},
	"granite_thinking_parser": {plainThink, plainThinkEnd, "enable_thinking"},
	"interns1":                {plainThink, plainThinkEnd, "enable_thinking"},
	"gemma4":                  {"<|channel>thought\n", "<channel|>", "enable_thinking"},
	"gigachat35":              {plainThink, plainThinkEnd, "always"},
	"cohere_command4":         {"<|START_THINKING|>", "<|END_THINKING|>", "always"},
	"gpt-oss":                 {"<|channel|>analysis<|message|>", "<|end|>", "always"},
}

// switchPatterns find how a template switches reasoning: REASONING_MODE_RULES of
// srt/parser/template_detection.py, in their order. All patterns of a row must match.
var switchPatterns = []struct {
	all []*regexp.Regexp
	is  Thinking
}{
	{all: patterns(`<ifm\|think>`, `<ifm\|think_fast>`, `reasoning_effort`), is: Thinking{Always: true}},
	{all: patterns(`<\|channel\|>`), is: Thinking{Always: true}},
	{all: patterns(`reasoning_effort`, `\[THINK\]`), is: Thinking{Effort: true}},
	{
		all: patterns(`(?s){%\s*if\s+not\s+enable_thinking\s+is\s+defined\s*%}.*?{%\s*set\s+enable_thinking\s*=\s*(?:false|False)\s*%}`),
		is:  Thinking{Kwarg: "enable_thinking"},
	},
	{all: patterns(`low_effort`, `truncate_history_thinking`), is: Thinking{Kwarg: "enable_thinking"}},
	{
		all: patterns(`(?s){%\s*if\s+not\s+enable_thinking\s+is\s+defined\s*%}.*?{%\s*set\s+enable_thinking\s*=\s*(?:true|True)\s*%}|` +
			`set\s+enable_thinking\s*=\s*enable_thinking\s+if\s+enable_thinking\s+is\s+defined\s+else\s+(?:true|True)|` +
			`enable_thinking\s+is\s+defined\s+and\s+(?:enable_thinking\s+is\s+false|not\s+enable_thinking)|` +
			`enable_thinking\s+is\s+not\s+defined\s+or\s+enable_thinking|namespace\([^)]*enable_thinking\s*=\s*true`),
		is: Thinking{Kwarg: "enable_thinking"},
	},
	{
		all: patterns(`(?s){%\s*if\s+not\s+thinking\s+is\s+defined\s*%}.*?{%\s*set\s+thinking\s*=\s*(?:false|False|true|True)\s*%}|` +
			`set\s+thinking\s*=\s*thinking\s+if\s+thinking\s+is\s+defined\s+else\s+(?:true|True)|` +
			`thinking\s+is\s+defined\s+and\s+(?:thinking\s+is\s+false|not\s+thinking)|` +
			`thinking\s+is\s+not\s+defined\s+or\s+thinking|namespace\([^)]*thinking\s*=\s*true`),
		is: Thinking{Kwarg: "thinking"},
	},
}

func patterns(list ...string) []*regexp.Regexp {
	all := make([]*regexp.Regexp, len(list))
	for i, p := range list {
		all[i] = regexp.MustCompile(p)
	}
	return all
}

// otherSwitch finds templates that SGLang tells by rules which are not repeated here.
var otherSwitch = regexp.MustCompile(`thinking\s*\|\s*(?:default|d)\b|reasoning_mode_token|Reasoning Effort:|<\|im_start\|>assistant\\n<think>\\n`)

// thinkingOf returns the switch of a template, else that of its parser; the zero value where it is
// not known.
func thinkingOf(source, byDefault string) Thinking {
	if otherSwitch.MatchString(source) && !strings.Contains(source, "enable_thinking is defined") {
		return Thinking{}
	}
	for _, row := range switchPatterns {
		if !slices.ContainsFunc(row.all, func(p *regexp.Regexp) bool { return !p.MatchString(source) }) {
			return row.is
		}
	}
	switch byDefault {
	case "always":
		return Thinking{Always: true}
	case "mistral":
		return Thinking{Effort: true}
	}
	return Thinking{Kwarg: byDefault}
}
