package disagg

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// Kind is the place of the prompt's log probabilities in an answer.
type Kind uint8

const (
	// Generate is an answer of /generate, which has them in meta_info: input_token_logprobs and, as
	// requested, the other generateLists. The prefill server's come first, then the decode
	// server's, if any. SGLang 0.5.23's decode server has null in place of the first element of
	// output_token_ids_logprobs: the prefill server generates that token.
	Generate Kind = iota
	// Echo is an answer of /v1/completions with echo, which has them in choices[].logprobs before
	// those of the generated tokens. The prefill server's end with its one generated token, which
	// is also the decode server's first.
	Echo
)

// ErrNoLogprobs is an answer of a prefill server without the requested log probabilities.
var ErrNoLogprobs = errors.New("disagg: prefill answer without log probabilities")

// generateLists are the lists of meta_info, echoLists those of a choice's logprobs.
var (
	generateLists = [...]string{
		"input_token_logprobs", "input_top_logprobs", "input_token_ids_logprobs", "output_token_ids_logprobs",
	}
	echoLists = [...]string{"tokens", "token_logprobs", "text_offset", "top_logprobs"}
)

const (
	// maxLists is the length of either.
	maxLists = 4
	// firstOutput is the member of generateLists of which only the first element is merged.
	firstOutput = 3
)

// part has the prefill server's log probabilities of one prompt or choice: the elements of its
// lists, and of firstOutput the first element.
type part struct {
	index int
	lists [maxLists][]byte
	used  bool // Echo in a stream: the choice's first event was merged
}

// Merger puts the prompt's log probabilities, from the prefill server's answer, into the decode
// server's answer. It holds a JSON answer back until its end, and a stream event by event. The zero
// value needs a Reset.
type Merger struct {
	kind  Kind
	sse   bool
	parts []part
	held  []byte // bytes of the decode server's answer that cannot be written yet
	edits []edit // of the current document
}

// edit replaces drop bytes of a document at a place.
type edit struct {
	at, drop int
	text     []byte
	comma    bool // after text
}

// Reset prepares m for one answer. prefill is the prefill server's whole answer, and m keeps parts
// of it; sse says that both answers are streams of events.
func (m *Merger) Reset(kind Kind, sse bool, prefill []byte) error {
	*m = Merger{kind: kind, sse: sse, parts: m.parts[:0], held: m.held[:0], edits: m.edits[:0]}
	if !sse {
		if err := m.extract(prefill); err != nil {
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
		if err := m.extract(data); err != nil {
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
	clear(m.edits)
	*m = Merger{parts: m.parts[:0], edits: m.edits[:0]}
}

// extract takes the lists out of a document of the prefill server's answer.
func (m *Merger) extract(doc []byte) error {
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

// Append takes the next bytes of the decode server's answer and appends to dst those that can be
// sent.
func (m *Merger) Append(dst, p []byte) []byte {
	if !m.sse {
		m.held = append(m.held, p...)
		return dst
	}
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			m.held = append(m.held, p...)
			return dst
		}
		line := p[:i]
		if len(m.held) > 0 {
			m.held = append(m.held, line...)
			line = m.held
		}
		dst = append(m.event(dst, line), '\n')
		m.held, p = m.held[:0], p[i+1:]
	}
}

// End appends the bytes that were held back until the end of the answer.
func (m *Merger) End(dst []byte) []byte {
	if m.sse {
		return m.event(dst, m.held)
	}
	return m.document(dst, m.held)
}

// event merges one line of a stream.
func (m *Merger) event(dst, line []byte) []byte {
	i := bytes.IndexByte(line, '{')
	if !bytes.HasPrefix(line, dataPrefix) || i < 0 {
		return append(dst, line...)
	}
	return m.document(append(dst, line[:i]...), line[i:])
}

// document merges one JSON document. A document of an unexpected form passes unchanged.
func (m *Merger) document(dst, doc []byte) []byte {
	m.edits = m.edits[:0]
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
					m.edits = append(m.edits,
						edit{at: lo + bytes.Index(doc[lo:hi], own), drop: len(own), text: text})
				}
			default:
				m.edits = append(m.edits, edit{at: lo + 1, text: text, comma: len(inside(doc, lo, hi)) > 0})
			}
		})
	})
	if err != nil {
		return append(dst, doc...)
	}
	from := 0
	for _, c := range m.edits {
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

// each calls f for each answer in a document, with its index and the offset of the object that has
// its lists.
func (m *Merger) each(doc []byte, f func(index, at int) error) (err error) {
	one := func(index, at int, holder string) {
		object := -1
		_, e := openai.Members(doc, at, func(key []byte, lo, hi int) {
			switch string(key) {
			case "index":
				index = number(doc[lo:hi])
			case holder:
				if doc[lo] == '{' {
					object = lo
				}
			}
		})
		if e == nil && object >= 0 {
			e = f(index, object)
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

// lists calls f for each list of log probabilities in the object at offset at, in the document's
// order.
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

// inside returns the elements of the list at lo, without the brackets.
func inside(doc []byte, lo, hi int) []byte { return bytes.TrimSpace(doc[lo+1 : hi-1]) }

// first returns the first element of the list at lo.
func first(doc []byte, lo int) (element []byte) {
	_, _ = openai.Elements(doc, lo, func(at, end int) {
		if element == nil {
			element = doc[at:end]
		}
	})
	return element
}

// before returns the elements of the list at lo but the last.
func before(doc []byte, lo int) []byte {
	last := lo + 1
	_, _ = openai.Elements(doc, lo, func(at, _ int) { last = at })
	return bytes.TrimRight(doc[lo+1:last], ", \t\r\n")
}
