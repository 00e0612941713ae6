package sim

import (
	"bytes"
	"sync"

	"github.com/valyala/fasthttp"
)

// sessions are those that /open_session has opened. Their requests are answered without the
// history.
type sessions struct {
	mu   sync.Mutex
	open map[string]bool // guarded by mu
}

// serveOpen serves /open_session.
func (s *sessions) serveOpen(ctx *fasthttp.RequestCtx) {
	o := parseObject(ctx.PostBody())
	id := o.text("session_id", newID())
	if o.raw("capacity_of_str_len") == nil {
		o.fail(invalid("missing", "capacity_of_str_len", "Field required"))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.err == nil && s.open[id] {
		o.fail(refused("Failed to open the session. Check if a session with the same id is still open."))
	}
	if o.err != nil {
		asProblem(o.err).native(ctx)
		return
	}
	if s.open == nil {
		s.open = map[string]bool{}
	}
	s.open[id] = true
	writeJSON(ctx, fasthttp.StatusOK, appendJSONString(nil, []byte(id)))
}

// serveClose serves /close_session, which succeeds also where nothing is open.
func (s *sessions) serveClose(ctx *fasthttp.RequestCtx) {
	o := parseObject(ctx.PostBody())
	id := o.text("session_id", "")
	if o.err != nil {
		asProblem(o.err).native(ctx)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, id)
}

// check refuses a request of a session that is not open.
func (s *sessions) check(body []byte) error {
	if !bytes.Contains(body, []byte("session_params")) { // as nearly always
		return nil
	}
	raw := parseObject(body).raw("session_params")
	if raw == nil {
		return nil
	}
	id := parseObject(raw).text("id", "")
	s.mu.Lock()
	defer s.mu.Unlock()
	if id != "" && !s.open[id] {
		return refused("Invalid request: session id %s does not exist", id)
	}
	return nil
}
