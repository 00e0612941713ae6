package openai

import "bytes"

// SessionField is the field of a body that names its session.
type SessionField uint8

// The fields, in the order in which they count.
const (
	NoSession             SessionField = iota
	SessionByID                        // session_id, or session_params.id
	SessionByMetadata                  // metadata
	SessionByConversation              // conversation: a name, or an object with an id
	SessionByResponse                  // previous_response_id: an answer of the session
	SessionByCacheKey                  // prompt_cache_key
)

const (
	// maxSessionName is the longest name of a session that is read. UUIDs have 36 bytes, and Claude
	// Code's metadata.user_id, which contains one, has about 250.
	maxSessionName = 512
	// maxMetadata bounds the second pass over a body's metadata: OpenAI allows 16 pairs of 64 and
	// 512 bytes.
	maxMetadata = 16 << 10
)

var sessionMark = []byte("_session_")

// readSessionID reads the session that the engine keeps.
func (r *Request) readSessionID() *Error {
	if raw := r.raw(fieldSessionID); raw != nil {
		if raw[0] != '"' {
			return errAt("session_id", "must be a string", r.spans[fieldSessionID].lo)
		}
		r.SessionID = r.content(raw)
	}
	if len(r.SessionID) == 0 {
		r.SessionID = r.content(r.member(r.raw(fieldSessionParams), "id"))
	}
	return nil
}

// Session returns the name of the request's session and the first field that has one. A user has
// several sessions, so neither "user" nor the user in Anthropic's metadata names one. Longer names
// than 512 bytes name nothing. The result is valid until the next Parse.
func (r *Request) Session() (name []byte, by SessionField) {
	if len(r.SessionID) > 0 {
		if len(r.SessionID) > maxSessionName {
			return nil, NoSession
		}
		return r.SessionID, SessionByID
	}
	if name = r.metadataSession(r.raw(fieldMetadata)); len(name) > 0 {
		return name, SessionByMetadata
	}
	raw := r.raw(fieldConversation)
	if len(raw) > 0 && len(raw) <= maxMetadata && raw[0] == '{' {
		raw = r.member(raw, "id")
	}
	if name = r.sessionName(raw); len(name) > 0 {
		return name, SessionByConversation
	}
	if name = r.sessionName(r.raw(fieldPreviousResponse)); len(name) > 0 {
		return name, SessionByResponse
	}
	if name = r.sessionName(r.raw(fieldPromptCacheKey)); len(name) > 0 {
		return name, SessionByCacheKey
	}
	return nil, NoSession
}

// metadataSession returns the session in a body's metadata: session_id, or the one in user_id as
// Claude Code writes it.
func (r *Request) metadataSession(raw []byte) []byte {
	if len(raw) == 0 || len(raw) > maxMetadata {
		return nil
	}
	if name := r.sessionName(r.member(raw, "session_id")); len(name) > 0 {
		return name
	}
	return r.userSession(r.sessionName(r.member(raw, "user_id")))
}

// userSession returns the session in a user_id of Claude Code: user_…_account_…_session_… and, since
// 2.1.86, an object of JSON with a session_id. Other user ids have none.
func (r *Request) userSession(user []byte) []byte {
	if len(user) > 0 && user[0] == '{' {
		if end, err := skipValue(user, 0, 0); err != nil || end != len(user) {
			return nil
		}
		id := r.member(user, "session_id")
		if len(id) < 2 || id[0] != '"' || bytes.IndexByte(id, '\\') >= 0 {
			return nil
		}
		return id[1 : len(id)-1]
	}
	if i := bytes.LastIndex(user, sessionMark); i >= 0 {
		return user[i+len(sessionMark):]
	}
	return nil
}

// sessionName is content for strings that are no longer than the name of a session.
func (r *Request) sessionName(raw []byte) []byte {
	if len(raw) > maxSessionName {
		return nil
	}
	return r.content(raw)
}

// content returns the content of a raw JSON string, and nil of any other value. Of strings with
// escapes, only the last one read is valid.
func (r *Request) content(raw []byte) (text []byte) {
	if len(raw) == 0 || raw[0] != '"' {
		return nil
	}
	text, r.session = unescape(r.session, raw[1:len(raw)-1])
	return text
}
