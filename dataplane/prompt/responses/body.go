package responses

import "github.com/warmpath/warmpath/dataplane/prompt/openai"

// AppendBody appends the body of a chat request that stands for the body of the last Read: its
// chat, and the other members that routing reads or that decide the engine's computation. exact
// reports that an engine makes this chat of the body. Otherwise the chat is good for comparing
// beginnings of texts. Images and other media are checksums. doubtful reports that the chat depends
// on the dialect's InlineSystem.
func (c *Converter) AppendBody(dst []byte, history [][]byte, d Dialect) (_ []byte, exact, doubtful bool) {
	start := len(dst)
	c.messages.sums = true
	dst, err := c.appendChat(dst, history, d)
	c.messages.sums = false
	if exact = err == nil && !d.NoChat; err != nil {
		dst = c.appendText(dst[:start], history)
	}
	dst = dst[:len(dst)-1]
	for _, m := range c.copied {
		if &m.key[0] == &nameRID[0] && !openai.IsString(m.raw) {
			continue
		}
		dst = openai.AppendMember(dst, string(m.key), m.raw)
	}
	return append(dst, '}'), exact, c.messages.doubtful
}

// appendText appends a chat of one message: the conversation as its bytes are.
func (c *Converter) appendText(dst []byte, history [][]byte) []byte {
	c.text = append(append(c.text[:0], c.fields.instructions...), c.fields.tools...)
	for _, part := range history {
		c.text = append(c.text, part...)
	}
	c.text = append(c.text, c.fields.input...)
	dst = append(dst, `{"messages":[{"role":"user","content":`...)
	dst = openai.AppendString(dst, string(c.text))
	return append(dst, `}]}`...)
}

// Names of members in a chat. Never written to.
var (
	nameRID       = []byte("rid")
	nameMaxTokens = []byte("max_completion_tokens")
)

// memberOfChat returns the name in a chat of a member that is copied there, nil for others: those
// that decide the chat itself, and those that only a chat has, which an engine ignores here.
func memberOfChat(key []byte) []byte {
	switch string(key) {
	case "input", "instructions", "tools", "tool_choice", "reasoning", "chat_template_kwargs", "parallel_tool_calls",
		"messages", "rid", "max_completion_tokens", "max_tokens", "n", "lora_path", "input_ids", "input_embeds",
		"image_data", "audio_data", "video_data", "reasoning_effort", "thinking", "task", "continue_final_message", "response_format",
		"logprobs", "stop_token_ids", "min_tokens", "session_params", "sampling_params", "stream_options", "":
		return nil
	case "request_id":
		return nameRID
	case "max_output_tokens":
		return nameMaxTokens
	}
	return key
}
