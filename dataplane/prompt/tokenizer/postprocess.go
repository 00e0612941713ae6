package tokenizer

import (
	"encoding/json"
	"errors"
)

// postProcessor holds the tokens that the post-processor puts around a text where special tokens
// are asked for.
type postProcessor struct{ before, after []uint32 }

// newPostProcessor reads a post-processor, without its effects on offsets and on pairs of texts.
func newPostProcessor(raw json.RawMessage) (postProcessor, error) {
	if absent(raw) {
		return postProcessor{}, nil
	}
	kind, err := typeOf(raw)
	if err != nil {
		return postProcessor{}, err
	}
	switch kind {
	case "ByteLevel":
		return postProcessor{}, nil
	case "TemplateProcessing":
		return newTemplate(raw)
	// The two old forms are a template of [CLS] A [SEP]; the other fields of Roberta's are about
	// offsets.
	case "BertProcessing", "RobertaProcessing":
		var part struct {
			Separator token `json:"sep"`
			Class     token `json:"cls"`
		}
		err := json.Unmarshal(raw, &part)
		return postProcessor{[]uint32{part.Class.id}, []uint32{part.Separator.id}}, err
	case "Sequence":
		var parts struct {
			Processors []json.RawMessage `json:"processors"`
		}
		if err := json.Unmarshal(raw, &parts); err != nil {
			return postProcessor{}, err
		}
		return newPostSequence(parts.Processors)
	default:
		return postProcessor{}, unsupported("the post-processor " + kind)
	}
}

// newPostSequence reads processors that follow each other, as in Llama 3: a ByteLevel, which is
// about offsets, and a template. Two templates are refused.
func newPostSequence(parts []json.RawMessage) (postProcessor, error) {
	var all postProcessor
	found := false
	for _, part := range parts {
		p, err := newPostProcessor(part)
		if err != nil {
			return postProcessor{}, err
		}
		if kind, _ := typeOf(part); kind == "ByteLevel" {
			continue
		}
		if found {
			return postProcessor{}, unsupported("two post-processors that add tokens in a sequence")
		}
		all, found = p, true
	}
	return all, nil
}

// token is written as ["<s>", 1].
type token struct{ id uint32 }

// UnmarshalJSON reads the pair.
func (t *token) UnmarshalJSON(raw []byte) error {
	var name string
	pair := []any{&name, &t.id}
	if err := json.Unmarshal(raw, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return errors.New("a token of a post-processor is not a pair")
	}
	return nil
}

// newTemplate reads the template for a single text. The one for pairs is for models that compare
// two texts.
func newTemplate(raw json.RawMessage) (postProcessor, error) {
	var part struct {
		Single []struct {
			SpecialToken *struct {
				ID string `json:"id"`
			} `json:"SpecialToken"`
			Sequence *struct {
				ID string `json:"id"`
			} `json:"Sequence"`
		} `json:"single"`
		SpecialTokens map[string]struct {
			IDs []uint32 `json:"ids"`
		} `json:"special_tokens"`
	}
	if err := json.Unmarshal(raw, &part); err != nil {
		return postProcessor{}, err
	}
	var p postProcessor
	into := &p.before
	for _, piece := range part.Single {
		switch {
		case piece.SpecialToken != nil:
			special, ok := part.SpecialTokens[piece.SpecialToken.ID]
			if !ok {
				return postProcessor{}, errors.New("the template names the unknown token " + piece.SpecialToken.ID)
			}
			*into = append(*into, special.IDs...)
		case piece.Sequence != nil && piece.Sequence.ID == "A" && into == &p.before:
			into = &p.after
		default:
			return postProcessor{}, unsupported("a template with other than one sequence A")
		}
	}
	if into == &p.before {
		return postProcessor{}, unsupported("a template without the sequence A")
	}
	if n := len(p.before) + len(p.after); n > maxAround {
		return postProcessor{}, overLimit("%d tokens around a text", n)
	}
	return p, nil
}
