package disagg

import (
	"bytes"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// Form tells the documents of an API from others: they have one of its members, with a value of the
// right kind. A form asks for no more than all engines write: a good answer is never refused.
type Form struct {
	members []member
	// shared are members of answers that requests may have too. Such a document is a request, sent
	// back, where it also has a member of asked. The router gives each request a rid.
	shared []member
	asked  []string
	lists  bool // a list of such documents is an answer too
	reason bool // a document has its finish_reason, which is worth waiting for
}

type member struct {
	name string
	kind valueKind
}

// valueKind is a set of the kinds of JSON values.
type valueKind uint8

const (
	kindText valueKind = 1 << iota
	kindNumber
	kindObject
	kindList
	kindObjects // a list of objects, which may be empty
	kindNull
)

// begins reports whether a value that begins like this is of a kind in k.
func (k valueKind) begins(value []byte) bool {
	if len(value) == 0 {
		return false
	}
	switch c := value[0]; {
	case c == '"':
		return k&kindText != 0
	case c == '{':
		return k&kindObject != 0
	case c == '[' && k&kindObjects != 0:
		first := bytes.TrimLeft(value[1:], space)
		return len(first) == 0 || first[0] == '{' || first[0] == ']'
	case c == '[':
		return k&kindList != 0
	case c == 'n':
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
	fitsSoFar // it has shared members only, and may have more
	fitsMaybe // nothing has come that decides
)

// fit reads a document as far as it has come.
func (f *Form) fit(doc []byte) fit {
	shared, asked := false, false
	found, ended := openai.FindMember(doc, func(key, rest []byte) bool {
		for i := range f.members {
			if m := &f.members[i]; string(key) == m.name && m.kind.begins(rest) {
				return true
			}
		}
		for i := range f.shared {
			m := &f.shared[i]
			shared = shared || string(key) == m.name && m.kind.begins(rest)
		}
		for _, name := range f.asked {
			asked = asked || string(key) == name
		}
		return false
	})
	switch {
	case found, ended && shared && !asked:
		return fits
	case ended:
		return fitsNot
	case shared && !asked:
		return fitsSoFar
	}
	return fitsMaybe
}

// Forms of answers. SGLang's /generate always has meta_info; other servers may leave it out.
var (
	formGenerate = Form{
		members: []member{{"meta_info", kindObject}},
		shared:  []member{{"text", kindText | kindList}, {"output_ids", kindList}},
		asked:   []string{"rid", "sampling_params", "input_ids", "stream"},
		lists:   true, reason: true,
	}
	formChoices  = Form{members: []member{{"choices", kindObjects}}}
	formMessage  = Form{members: []member{{"content", kindObjects}}}
	formResponse = Form{members: []member{{"output", kindObjects}}}
	formTyped    = Form{members: []member{{"type", kindText}}}
)

// formsOf are those of the APIs that compute tokens, eventsOf those of the events of their streams.
var (
	formsOf = [...]*Form{
		openai.APIGenerate:    &formGenerate,
		openai.APICompletions: &formChoices,
		openai.APIChat:        &formChoices,
		openai.APIMessages:    &formMessage,
		openai.APIResponses:   &formResponse,
	}
	eventsOf = [...]*Form{
		openai.APIGenerate:    &formGenerate,
		openai.APICompletions: &formChoices,
		openai.APIChat:        &formChoices,
		openai.APIMessages:    &formTyped,
		openai.APIResponses:   &formTyped,
	}
)

// Forms of other answers: SGLang's, then vLLM's or Cohere's where they have others.
var (
	formData   = Form{members: []member{{"data", kindObjects}}}
	formVector = Form{members: []member{{"embedding", kindList | kindObject}, {"meta_info", kindObject}, {"data", kindObjects}}, lists: true}
	formRanks  = Form{
		members: []member{{"score", kindNumber | kindNull}, {"relevance_score", kindNumber | kindNull}, {"results", kindObjects}}, lists: true,
	}
	formTokens = Form{members: []member{{"tokens", kindList}}}
	formText   = Form{members: []member{{"text", kindText | kindList}, {"prompt", kindText}}}
	formsAt    = map[string]*Form{
		"/v1/embeddings":            &formData,
		"/v1/classify":              &formData,
		"/v1/score":                 {members: []member{{"scores", kindList}, {"data", kindObjects}}},
		"/encode":                   &formVector,
		"/classify":                 &formVector,
		"/v1/rerank":                &formRanks,
		"/rerank":                   &formRanks,
		"/v1/tokenize":              &formTokens,
		"/tokenize":                 &formTokens,
		"/v1/detokenize":            &formText,
		"/detokenize":               &formText,
		"/v1/messages/count_tokens": {members: []member{{"input_tokens", kindNumber}}},
	}
)

// FormAt returns the form of the answers at a path of no API that computes tokens, nil where any
// document is one.
func FormAt(path []byte) *Form { return formsAt[string(path)] }

// FormOf returns the form of an API's answers in one piece.
func FormOf(api openai.API) *Form { return formsOf[api] }
