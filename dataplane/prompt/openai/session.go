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

func (ro *Routing) readSession(d *document) {
	raw := d.raw(fieldSessionID)
	if raw != nil && raw[0] != '"' {
		d.refuse(fieldSessionID, "must be a string", 0)
	}
	if ro.SessionID = d.content(raw); len(ro.SessionID) == 0 {
		ro.SessionID = d.content(Member(d.raw(fieldSessionParams), "id"))
		ro.Opened = len(ro.SessionID) > 0
	}
	ro.Session, ro.SessionBy = ro.sessionName(d)
}

// sessionName returns the session by the first field that names one. A user has several sessions,
// so neither "user" nor the user in Anthropic's metadata names one.
func (ro *Routing) sessionName(d *document) (name []byte, by SessionField) {
	switch {
	case len(ro.SessionID) > maxSessionName:
		return nil, NoSession
	case len(ro.SessionID) > 0:
		return ro.SessionID, SessionByID
	}
	if name = metadataSession(d, d.raw(fieldMetadata)); len(name) > 0 {
		return name, SessionByMetadata
	}
	raw := d.raw(fieldConversation)
	if len(raw) > 0 && len(raw) <= maxMetadata && raw[0] == '{' {
		raw = Member(raw, "id")
	}
	if name = shortContent(d, raw); len(name) > 0 {
		return name, SessionByConversation
	}
	if name = shortContent(d, d.raw(fieldPreviousResponse)); len(name) > 0 {
		return name, SessionByResponse
	}
	if name = shortContent(d, d.raw(fieldPromptCacheKey)); len(name) > 0 {
		return name, SessionByCacheKey
	}
	return nil, NoSession
}

// metadataSession returns the session in a body's metadata: session_id, or the one in user_id as
// Claude Code writes it.
func metadataSession(d *document, raw []byte) []byte {
	if len(raw) == 0 || len(raw) > maxMetadata {
		return nil
	}
	if name := shortContent(d, Member(raw, "session_id")); len(name) > 0 {
		return name
	}
	return userSession(shortContent(d, Member(raw, "user_id")))
}

// userSession returns the session in a user_id of Claude Code: user_…_account_…_session_…, since
// version 2.1.86 an object of JSON with a session_id. Other user ids have none.
func userSession(user []byte) []byte {
	if len(user) > 0 && user[0] == '{' {
		if end, err := skipValue(user, 0, 0); err != nil || end != len(user) {
			return nil
		}
		id := Member(user, "session_id")
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

// shortContent is content for strings that are no longer than the name of a session.
func shortContent(d *document, raw []byte) []byte {
	if len(raw) > maxSessionName {
		return nil
	}
	return d.content(raw)
}
