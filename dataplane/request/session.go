package request

import (
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// sessionHeader returns the precedence of a header that names a session, 1 first; 0 for any other
// one. Names are as fasthttp normalizes them.
func sessionHeader(name []byte) int {
	switch string(name) {
	case "X-Session-Id":
		return 1
	case "X-Claude-Code-Session-Id": // Claude Code since 2.1.86
		return 2
	case "Session-Id", "Session_id": // Codex, and Codex before 2026
		return 3
	case "Conversation_id":
		return 4
	case "X-Opencode-Session":
		return 5
	}
	return 0
}

// maxSessionHeader is the longest name of a session in a header; longer ones name nothing.
const maxSessionHeader = 512

// headerSession returns the session that the headers name, in one pass over them.
func headerSession(h *fasthttp.RequestHeader) (name []byte) {
	first := 0
	for key, value := range h.All() {
		n := sessionHeader(key)
		if n > 0 && (first == 0 || n < first) && len(value) > 0 && len(value) <= maxSessionHeader {
			name, first = value, n
		}
	}
	return name
}

// nameSession fills in the session that the request names: SGLang's own session first, then
// headers, then the other fields of the body.
func nameSession(p *routing.Prompt, c call, req *openai.Request) {
	name, from := req.Session, sessionSources[req.SessionBy]
	if from != routing.SessionField {
		if header := headerSession(&c.ctx.Request.Header); len(header) > 0 {
			name, from = header, routing.SessionHeader
		}
	}
	p.NameSession(name, from)
}

// sessionSources are the sources by field of the body.
var sessionSources = [...]routing.SessionSource{
	openai.NoSession:             routing.NoSession,
	openai.SessionByID:           routing.SessionField,
	openai.SessionByMetadata:     routing.SessionMetadata,
	openai.SessionByConversation: routing.SessionConversation,
	openai.SessionByResponse:     routing.SessionResponse,
	openai.SessionByCacheKey:     routing.SessionCacheKey,
}
