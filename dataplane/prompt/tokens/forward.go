package tokens

import (
	"strconv"

	"github.com/valyala/fastjson"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// parsers are reused between requests.
var parsers fastjson.ParserPool

// Forwardable reports whether a chat may carry its token ids to the worker, which then does not
// tokenize it: a chat of plain text, in which users and assistants take turns behind at most one
// system prompt, and with no other field that a template reads. For other chats engines read more
// from their template than the ids (stop strings, the start of reasoning, tool grammars), or merge
// messages before it.
func Forwardable(req *openai.Request) bool {
	if req.API != openai.APIChat || req.HasIDs || req.Multimodal || len(req.PromptFields()) > 0 {
		return false
	}
	p := parsers.Get()
	defer parsers.Put(p)
	v, err := p.ParseBytes(req.Messages)
	if err != nil {
		return false
	}
	next := "user"
	for i, m := range v.GetArray() {
		role := string(m.GetStringBytes("role"))
		if fields := m.GetObject(); fields == nil || fields.Len() != 2 || m.Get("content").Type() != fastjson.TypeString {
			return false
		}
		if i == 0 && role == "system" {
			continue
		}
		if role != next {
			return false
		}
		if next = "user"; role == "user" {
			next = "assistant"
		}
	}
	return next == "assistant"
}

// AppendField appends `"input_ids":[…]` for openai.SpliceField, behind other members.
func AppendField(dst []byte, ids []uint32) []byte {
	dst = append(openai.AppendName(dst, "input_ids"), '[')
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(id), 10)
	}
	return append(dst, ']')
}
