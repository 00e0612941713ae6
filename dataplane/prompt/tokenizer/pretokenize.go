package tokenizer

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// step is one pre-tokenizer of a sequence: it cuts a stretch of text into parts for the next step.
type step struct {
	kind     stepKind
	find     scanner  // split
	behavior behavior // split
	invert   bool     // split: stretches without a match count as the match
	marker   string   // metaspace: replacement of a space
	scheme   scheme   // metaspace
}

type stepKind uint8

const (
	stepSplit stepKind = iota
	// stepMeta writes the marker for each space, and before the text by its scheme. Splitting comes
	// as a step of its own.
	stepMeta
	// stepSpace puts a space before a text that does not begin with one.
	stepSpace
	// stepBytes writes each byte as a character of GPT-2's alphabet. It is needed only before steps
	// that inspect those characters; the model itself takes bytes.
	stepBytes
)

// behavior is the treatment of a match by a Split.
type behavior uint8

const (
	isolated   behavior = iota // a part of its own
	removed                    // dropped
	withBefore                 // part of the text before it
	withAfter                  // part of the text after it
	contiguous                 // one part with the matches next to it
)

var behaviors = map[string]behavior{
	"Isolated": isolated, "Removed": removed, "MergedWithPrevious": withBefore, "MergedWithNext": withAfter,
	"Contiguous": contiguous,
}

// scheme is the rule for the marker that Metaspace puts before a text.
type scheme uint8

const (
	never scheme = iota
	first        // at the beginning of the whole text
	always
)

var schemes = map[string]scheme{"never": never, "first": first, "always": always}

// preTokenizer are the steps before the model.
type preTokenizer struct {
	steps []step
	bytes bool // the last step is, or was, ByteLevel: the model works on bytes
	mixed bool // a stepBytes is among the steps, so parts arrive in GPT-2's alphabet
}

func newPreTokenizer(t *unicodeTables, raw json.RawMessage) (preTokenizer, error) {
	var p preTokenizer
	if absent(raw) {
		return p, nil
	}
	err := addSteps(t, &p, raw)
	// A stepBytes at the end would only be undone.
	if n := len(p.steps); n > 0 && p.steps[n-1].kind == stepBytes {
		p.steps = p.steps[:n-1]
		p.mixed = false
	}
	return p, err
}

func addSteps(t *unicodeTables, p *preTokenizer, raw json.RawMessage) error {
	kind, err := typeOf(raw)
	if err != nil {
		return err
	}
	// Their effects are in tokenizers/src/pre_tokenizers. The ones left out (BertPreTokenizer,
	// Whitespace, CharDelimiterSplit, UnicodeScripts, FixedLength) are of no BPE model that is
	// served.
	switch kind {
	case "Sequence":
		var parts struct {
			Type          string            `json:"type"`
			Pretokenizers []json.RawMessage `json:"pretokenizers"`
		}
		if err := strict(raw, &parts); err != nil {
			return err
		}
		for _, part := range parts.Pretokenizers {
			if err := addSteps(t, p, part); err != nil {
				return err
			}
		}
		return nil
	case "ByteLevel":
		return addByteLevel(t, p, raw)
	case "Split":
		return addSplit(t, p, raw)
	case "Digits":
		var digits struct {
			Type       string `json:"type"`
			Individual bool   `json:"individual_digits"`
		}
		err := strict(raw, &digits)
		s := step{find: classScanner{t, numeric}, behavior: contiguous}
		if digits.Individual {
			s.behavior = isolated
		}
		p.steps = append(p.steps, s)
		return err
	// All its parts are runs without white space, so its behavior is Removed.
	case "WhitespaceSplit":
		p.steps = append(p.steps, step{find: classScanner{t, space}, behavior: removed})
		return nil
	case "Punctuation":
		var part struct {
			Type     string `json:"type"`
			Behavior string `json:"behavior"`
		}
		part.Behavior = "Isolated"
		if err := strict(raw, &part); err != nil {
			return err
		}
		return p.addSplit(classScanner{t, punctuation}, part.Behavior, false)
	case "Metaspace":
		return addMetaspace(p, raw)
	default:
		return unsupported("the pre-tokenizer " + kind)
	}
}

// addByteLevel adds up to three steps: the prefix, GPT-2's pattern, and the change of alphabet,
// which all steps after it see.
func addByteLevel(t *unicodeTables, p *preTokenizer, raw json.RawMessage) error {
	part := struct {
		Type     string `json:"type"`
		Prefix   bool   `json:"add_prefix_space"`
		Trim     bool   `json:"trim_offsets"` // of offsets, which are not computed
		UseRegex bool   `json:"use_regex"`
	}{UseRegex: true}
	if err := strict(raw, &part); err != nil {
		return err
	}
	if p.bytes {
		return unsupported("two pre-tokenizers ByteLevel in a sequence")
	}
	if part.Prefix {
		p.steps = append(p.steps, step{kind: stepSpace})
	}
	if part.UseRegex {
		p.steps = append(p.steps, step{find: gpt2{t}})
	}
	p.steps = append(p.steps, step{kind: stepBytes})
	p.bytes, p.mixed = true, true
	return nil
}

func addSplit(t *unicodeTables, p *preTokenizer, raw json.RawMessage) error {
	var part struct {
		Type     string  `json:"type"`
		Pattern  pattern `json:"pattern"`
		Behavior string  `json:"behavior"`
		Invert   bool    `json:"invert"`
	}
	if err := strict(raw, &part); err != nil {
		return err
	}
	find, err := newScanner(t, part.Pattern)
	if err != nil {
		return err
	}
	return p.addSplit(find, part.Behavior, part.Invert)
}

func (p *preTokenizer) addSplit(find scanner, name string, invert bool) error {
	b, ok := behaviors[name]
	if !ok {
		return unsupported("the behavior " + name + " of a split")
	}
	p.steps = append(p.steps, step{find: find, behavior: b, invert: invert})
	return nil
}

// addMetaspace adds one step or two. Old files say add_prefix_space where newer ones have
// prepend_scheme; both may be there.
func addMetaspace(p *preTokenizer, raw json.RawMessage) error {
	part := struct {
		Type        string  `json:"type"`
		Replacement string  `json:"replacement"`
		Prefix      *bool   `json:"add_prefix_space"`
		Scheme      string  `json:"prepend_scheme"`
		Split       *bool   `json:"split"`
		StrRep      *string `json:"str_rep"` // written by old versions, and ignored
	}{Scheme: "always"}
	if err := strict(raw, &part); err != nil {
		return err
	}
	s, ok := schemes[part.Scheme]
	if !ok || utf8.RuneCountInString(part.Replacement) != 1 {
		return unsupported(fmt.Sprintf("Metaspace with scheme %q and replacement %q", part.Scheme, part.Replacement))
	}
	if part.Prefix != nil && !*part.Prefix && s != never {
		return fmt.Errorf("add_prefix_space false contradicts prepend_scheme %q", part.Scheme)
	}
	if p.bytes {
		return unsupported("Metaspace after ByteLevel")
	}
	p.steps = append(p.steps, step{kind: stepMeta, marker: part.Replacement, scheme: s})
	if part.Split == nil || *part.Split {
		p.steps = append(p.steps, step{find: literalScanner(part.Replacement), behavior: withAfter})
	}
	return nil
}
