package request

import (
	"bytes"
	"crypto/subtle"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// Values of Config.Audience.
const (
	AudienceAll       = "all"
	AudienceOperators = "operators"
	AudienceNone      = "none"
)

// marks are the X-Warmpath-* fields of an answer; empty ones are not sent. They tell the topology,
// and the overlap tells exactly which prompts others have sent.
type marks struct {
	worker  string // with a pair the decode worker
	prefill string
	overlap []byte
	source  string
}

// write is the only place where such fields are set. Package upstream has dropped those of a worker
// that is a router itself.
func (m *marks) write(h *fasthttp.ResponseHeader, shown bool) {
	if !shown {
		return
	}
	if m.worker != "" {
		h.Set("X-Warmpath-Worker", m.worker)
	}
	if m.prefill != "" {
		h.Set("X-Warmpath-Prefill", m.prefill)
	}
	if len(m.overlap) > 0 {
		h.SetBytesV("X-Warmpath-Overlap", m.overlap)
		h.Set("X-Warmpath-Overlap-Source", m.source)
	}
}

// shown reports whether the client may see the marks.
func (a *answer) shown() bool {
	switch a.x.h.live().Audience {
	case AudienceAll:
		return true
	case AudienceOperators:
		return a.operator
	default:
		return false
	}
}

// isOperator compares a request's key in constant time.
func isOperator(authorization, key []byte) bool {
	scheme, token, ok := bytes.Cut(authorization, []byte(" "))
	return ok && len(key) > 0 && bytes.EqualFold(scheme, []byte("bearer")) && subtle.ConstantTimeCompare(token, key) == 1
}

// headerAuthorization is the field with an API key.
const headerAuthorization = fasthttp.HeaderAuthorization

// appendKey appends the key for a worker where the client has none of its own. The operators' key
// and those of clients are for this router, and no worker gets them.
func (b *bodyWriter) appendKey(extra []upstream.Field, w *worker.Worker) []upstream.Field {
	key := w.Key().API()
	if b.x.h.Keys != nil {
		return b.appendKeys(extra, key)
	}
	if !b.x.answer.operator && (key == nil || len(b.x.call.peek(headerAuthorization)) > 0) {
		return extra
	}
	return append(extra, upstream.Field{Key: headerAuthorization, Value: key})
}
