package openai

import "slices"

// byteOrder is the mark that some clients put before UTF-8; Python's reader of JSON, which the
// workers use, skips it.
var byteOrder = []byte("\xef\xbb\xbf")

// Parse reads a body sent to api. The error is an *Error with status 400. The request's slices
// alias body; see the package's ownership rules.
func (r *Request) Parse(api API, body []byte) error {
	if r.body != nil { // else it is as Reset has left it
		r.Reset()
	}
	r.API, r.body = api, body
	if err := r.walk(); err != nil {
		return err
	}
	return asError(r.read())
}

// walk checks the whole body and notes where the fields are.
func (r *Request) walk() *Error {
	return walkBody(r.body, func(key []byte, escaped bool, at int) (int, *Error) {
		f := fieldOf(r.keyOf(key, escaped))
		end, err := r.walkValue(f, at)
		if err == nil {
			r.spans[f] = span{at, end}
		}
		return end, err
	})
}

// walkValue checks the value of a field. The long ones are read on the way: a second pass over a
// prompt would cost as much as the first.
func (r *Request) walkValue(f field, at int) (int, *Error) {
	switch {
	case f == fieldMessages && r.API.isChat():
		return r.chat.scan(&r.document, at)
	case f == fieldPrompt && r.API == APICompletions, f == fieldText && r.API == APIGenerate:
		return r.scanPrompt(r.body, &r.prompt, at, r.API == APIGenerate)
	case f == fieldInputIDs && (r.API == APIGenerate || r.API.isChat()):
		return r.scanPrompt(r.body, &r.ids, at, false)
	}
	return skipValue(r.body, at, 1)
}

// read turns the noted fields into the request.
func (r *Request) read() *Error {
	if r.readCommon(); r.err != nil {
		return r.err
	}
	switch {
	case r.API == APIGenerate:
		return r.readGenerate()
	case r.API == APICompletions:
		return r.readCompletions()
	case r.API.isChat():
		return r.readChat()
	}
	return nil
}

func (r *Request) readCommon() {
	d := &r.document
	r.N, r.Prompts = 1, 1
	r.Unstored = r.raw(fieldBootstrapHost) != nil
	r.RawModel = r.raw(fieldModel)
	r.Model = d.readString(fieldModel)
	r.Stream = d.readBool(fieldStream)
	r.readRID(d)
	r.LoRA = d.readFirstString(fieldLoRAPath)
	r.CacheSalt = d.readFirstString(fieldCacheSalt)
	r.ExtraKey = d.readFirstString(fieldExtraKey)
	r.Priority, r.HasPriority = d.readInt(fieldPriority)
	if r.Rank, r.HasRank = d.readInt(fieldRank); !r.HasRank {
		r.Rank, r.HasRank = d.readInt(fieldOldRank)
	}
	r.readSession(d)
}

// checkSessionParams refuses values that SGLang's scheduler takes for a request's name and a
// position without looking at their types: it ends with a TypeError.
func (r *Request) checkSessionParams() *Error {
	params := r.raw(fieldSessionParams)
	id, rid, offset := Member(params, "id"), Member(params, "rid"), Member(params, "offset")
	switch _, whole := parseInt(offset); {
	case id != nil && !IsString(id), rid != nil && !IsString(rid):
		return BadRequest("session_params", "The id and the rid of session_params must be strings.")
	case offset != nil && !whole:
		return BadRequest("session_params", "The offset of session_params must be an integer.")
	case id != nil && r.raw(fieldSessionID) != nil: // in SGLang's words
		return BadRequest("session_params", "session_id and session_params cannot both be set.")
	}
	return nil
}

func (r *Request) readGenerate() *Error {
	if err := r.checkSessionParams(); err != nil {
		return err
	}
	if r.ids.kind == kindEmpty && len(r.SessionID) > 0 {
		// A session's history may be the whole prompt.
		r.ids.kind = kindAbsent
		r.Multimodal = true
	}
	if err := r.usePrompt(&r.prompt, "text", kindText, kindTexts); err != nil {
		return err
	}
	if err := r.usePrompt(&r.ids, "input_ids", kindIDs, kindIDLists); err != nil {
		return err
	}
	embeds := r.raw(fieldInputEmbeds) != nil
	if !r.HasText && !r.HasIDs && !embeds && !r.Multimodal {
		return BadRequest("text", "One of text, input_ids and input_embeds must be given.")
	}
	r.Multimodal = r.Multimodal || embeds || r.hasMedia(fieldImageData) || r.hasMedia(fieldAudioData) ||
		r.hasMedia(fieldVideoData)
	if r.prompt.blank > 0 && !r.HasIDs && !r.Multimodal && len(r.SessionID) == 0 {
		return errBlank("text", r.prompt.blank-1)
	}
	ask := r.raw(fieldReturnLogprob)
	if len(ask) > 0 && ask[0] == '[' { // of a batch
		_, _ = Elements(ask, 0, func(lo, hi int) {
			v, _ := boolOf(ask[lo:hi])
			r.PromptLogprobs = r.PromptLogprobs || v
		})
	} else {
		r.PromptLogprobs, _ = boolOf(ask)
	}
	if from, ok := intOf(r.raw(fieldLogprobStartLen)); ok && from >= 0 && r.PromptLogprobs {
		r.Computed, r.ComputedFrom = true, from
	}
	return r.readSamplingParams(&r.document)
}

// errBlank refuses a prompt without a token. SGLang 0.5.23 does not check for it, and an engine
// with a tokenizer that adds no first token of its own dies of it, with all its running requests.
func errBlank(param string, at int) *Error { return errAt(param, "must not be empty", at) }

func (r *Request) readCompletions() *Error {
	if r.prompt.kind == kindAbsent {
		return BadRequest("prompt", "The prompt is missing.")
	}
	if err := r.usePrompt(&r.prompt, "prompt", kindText, kindTexts, kindIDs, kindIDLists); err != nil {
		return err
	}
	if r.prompt.blank > 0 {
		return errBlank("prompt", r.prompt.blank-1)
	}
	r.MaxTokens = r.readCount(fieldMaxTokens, 0)
	r.N = r.readCount(fieldN, 1)
	echo, _ := boolOf(r.raw(fieldEcho))
	n, isInt := intOf(r.raw(fieldLogprobs))
	// -1 is true in Python. The prompt is computed from its first token on.
	r.PromptLogprobs = echo && r.raw(fieldLogprobs) != nil && (n != 0 || !isInt)
	r.Computed = r.PromptLogprobs
	r.readStreamOptions(&r.document)
	return nil
}

func (r *Request) readChat() *Error {
	if !r.chat.seen {
		return BadRequest("messages", "The messages are missing.")
	}
	if r.chat.why != "" {
		return errAt("messages", r.chat.why, r.chat.at)
	}
	if err := r.usePrompt(&r.ids, "input_ids", kindIDs); err != nil {
		return err
	}
	r.Messages, r.Tools = r.raw(fieldMessages), r.raw(fieldTools)
	r.TemplateKwargs = r.raw(fieldTemplateKwargs)
	r.Multimodal = r.chat.multimodal
	if r.MaxTokens = r.readCount(fieldMaxCompletionTokens, 0); r.MaxTokens == 0 {
		r.MaxTokens = r.readCount(fieldMaxTokens, 0)
	}
	r.N = r.readCount(fieldN, 1)
	r.readStreamOptions(&r.document)
	return nil
}

// usePrompt takes a prompt of one of the allowed kinds into the request.
func (r *Request) usePrompt(l *promptValue, param string, allowed ...promptKind) *Error {
	if l.kind == kindAbsent {
		return nil
	}
	if l.kind == kindBad || l.kind == kindEmpty {
		return errAt(param, l.why, l.at)
	}
	if !slices.Contains(allowed, l.kind) {
		return errAt(param, "is of the wrong type", l.at)
	}
	switch l.kind {
	case kindText, kindTexts:
		r.HasText = true
		r.Text, r.text = unescape(r.text, r.body[l.text.lo:l.text.hi])
		r.Prompt = r.body[l.text.lo-1 : l.text.hi+1]
	case kindIDs, kindIDLists:
		r.HasIDs = true
	}
	r.Batch = l.kind == kindTexts || l.kind == kindIDLists
	r.Prompts, r.Shared, r.Rest = l.n, 0, 0
	switch {
	case l.n < 2:
	case l.kind == kindIDLists:
		r.Shared, r.Rest = l.common, l.ids-l.n*l.common
	default:
		shared, _ := unescape(nil, r.body[l.text.lo:l.text.lo+wholeEscapes(r.body[l.text.lo:l.text.hi], l.common)])
		r.Shared = len(shared)
	}
	return nil
}
