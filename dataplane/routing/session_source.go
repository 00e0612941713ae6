package routing

// SessionSource is the part of a request that tells its session.
type SessionSource uint8

// The sources, in the order in which they count.
const (
	NoSession           SessionSource = iota
	SessionField                      // session_id or session_params.id of the body
	SessionHeader                     // a header
	SessionMetadata                   // metadata of the body, as Claude Code writes it
	SessionConversation               // conversation of the body
	SessionResponse                   // previous_response_id of the body
	SessionCacheKey                   // prompt_cache_key of the body
	SessionPrefix                     // the beginning of the prompt
	sessionSources
)

// String returns the source as /status, /explain and metrics show it.
func (s SessionSource) String() string {
	return [sessionSources]string{
		"none", "session_id", "header", "metadata", "conversation", "previous_response_id", "prompt_cache_key", "prefix",
	}[s]
}
