package request

import (
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// headerSession names the session of a request whose body does not.
const headerSession = "X-Session-ID"

// sessionOf returns the key of the request's session: session_id or
// session_params.id of the body, or the header; 0 where it has none.
func sessionOf(c call, req *openai.Request) uint64 {
	if req.SessionID != "" {
		return routing.SessionKey(req.SessionID)
	}
	return routing.SessionKey(c.peek(headerSession))
}
