package server

import (
	"github.com/warmpath/warmpath/dataplane/openai"
	"github.com/warmpath/warmpath/dataplane/route"
)

// headerSession names the session of a request whose body does not.
const headerSession = "X-Session-ID"

// sessionOf returns the key of the request's session: session_id or
// session_params.id of the body, or the header; 0 where it has none.
func sessionOf(c call, req *openai.Request) uint64 {
	if req.SessionID != "" {
		return route.SessionKey(req.SessionID)
	}
	return route.SessionKey(c.peek(headerSession))
}
