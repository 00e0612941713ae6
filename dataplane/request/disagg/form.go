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
	kindBool
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
	case 't', 'f':
		return k&kindBool != 0
	}
	return k&kindNumber != 0 && (value[0] == '-' || value[0] >= '0' && value[0] <= '9')
}

// trimLeft trims white space, of which JSON has little.
func trimLeft(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\r' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}

// fit is how a document fits a form.
type fit uint8

const (
	fitsNot fit = iota
	fits
	fitsEmpty // its list has nothing in it
	fitsMaybe // nothing has come that decides
)

// reading is the result of one pass over a document, as far as that has come.
type reading struct {
	fit      fit
	first    byte // of the document, or of the list of such documents; 0: nothing has come
	ends     bool // its braces and brackets all have their ends
	reasoned bool // a finish_reason is there, and the end of an object behind it
	aborted  bool // an answer was given up
	why      Failure

	form          *Form
	depth         int // of objects and lists
	empty, beside bool
	// nested are the forms of the objects around the next member, outermost first: at most a form,
	// its choice and the choice's message.
	nested [3]struct {
		form  *Form
		depth int // of its members
	}
	n int // in nested
}

// structural has the bytes of JSON that read looks at.
var structural = [256]bool{'{': true, '}': true, '[': true, ']': true, '"': true}

// read reads a document. It checks no values: some servers write numbers that JSON does not have.
// usage gets the tokens that it reports, and may be nil.
func (f *Form) read(doc []byte, usage *openai.UsageScanner) reading {
	r := reading{fit: fitsMaybe, form: f}
	doc = trimLeft(doc)
	begin, outer := doc, 1
	if f.lists && len(doc) > 0 && doc[0] == '[' {
		begin, outer = trimLeft(doc[1:]), 2
	}
	if len(begin) > 0 {
		r.first = begin[0]
	}
	if r.first == '{' {
		r.enter(f, outer)
	}
	for i := 0; i < len(doc); i++ {
		if !structural[doc[i]] {
			continue
		}
		switch doc[i] {
		case '{', '[':
			r.depth++
		case '}', ']':
			r.depth--
			r.leave()
		case '"':
			end := openai.StringEnd(doc, i)
			if end < len(doc) && doc[end] != ',' && doc[end] != '}' { // else it is a value
				r.key(doc, i, end, usage)
			}
			i = end - 1
		}
	}
	r.ends = r.depth == 0
	return r
}

// key reads the string from lo to hi as a key.
func (r *reading) key(doc []byte, lo, hi int, usage *openai.UsageScanner) {
	key := doc[lo+1 : hi-1]
	if r.fit == fitsMaybe && r.n > 0 && r.depth == r.nested[r.n-1].depth {
		r.member(key, doc[hi:])
	}
	switch {
	case len(key) < len("eval_count"):
	case string(key) == nameReason:
		r.reason(doc[hi:])
	case usage != nil:
		usage.Key(doc, hi)
	}
}

// reason reads a finish_reason, of which behind follows the key.
func (r *reading) reason(behind []byte) {
	r.reasoned = r.reasoned || bytes.IndexByte(behind, '}') >= 0
	if !r.aborted {
		r.why, r.aborted = abortOf(behind)
	}
}

func (r *reading) enter(f *Form, depth int) {
	r.nested[r.n].form, r.nested[r.n].depth = f, depth
	r.n++
}

// leave follows the end of an object or a list. Without a member the document does not fit.
func (r *reading) leave() {
	if r.n == 0 || r.depth >= r.nested[r.n-1].depth {
		return
	}
	if r.n--; r.n > 0 || r.fit == fits {
		return
	}
	if r.fit = fitsNot; r.empty {
		r.fit = fitsEmpty
	}
}

// member reads a string as the key of a member, if behind it follows a value.
func (r *reading) member(key, behind []byte) {
	if behind = trimLeft(behind); len(behind) == 0 || behind[0] != ':' {
		return
	}
	value := trimLeft(behind[1:])
	if len(value) == 0 {
		return
	}
	form := r.nested[r.n-1].form
	r.beside = r.beside || form == r.form && string(key) == form.beside && value[0] != 'n'
	for i := range form.members {
		if m := &form.members[i]; string(key) == m.name {
			if m.kind.begins(value) {
				r.value(value, m.of)
			}
			break
		}
	}
	if r.empty && r.beside {
		r.fit = fits
	}
}

// value reads the value of a member of the form, which has begun. of is the form inside it.
func (r *reading) value(value []byte, of *Form) {
	depth := r.depth + 1
	if value[0] == '[' {
		value, depth = trimLeft(value[1:]), depth+1
	}
	switch {
	case len(value) == 0: // of the list
	case value[0] == ']':
		r.empty = true
	case of == nil, depth == r.depth+1 && value[0] != '{':
		r.fit = fits
	case value[0] == '{':
		r.enter(of, depth)
	}
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
	// An answer of Ollama's API, and each line of a stream of one.
	formOllama = Form{members: []member{{"done", kindBool, nil}}}
)

// formsOf are those of the APIs that compute tokens, eventsOf those of the events of their streams.
var (
	formsOf = [...]*Form{
		openai.APIGenerate:    &formGenerate,
		openai.APICompletions: &formCompletion,
		openai.APIChat:        &formChat,
		openai.APIMessages:    &formMessages,
		openai.APIResponses:   &formResponses,
		openai.APIOllama:      &formOllama,
	}
	eventsOf = [...]*Form{
		openai.APIGenerate:    &formGenerate,
		openai.APICompletions: &eventCompletion,
		openai.APIChat:        &eventChat,
		openai.APIMessages:    &formTyped,
		openai.APIResponses:   &formTyped,
		openai.APIOllama:      &formOllama,
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
