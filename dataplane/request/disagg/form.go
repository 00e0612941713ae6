package disagg

import (
	"bytes"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// Form tells the documents of an API from others: they have one of its members, with a value of the
// right kind. A form asks for no more than all engines write: a good answer is never refused.
type Form struct {
	members []member
	// beside is a member of documents with an empty list: the engine tells of its work although
	// nothing came of it. Without one an empty list is no answer.
	beside string
	lists  bool // a list of such documents is an answer too
	reason bool // a document has its finish_reason, which is worth waiting for
}

type member struct {
	name string
	kind valueKind
	of   *Form // the form of the object, or of the first one of the list; nil: any value
}

// valueKind is a set of the kinds of JSON values.
type valueKind uint8

const (
	kindText valueKind = 1 << iota
	kindNumber
	kindObject
	kindList
	kindNull
)

// begins reports whether a value that begins like this is of a kind in k.
func (k valueKind) begins(value []byte) bool {
	if len(value) == 0 {
		return false
	}
	switch c := value[0]; c {
	case '"':
		return k&kindText != 0
	case '{':
		return k&kindObject != 0
	case '[':
		return k&kindList != 0
	case 'n':
		return k&kindNull != 0
	}
	return k&kindNumber != 0 && (value[0] == '-' || value[0] >= '0' && value[0] <= '9')
}

const space = " \t\r\n"

// fit is how a document fits a form.
type fit uint8

const (
	fitsNot fit = iota
	fits
	fitsEmpty // its list has nothing in it
	fitsMaybe // nothing has come that decides
)

// fit reads a document as far as it has come.
func (f *Form) fit(doc []byte) fit {
	empty, beside := false, false
	found, ended := openai.FindMember(doc, func(key, rest []byte) bool {
		beside = beside || len(key) > 0 && string(key) == f.beside && !kindNull.begins(rest)
		for i := range f.members {
			if m := &f.members[i]; string(key) == m.name {
				fit := m.fit(rest)
				empty = empty || fit == fitsEmpty
				return fit == fits || empty && beside
			}
		}
		return empty && beside
	})
	switch {
	case found:
		return fits
	case ended && empty:
		return fitsEmpty
	case ended:
		return fitsNot
	}
	return fitsMaybe
}

// fit reads a value as far as it has come.
func (m *member) fit(value []byte) fit {
	if !m.kind.begins(value) {
		return fitsNot
	}
	if value[0] == '[' {
		switch value = bytes.TrimLeft(value[1:], space); {
		case len(value) == 0:
			return fitsMaybe
		case value[0] == ']':
			return fitsEmpty
		}
	} else if value[0] != '{' {
		return fits
	}
	if m.of == nil {
		return fits
	}
	return m.of.fit(value)
}

// Forms of the parts of answers.
var (
	formMeta    = Form{members: []member{{"id", kindText, nil}, {"finish_reason", kindObject | kindNull, nil}, {"prompt_tokens", kindNumber, nil}}}
	formMessage = Form{members: []member{
		{"role", kindText, nil}, {"content", kindText | kindList | kindNull, nil}, {"tool_calls", kindList, nil},
	}}
	formTextChoice   = Form{members: []member{{"text", kindText, nil}}}
	formChatChoice   = Form{members: []member{{"message", kindObject, &formMessage}}}
	formStreamChoice = Form{members: []member{{"delta", kindObject, nil}}}
	formTyped        = Form{members: []member{{"type", kindText, nil}}}
	formItem         = Form{members: []member{{"id", kindText, nil}, {"type", kindText, nil}}}
	formEmbedding    = Form{members: []member{{"embedding", kindList | kindText, nil}}}
	formClass        = Form{members: []member{{"label", kindText | kindNull, nil}, {"probs", kindList, nil}}}
	formScore        = Form{members: []member{{"score", kindNumber | kindNull, nil}, {"relevance_score", kindNumber | kindNull, nil}}}
)

// Forms of answers of computed tokens. An event of a stream may have no choice but the usage.
var (
	formGenerate    = Form{members: []member{{"meta_info", kindObject, &formMeta}}, lists: true, reason: true}
	formCompletion  = Form{members: []member{{"choices", kindList, &formTextChoice}}}
	formChat        = Form{members: []member{{"choices", kindList, &formChatChoice}}}
	eventCompletion = Form{members: []member{{"choices", kindList, &formTextChoice}}, beside: "usage"}
	eventChat       = Form{members: []member{{"choices", kindList, &formStreamChoice}}, beside: "usage"}
	// A model that ends at once has nothing to say.
	formMessages  = Form{members: []member{{"content", kindList, &formTyped}}, beside: "usage"}
	formResponses = Form{members: []member{{"output", kindList, &formItem}}, beside: "usage"}
)

// formsOf are those of the APIs that compute tokens, eventsOf those of the events of their streams.
var (
	formsOf = [...]*Form{
		openai.APIGenerate:    &formGenerate,
		openai.APICompletions: &formCompletion,
		openai.APIChat:        &formChat,
		openai.APIMessages:    &formMessages,
		openai.APIResponses:   &formResponses,
	}
	eventsOf = [...]*Form{
		openai.APIGenerate:    &formGenerate,
		openai.APICompletions: &eventCompletion,
		openai.APIChat:        &eventChat,
		openai.APIMessages:    &formTyped,
		openai.APIResponses:   &formTyped,
	}
)

// Forms of other answers: SGLang's, then vLLM's or Cohere's where they have others. A request may
// have nothing to score, and its text no tokens.
var (
	formVector = Form{
		members: []member{{"embedding", kindList | kindObject, nil}, {"data", kindList, &formClass}}, lists: true,
	}
	formRanks = Form{
		members: []member{
			{"score", kindNumber | kindNull, nil}, {"relevance_score", kindNumber | kindNull, nil}, {"results", kindList, &formScore},
		}, lists: true,
	}
	formTokens = Form{members: []member{{"tokens", kindList, nil}}, beside: "count"}
	formText   = Form{members: []member{{"text", kindText | kindList, nil}, {"prompt", kindText, nil}}}
	formsAt    = map[string]*Form{
		"/v1/embeddings":            {members: []member{{"data", kindList, &formEmbedding}}},
		"/v1/classify":              {members: []member{{"data", kindList, &formClass}}},
		"/v1/score":                 {members: []member{{"scores", kindList, nil}, {"data", kindList, &formScore}}, beside: "usage"},
		"/encode":                   &formVector,
		"/classify":                 &formVector,
		"/v1/rerank":                &formRanks,
		"/rerank":                   &formRanks,
		"/v1/tokenize":              &formTokens,
		"/tokenize":                 &formTokens,
		"/v1/detokenize":            &formText,
		"/detokenize":               &formText,
		"/v1/messages/count_tokens": {members: []member{{"input_tokens", kindNumber, nil}}},
	}
)

// FormAt returns the form of the answers at a path of no API that computes tokens, nil where any
// document is one.
func FormAt(path []byte) *Form { return formsAt[string(path)] }

// FormOf returns the form of an API's answers in one piece.
func FormOf(api openai.API) *Form { return formsOf[api] }
