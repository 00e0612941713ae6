package lint

import (
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/valyala/fastjson"
)

// ErrBody is a body without a prompt.
var ErrBody = errors.New("lint: no prompt")

// Prompt is one request's prompt, as parts of text or as numbers.
type Prompt struct {
	Model string
	Parts []Part // in the order in which engines see them
	// Number of leading Parts that the template makes: system message and tools; 0: not known.
	TemplateParts int

	IDs       []uint64 // instead of Parts: token ids, or ids of blocks
	IDsTokens int      // tokens of one of IDs
}

// Part is a piece of a prompt with a name: the role of a message, "tools" or "prompt".
type Part struct {
	Name string
	Text string
}

// blockTokens is the size of a block in Mooncake's traces, where a line does not say another.
const blockTokens = 512

// Parse reads the prompt of a JSON object: a request's body for chat, Anthropic's messages,
// completions or /generate, one
// of these below "body" (a line of OpenAI's batch files), or a line of a trace with hash_ids. The
// system message of a chat comes before its tools, as most templates have it. Of a list of prompts
// the first is taken.
func Parse(body []byte) (*Prompt, error) {
	v, err := fastjson.ParseBytes(body)
	if err != nil {
		return nil, fmt.Errorf("cannot read body: %w: %w", ErrBody, err)
	}
	if inner := v.Get("body"); inner != nil && inner.Type() == fastjson.TypeObject {
		v = inner
	}
	p := &Prompt{Model: string(v.GetStringBytes("model"))}
	switch {
	case len(v.GetArray("input_ids")) > 0:
		p.ids(v.Get("input_ids"), 1)
	case len(v.GetArray("messages")) > 0:
		p.chat(v)
	case len(v.GetArray("hash_ids")) > 0:
		tokens := v.GetInt("block_size")
		if tokens <= 0 {
			tokens = blockTokens
		}
		p.ids(v.Get("hash_ids"), tokens)
	default:
		p.text(v)
	}
	if len(p.Parts) == 0 && len(p.IDs) == 0 {
		return nil, fmt.Errorf("cannot read body: %w", ErrBody)
	}
	return p, nil
}

// ids takes a list of numbers, or the first one of several.
func (p *Prompt) ids(v *fastjson.Value, tokens int) {
	list := v.GetArray()
	if len(list) > 0 && list[0].Type() == fastjson.TypeArray {
		list = list[0].GetArray()
	}
	p.IDs, p.IDsTokens = make([]uint64, len(list)), tokens
	for i, id := range list {
		p.IDs[i] = id.GetUint64()
	}
}

// text takes "prompt" or "text": a string, a list of strings or of ids.
func (p *Prompt) text(v *fastjson.Value) {
	for _, key := range [...]string{"prompt", "text"} {
		switch f := v.Get(key); {
		case f == nil:
		case f.Type() == fastjson.TypeString:
			p.add("prompt", string(f.GetStringBytes()))
		case len(f.GetArray()) > 0 && f.GetArray()[0].Type() == fastjson.TypeString:
			p.add("prompt", string(f.GetArray()[0].GetStringBytes()))
		case len(f.GetArray()) > 0:
			p.ids(f, 1)
		}
	}
}

// chat takes the messages and tools of a chat.
func (p *Prompt) chat(v *fastjson.Value) {
	if system := v.Get("system"); system != nil { // of Anthropic's API
		var text strings.Builder
		writeContent(&text, system)
		p.add("system", text.String())
	}
	messages := v.GetArray("messages")
	for len(messages) > 0 && isSystem(messages[0]) {
		p.message(messages[0])
		messages = messages[1:]
	}
	if tools := v.GetArray("tools"); len(tools) > 0 {
		p.add("tools", string(v.Get("tools").MarshalTo(nil)))
	}
	p.TemplateParts = len(p.Parts)
	for _, m := range messages {
		p.message(m)
	}
}

func isSystem(m *fastjson.Value) bool {
	role := string(m.GetStringBytes("role"))
	return role == "system" || role == "developer"
}

// message takes the text of a message, of its parts and of its calls of tools.
func (p *Prompt) message(m *fastjson.Value) {
	var text strings.Builder
	writeContent(&text, m.Get("content"))
	if calls := m.Get("tool_calls"); calls != nil {
		text.Write(calls.MarshalTo(nil))
	}
	p.add(string(m.GetStringBytes("role")), text.String())
}

// writeContent writes the text of a content: a string, or a list of parts. Those of Anthropic's API
// may be thinking, calls of tools, and their results, which have contents of their own.
func writeContent(text *strings.Builder, content *fastjson.Value) {
	if content == nil {
		return
	}
	text.Write(content.GetStringBytes())
	for _, part := range content.GetArray() {
		text.Write(part.GetStringBytes("text"))
		text.Write(part.GetStringBytes("thinking"))
		if input := part.Get("input"); input != nil {
			text.Write(input.MarshalTo(nil))
		}
		writeContent(text, part.Get("content"))
	}
}

func (p *Prompt) add(name, text string) { p.Parts = append(p.Parts, Part{Name: name, Text: text}) }

// units is a prompt cut into units, which are compared.
type units struct {
	*Prompt
	hash          []uint64
	ends          []int // of each unit: bytes of text, or ids, up to and with it
	templateUnits int   // units of the leading parts; 0: not known
}

// seed is one for the process: hashes of two prompts are compared.
var seed = maphash.MakeSeed()

const (
	// bytesToken is the mean of English text and JSON.
	bytesToken = 4
	// maxUnit is the longest unit of text, in bytes: without a bound, a picture in base64 would be
	// one.
	maxUnit = 32
	// maxUnits bounds the units of one prompt; templates are much shorter.
	maxUnits = 1 << 16
)

func newUnits(p *Prompt) *units {
	u := &units{Prompt: p}
	for i, id := range p.IDs[:min(len(p.IDs), maxUnits)] {
		u.add(id*0x9e3779b97f4a7c15+1, i+1)
	}
	at := 0
	for i, part := range p.Parts {
		// Where a part begins counts, and weighs nothing.
		u.add(maphash.String(seed, "\x00"+part.Name), at)
		for rest := part.Text; rest != "" && len(u.hash) < maxUnits; {
			n := unitLen(rest)
			at += n
			u.add(maphash.String(seed, rest[:n]), at)
			rest = rest[n:]
		}
		if i+1 == p.TemplateParts {
			u.templateUnits = len(u.hash)
		}
	}
	return u
}

func (u *units) add(hash uint64, end int) {
	u.hash, u.ends = append(u.hash, hash), append(u.ends, end)
}

// unitLen is the length of the first unit of s: a word, a number, a sign with the white space after
// it, or one character of a script without spaces.
func unitLen(s string) int {
	first, n := utf8.DecodeRuneInString(s)
	same := unicode.IsSpace
	switch {
	case unicode.IsDigit(first):
		same = unicode.IsDigit
	case unicode.IsLetter(first) && first < 0x2e80: // not those of East Asia
		same = func(r rune) bool { return unicode.IsLetter(r) && r < 0x2e80 }
	}
	for n < len(s) && n < maxUnit {
		r, size := utf8.DecodeRuneInString(s[n:])
		if !same(r) {
			break
		}
		n += size
	}
	return n
}

// weight is the number of tokens of the first n units.
func (u *units) weight(n int) float64 {
	if n == 0 {
		return 0
	}
	if len(u.IDs) > 0 {
		return float64(u.ends[n-1] * u.IDsTokens)
	}
	return float64(u.ends[n-1]) / bytesToken
}

// location returns the beginning of the n-th unit: the part, and the offset in bytes; of ids, the
// number before it.
func (u *units) location(n int) (part string, offset int) {
	at := 0
	if n > 0 {
		at = u.ends[n-1]
	}
	if len(u.IDs) > 0 {
		return "ids", at
	}
	for i, p := range u.Parts {
		if at < len(p.Text) || i+1 == len(u.Parts) {
			return p.Name, at
		}
		at -= len(p.Text)
	}
	return "", at
}

// excerpt is the text of units from to to.
func (u *units) excerpt(from, to int) string {
	begin, end := 0, 0
	if from > 0 {
		begin = u.ends[from-1]
	}
	if to > 0 {
		end = u.ends[to-1]
	}
	if len(u.IDs) > 0 {
		return strings.Trim(fmt.Sprint(u.IDs[begin:end]), "[]")
	}
	var b strings.Builder
	for _, p := range u.Parts {
		lo, hi := min(max(begin, 0), len(p.Text)), min(max(end, 0), len(p.Text))
		b.WriteString(p.Text[lo:hi])
		begin, end = begin-len(p.Text), end-len(p.Text)
	}
	return b.String()
}
