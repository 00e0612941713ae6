package responses

import (
	"bytes"
	"errors"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// AppendBody appends the body of a chat request that stands for a body: its chat, and the other
// members that routing reads or that decide the engine's computation. exact reports that an engine
// makes this chat of the body. Otherwise the chat is good for comparing beginnings of texts. An
// error is an *openai.Error for a body that is no JSON object.
func (c *Converter) AppendBody(dst, body []byte, history [][]byte, d Dialect) (_ []byte, exact bool, err error) {
	if err := openai.WalkObject(body, func([]byte, int, int) {}); err != nil {
		return dst, false, err
	}
	start := len(dst)
	dst, err = c.AppendChat(dst, body, history, d)
	if exact = err == nil && !d.Harmony && (d.Known || !c.doubtful); err != nil {
		if !errors.Is(err, ErrRefused) && !errors.Is(err, ErrUnsupported) {
			return dst, false, err
		}
		dst = c.appendText(dst[:start], body, history)
	}
	dst = dst[:len(dst)-1]
	_, _ = openai.Members(body, len(body)-len(bytes.TrimPrefix(body, byteOrder)), func(key []byte, lo, hi int) {
		name, keep := memberOfChat(key)
		if name == "rid" && !isString(body[lo:hi]) || !keep {
			return
		}
		dst = append(dst, ',', '"')
		if name != "" {
			dst = append(dst, name...)
		} else {
			dst = append(dst, key...)
		}
		dst = append(append(dst, '"', ':'), body[lo:hi]...)
	})
	return append(dst, '}'), exact, nil
}

// appendText appends a chat of one message: the conversation as its bytes are.
func (c *Converter) appendText(dst, body []byte, history [][]byte) []byte {
	f, _ := readFields(body)
	c.text = c.text[:0]
	for _, part := range [...][]byte{f.instructions, f.tools} {
		c.text = append(c.text, part...)
	}
	for _, part := range history {
		c.text = append(c.text, part...)
	}
	c.text = append(c.text, f.input...)
	dst = append(dst, `{"messages":[{"role":"user","content":`...)
	dst = openai.AppendString(dst, string(c.text))
	return append(dst, `}]}`...)
}

// memberOfChat reports whether a member is copied to the chat's body, and its name there where that
// is another one. Members that AppendChat has read are not, nor those that only a chat has: an
// engine ignores them here.
func memberOfChat(key []byte) (name string, keep bool) {
	switch string(key) {
	case "input", "instructions", "tools", "tool_choice", "reasoning", "chat_template_kwargs", "parallel_tool_calls",
		"messages", "rid", "max_completion_tokens", "max_tokens", "n", "lora_path", "input_ids", "input_embeds",
		"image_data", "audio_data", "video_data", "reasoning_effort", "thinking", "task", "continue_final_message", "response_format",
		"logprobs", "stop_token_ids", "min_tokens", "session_params", "sampling_params", "stream_options":
		return "", false
	case "request_id":
		return "rid", true
	case "max_output_tokens":
		return "max_completion_tokens", true
	}
	return "", true
}

// PreviousID returns the id of the response that a body continues, "" where it continues none.
func PreviousID(body []byte) string { return plain(topMember(body, "previous_response_id")) }

// Stores reports whether a body asks for its response to be stored, which is the default.
func Stores(body []byte) bool {
	raw := topMember(body, "store")
	return raw == nil || raw[0] != 'f'
}

// Input returns the raw value of a body's input.
func Input(body []byte) []byte { return topMember(body, "input") }

func topMember(body []byte, name string) []byte {
	return member(bytes.TrimSpace(bytes.TrimPrefix(body, byteOrder)), name)
}
