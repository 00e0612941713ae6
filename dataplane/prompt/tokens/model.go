package tokens

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
	"github.com/warmpath/warmpath/dataplane/prompt/tokenizer"
)

// Model tokenizes prompts of a model in this process, with the files of its workers. It may be
// used from any number of goroutines.
type Model struct {
	settings      Settings
	folder        string
	text          *tokenizer.Tokenizer
	begin         string              // the token that begins a text
	chat          *chattemplate.Model // nil: chats are left to the workers
	chatErr       error               // why
	root          *promptcache.Root
	verifications [kinds]verification

	textRest, chatRest rest
	now                func() time.Time
	log                *slog.Logger
}

// kind is a kind of prompt. Each kind is verified by itself: a template is wrong more often than a
// tokenizer, and with tools more often than without.
type kind uint8

const (
	kindText kind = iota
	kindChat
	kindTools // a chat with tools or anything else that a template may read besides messages
	kinds
)

func kindOf(req *openai.Request) kind {
	switch {
	case req.Messages == nil:
		return kindText
	case len(req.PromptFields()) == 0:
		return kindChat
	}
	return kindTools
}

// Verified reports whether the model's ids of such a prompt were found equal to its workers'.
func (m *Model) Verified(req *openai.Request) bool {
	return m.verifications[kindOf(req)].verified.Load()
}

// Text returns the text of ids, special tokens included.
func (m *Model) Text(ids []uint32) string { return m.text.Text(ids) }

// Rules returns the rules by which requests of other APIs become chats.
func (m *Model) Rules() chattemplate.Rules {
	if m.chat == nil {
		return chattemplate.Rules{}
	}
	return m.chat.Rules()
}

// load reads the files of the operator's folder, or those that the settings name.
func (f *modelFiles) load(s Settings, root *promptcache.Root) (*Model, error) {
	if s.Skip {
		return nil, fmt.Errorf("%w: the worker takes token ids only", ErrUnavailable)
	}
	if s.Mode != "" && s.Mode != "auto" {
		return nil, fmt.Errorf("%w: the worker's --tokenizer-mode is %s", ErrUnavailable, s.Mode)
	}
	files, folder, err := f.folder(&s)
	if err != nil {
		return nil, err
	}
	m := &Model{settings: s, folder: folder, root: root, now: f.now, log: f.log}
	if m.text, err = loadText(files, folder); err != nil {
		return nil, err
	}
	m.chat, m.begin, m.chatErr = loadChat(f, files, folder, &s)
	return m, nil
}

// Writer makes the ids of one prompt after another. It belongs to one goroutine at a time; reuse
// it: it keeps its memory.
type Writer struct {
	cursor *promptcache.Cursor // nil: nothing is remembered between prompts
	text   []byte
}

// NewWriter returns a writer that remembers the beginnings of prompts in c, if there is one.
func NewWriter(c *promptcache.Cursor) *Writer { return &Writer{cursor: c} }

// maxReusedText bounds the memory of a rendered prompt that a Writer keeps; longer prompts are
// rare.
const maxReusedText = 256 << 10

// Append appends the ids of the request's prompt, of a batch the first one, to ids, which must be
// empty. Afterwards the cursor's Chain has the hashes of leading blocks, where fresh is false.
// Errors wrap [ErrUnavailable].
func (w *Writer) Append(ids []uint32, m *Model, req *openai.Request) (_ []uint32, fresh bool, err error) {
	if req.Multimodal || (req.Prompt == nil && req.Messages == nil) {
		return ids, true, ErrNotText
	}
	if m.textRest.rests(m.now) {
		return ids, true, errResting
	}
	if req.Messages == nil {
		if len(req.Text) > maxText {
			return ids, true, errLong
		}
		ids, err = m.text.AppendSpecial(ids, req.Text)
		return ids, true, m.noteText(err)
	}
	if m.chat == nil {
		return ids, true, fmt.Errorf("%w: %w", ErrUnavailable, m.chatErr)
	}
	if m.chatRest.rests(m.now) {
		return ids, true, errResting
	}
	defer func() {
		if cap(w.text) > maxReusedText {
			w.text = nil
		}
	}()
	var begun int
	w.text, begun, err = m.chat.RenderBegun(w.text[:0], chatOf(req))
	if err != nil {
		return ids, true, m.noteChat(err)
	}
	fresh = true
	switch {
	case len(w.text) > maxText:
		return ids, true, errLong
	case !utf8.Valid(w.text): // of the template
		return ids, true, fmt.Errorf("%w: the rendered chat is not UTF-8", ErrUnavailable)
	case begun < len(w.text):
		ids, err = m.appendBegun(ids, w.text[:begun], w.text[begun:])
	case w.cursor == nil:
		ids, err = m.text.Append(ids, w.text)
	default:
		fresh = false
		ids, err = w.cursor.Encode(m.root, ids, w.text, pieces{m.text})
	}
	return ids, fresh, m.noteText(err)
}

// appendBegun appends the ids of a chat and of the message that its answer continues.
func (m *Model) appendBegun(ids []uint32, chat, message []byte) ([]uint32, error) {
	ids, err := m.text.Append(ids, chat)
	if err != nil {
		return ids, err
	}
	at := len(ids)
	if ids, err = m.text.AppendSpecial(ids, message); err != nil {
		return ids[:0], err
	}
	if id, ok := m.text.ID(m.begin); ok && m.begin != "" && at < len(ids) && ids[at] == id {
		ids = slices.Delete(ids, at, at+1)
	}
	return ids, nil
}

// maxText bounds the text that is tokenized here: four bytes for each token of the longest contexts
// of 2026. Normalizing and merging it takes some twenty times its memory.
const maxText = 16 << 20

var errLong = fmt.Errorf("%w: the prompt is longer than 16 MiB", ErrUnavailable)

// noteText notes an error of the tokenizer, and returns the error for the caller.
func (m *Model) noteText(err error) error {
	if err == nil {
		return nil
	}
	if m.textRest.exceeded(m.now, err) {
		m.log.Warn("prompts are left to the workers for a while: a prompt took the tokenizer beyond its limits", "folder", m.folder, "reason", err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// noteChat does so for an error of the template.
func (m *Model) noteChat(err error) error {
	if errors.Is(err, chattemplate.ErrLimit) && m.chatRest.exceeded(m.now, err) {
		m.log.Warn("chats are left to the workers for a while: one took the chat template beyond its limits", "folder", m.folder, "reason", err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// chatOf returns the fields of a request that the template sees.
func chatOf(req *openai.Request) chattemplate.Request {
	r := chattemplate.Request{Messages: req.Messages, Tools: req.Tools, Kwargs: req.TemplateKwargs}
	for _, f := range req.PromptFields() {
		switch f.Name {
		case "tool_choice":
			r.ToolChoice = f.Raw
		case "reasoning_effort":
			r.ReasoningEffort = f.Raw
		case "reasoning":
			r.Reasoning = f.Raw
		case "continue_final_message":
			r.Continue = f.Raw
		}
	}
	return r
}

// pieces encodes a rendered chat in parts that end where a message does.
type pieces struct{ t *tokenizer.Tokenizer }

var _ promptcache.Encoder = pieces{}

// minPieceBytes is shorter than most messages, and long enough that looking a piece up (0.1 µs)
// costs less than encoding it (15 µs).
const minPieceBytes = 512

// Cut implements promptcache.Encoder.
func (p pieces) Cut(rest []byte) int { return p.t.CutAfter(rest, minPieceBytes) }

// Append implements promptcache.Encoder.
func (p pieces) Append(ids []uint32, text []byte) ([]uint32, error) {
	if len(ids) == 0 {
		return p.t.Append(ids, text)
	}
	return p.t.AppendRest(ids, text)
}
