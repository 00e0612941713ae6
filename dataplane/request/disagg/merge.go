package disagg

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// Kind says where an answer has the log probabilities of its prompt.
type Kind uint8

const (
	// Generate is an answer of /generate: meta_info.input_token_logprobs, and what was asked for beside it. The prefill
	// server's come first, then the decode server's, of which there are none, or few. Of output_token_ids_logprobs, SGLang
	// 0.5.23 leaves the first token's, which the prefill server generates, out: there is a null in its place.
	Generate Kind = iota
	// Echo is one of /v1/completions with echo: choices[].logprobs, where those of the answer follow those of the prompt. The
	// prefill server's end with its one generated token, which is also the decode server's first.
	Echo
)

// ErrNoLogprobs is an answer of a prefill server without the log probabilities that it was asked for.
var ErrNoLogprobs = errors.New("disagg: prefill answer without log probabilities")

// generateLists are the lists of meta_info, echoLists those of a choice's logprobs.
var (
	generateLists = [...]string{"input_token_logprobs", "input_top_logprobs", "input_token_ids_logprobs", "output_token_ids_logprobs"}
	echoLists     = [...]string{"tokens", "token_logprobs", "text_offset", "top_logprobs"}
)

const (
	// maxLists is the number of either.
	maxLists = 4
	// firstOutput is the one of generateLists of which only the first element is merged.
	firstOutput = 3
)

// part is what the prefill server's answer has for one prompt or choice: the insides of its lists, of firstOutput the first
// element.
type part struct {
	index int
	lists [maxLists][]byte
	used  bool // Echo in a stream: the choice's first event has passed
}

// Merger puts the log probabilities of the prompt, from the prefill server's answer, into the decode server's. A JSON answer
// is kept until its end, a stream event by event. The zero value needs a Reset.
type Merger struct {
	kind  Kind
	sse   bool
	parts []part
	kept  []byte   // of the decode server's answer: what cannot be written yet
	cuts  []insert // of the document at hand
}

// insert is what goes into a document at a place.
type insert struct {
	at, drop int // how many bytes of the document it replaces
	text     []byte
	comma    bool // behind text
}

// Reset prepares m for one answer. prefill is the prefill server's whole answer, of which m keeps parts; sse says that both
// are streams of events.
func (m *Merger) Reset(kind Kind, sse bool, prefill []byte) error {
	*m = Merger{kind: kind, sse: sse, parts: m.parts[:0], kept: m.kept[:0], cuts: m.cuts[:0]}
	if !sse {
		if err := m.learn(prefill); err != nil {
			return fmt.Errorf("%w: %w", ErrNoLogprobs, err)
		}
	}
	for sse && len(prefill) > 0 {
		var line []byte
		line, prefill, _ = bytes.Cut(prefill, newline)
		data, ok := bytes.CutPrefix(line, dataPrefix)
		if data = bytes.TrimSpace(data); !ok || len(data) == 0 || data[0] != '{' {
			continue // [DONE], or nothing
		}
		if err := m.learn(data); err != nil {
			return fmt.Errorf("%w: %w", ErrNoLogprobs, err)
		}
	}
	if len(m.parts) == 0 {
		return ErrNoLogprobs
	}
	return nil
}

// Release forgets the answers.
func (m *Merger) Release() {
	clear(m.parts)
	clear(m.cuts)
	*m = Merger{parts: m.parts[:0], cuts: m.cuts[:0]}
}

// learn takes the lists out of a document of the prefill server's answer.
func (m *Merger) learn(doc []byte) error {
	return m.each(doc, func(index, at int) error {
		for i := range m.parts {
			if m.parts[i].index == index {
				return nil // the first event has them all
			}
		}
		p := part{index: index}
		found := false
		err := m.lists(doc, at, func(list, lo, hi int) {
			switch {
			case m.kind == Echo:
				p.lists[list] = before(doc, lo)
			case list == firstOutput:
				p.lists[list] = first(doc, lo)
			default:
				p.lists[list] = inside(doc, lo, hi)
			}
			found = true
		})
		if found {
			m.parts = append(m.parts, p)
		}
		return err
	})
}

// Append takes the next bytes of the decode server's answer and appends to dst what can be sent.
func (m *Merger) Append(dst, p []byte) []byte {
	if !m.sse {
		m.kept = append(m.kept, p...)
		return dst
	}
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			m.kept = append(m.kept, p...)
			return dst
		}
		line := p[:i]
		if len(m.kept) > 0 {
			m.kept = append(m.kept, line...)
			line = m.kept
		}
		dst = append(m.event(dst, line), '\n')
		m.kept, p = m.kept[:0], p[i+1:]
	}
}

// End appends what is left at the end of the answer.
func (m *Merger) End(dst []byte) []byte {
	if m.sse {
		return m.event(dst, m.kept)
	}
	return m.document(dst, m.kept)
}

// event merges one line of a stream.
func (m *Merger) event(dst, line []byte) []byte {
	i := bytes.IndexByte(line, '{')
	if !bytes.HasPrefix(line, dataPrefix) || i < 0 {
		return append(dst, line...)
	}
	return m.document(append(dst, line[:i]...), line[i:])
}

// document merges one JSON document. What is not as expected passes as it is.
func (m *Merger) document(dst, doc []byte) []byte {
	m.cuts = m.cuts[:0]
	err := m.each(doc, func(index, at int) error {
		p := m.partOf(index)
		if p == nil || p.used {
			return nil
		}
		return m.lists(doc, at, func(list, lo, hi int) {
			p.used = m.kind == Echo && m.sse
			text := p.lists[list]
			switch {
			case len(text) == 0:
			case m.kind == Generate && list == firstOutput:
				if own := first(doc, lo); string(own) == "null" {
					m.cuts = append(m.cuts, insert{at: lo + bytes.Index(doc[lo:hi], own), drop: len(own), text: text})
				}
			default:
				m.cuts = append(m.cuts, insert{at: lo + 1, text: text, comma: len(inside(doc, lo, hi)) > 0})
			}
		})
	})
	if err != nil {
		return append(dst, doc...)
	}
	from := 0
	for _, c := range m.cuts {
		dst = append(append(dst, doc[from:c.at]...), c.text...)
		if c.comma {
			dst = append(dst, ',')
		}
		from = c.at + c.drop
	}
	return append(dst, doc[from:]...)
}

func (m *Merger) partOf(index int) *part {
	for i := range m.parts {
		if m.parts[i].index == index {
			return &m.parts[i]
		}
	}
	return nil
}

// each calls f for each answer in a document, with its index and where the object begins that holds its lists.
func (m *Merger) each(doc []byte, f func(index, at int) error) (err error) {
	one := func(index, at int, holder string) {
		holds := -1
		_, e := openai.Members(doc, at, func(key []byte, lo, hi int) {
			switch string(key) {
			case "index":
				index = number(doc[lo:hi])
			case holder:
				if doc[lo] == '{' {
					holds = lo
				}
			}
		})
		if e == nil && holds >= 0 {
			e = f(index, holds)
		}
		err = errors.Join(err, e)
	}
	n := 0
	all := func(at int, holder string) {
		_, e := openai.Elements(doc, at, func(lo, _ int) {
			one(n, lo, holder)
			n++
		})
		err = errors.Join(err, e)
	}
	start := len(doc) - len(bytes.TrimLeft(doc, " \t\r\n"))
	switch {
	case m.kind == Generate && start < len(doc) && doc[start] == '[': // a batch
		all(start, "meta_info")
	case m.kind == Generate:
		one(0, start, "meta_info")
	default:
		choices := -1
		_, e := openai.Members(doc, start, func(key []byte, lo, _ int) {
			if string(key) == "choices" && doc[lo] == '[' {
				choices = lo
			}
		})
		err = e
		if choices >= 0 {
			all(choices, "logprobs")
		}
	}
	return err
}

// lists calls f for each list of log probabilities in the object at at, in the order in which they stand there.
func (m *Merger) lists(doc []byte, at int, f func(list, lo, hi int)) error {
	names := generateLists[:]
	if m.kind == Echo {
		names = echoLists[:]
	}
	_, err := openai.Members(doc, at, func(key []byte, lo, hi int) {
		for i, name := range names {
			if string(key) == name && doc[lo] == '[' {
				f(i, lo, hi)
			}
		}
	})
	return err
}

// inside is what stands between the brackets of the list at lo.
func inside(doc []byte, lo, hi int) []byte { return bytes.TrimSpace(doc[lo+1 : hi-1]) }

// first is the first element of the list at lo.
func first(doc []byte, lo int) (element []byte) {
	_, _ = openai.Elements(doc, lo, func(at, end int) {
		if element == nil {
			element = doc[at:end]
		}
	})
	return element
}

// before is what stands in the list at lo before its last element.
func before(doc []byte, lo int) []byte {
	last := lo + 1
	_, _ = openai.Elements(doc, lo, func(at, _ int) { last = at })
	return bytes.TrimRight(doc[lo+1:last], ", \t\r\n")
}
