package responses

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"io"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

const (
	// statePrefix begins an encrypted_content of SGLang, which is a compressed text and no secret.
	statePrefix = "sglang-reasoning-v1."
	// maxState bounds the text that an encrypted_content may hold: a few bytes may be gigabytes.
	maxState = 1 << 20
)

// addReasoning adds a reasoning item: its summary, or else its content, or else its opaque state.
func addReasoning(c *messages, m *item) error {
	for _, list := range [...][]byte{m.summary, m.content} {
		found, err := addTexts(c, list)
		if found || err != nil {
			return err
		}
	}
	blob := m.encrypted
	if !openai.IsString(blob) || !bytes.HasPrefix(blob[1:], []byte(statePrefix)) {
		return nil
	}
	text, ok := decodeState(openai.Inside(blob)[len(statePrefix):])
	if !ok {
		return unsupported("an encrypted_content that is not plain")
	}
	if len(text) > 0 {
		a, _ := c.join(nil)
		quoted := openai.AppendString(nil, string(text))
		a.addReasoning(openai.Inside(quoted))
	}
	return nil
}

// addTexts adds the texts in a list of parts, and reports whether there are any.
func addTexts(c *messages, list []byte) (found bool, err error) {
	if list == nil || openai.IsString(list) || openai.IsObject(list) {
		return false, nil
	}
	if !openai.IsList(list) {
		return false, refused("a reasoning is no list")
	}
	var a *assistant
	_, _ = openai.Elements(list, 0, func(lo, hi int) {
		text := openai.Member(list[lo:hi], "text")
		switch {
		case !truthy(text):
			return
		case !openai.IsString(text):
			err = refused("a text of a reasoning is no text")
			return
		case !found:
			a, _ = c.join(nil)
			found = true
		}
		a.addReasoning(openai.Inside(text))
	})
	return found, err
}

// decodeState reads an encrypted_content behind its prefix.
func decodeState(blob []byte) (text []byte, ok bool) {
	packed := make([]byte, base64.URLEncoding.DecodedLen(len(blob)))
	n, err := base64.URLEncoding.Strict().Decode(packed, blob)
	if err != nil {
		return nil, false
	}
	r, err := zlib.NewReader(bytes.NewReader(packed[:n]))
	if err != nil {
		return nil, false
	}
	text, err = io.ReadAll(io.LimitReader(r, maxState+1))
	return text, err == nil && len(text) <= maxState
}

// efforts are the tiers of reasoning.effort.
func isEffort(raw []byte) bool {
	if !openai.IsString(raw) {
		return false
	}
	switch string(openai.Unescape(openai.Inside(raw))) {
	case "none", "minimal", "low", "medium", "high", "xhigh", "ultra", "max":
		return true
	}
	return false
}

// appendReasoning appends reasoning_effort and chat_template_kwargs.
func appendReasoning(dst []byte, f *fields) ([]byte, error) {
	if f.reasoning != nil && !openai.IsObject(f.reasoning) || f.templateKwargs != nil && !openai.IsObject(f.templateKwargs) {
		return dst, refused("reasoning or chat_template_kwargs is no object")
	}
	// A null stays there, and templates see it; of a chat SGLang takes it out.
	if v, there := openai.LastMember(f.templateKwargs, "reasoning_effort"); there && v == nil {
		return dst, unsupported("a reasoning_effort of null")
	}
	off := false
	if f.reasoning != nil {
		effort, sent, other := []byte(`"medium"`), false, []byte(nil)
		_, _ = openai.Members(f.reasoning, 0, func(key []byte, lo, hi int) {
			switch string(openai.Unescape(key)) {
			case "effort":
				effort, sent = openai.Present(f.reasoning[lo:hi]), true
			case "reasoning_effort":
				other = f.reasoning[lo:hi]
			}
		})
		if effort != nil && !isEffort(effort) {
			return dst, refused("an unknown reasoning.effort")
		}
		off = openai.Is(effort, "none") || (!sent || effort == nil) && openai.Is(other, "none")
		dst = openai.AppendMember(dst, "reasoning_effort", effort)
	}
	if !off {
		return openai.AppendMember(dst, "chat_template_kwargs", f.templateKwargs), nil
	}
	dst = append(dst, `,"chat_template_kwargs":{"thinking":false,"enable_thinking":false`...)
	if f.templateKwargs == nil {
		return append(dst, '}'), nil
	}
	if truthy(f.templateKwargs) {
		dst = append(dst, ',')
	}
	return append(dst, f.templateKwargs[1:]...), nil
}
