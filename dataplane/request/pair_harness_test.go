package request_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/request/requesttest"
)

// patience bounds the wait for an event, and tick is the pause between two looks: CI may be slow.
const (
	patience = time.Minute
	tick     = 5 * time.Millisecond
)

// pairBody is the part of a request that a fake leg reads.
type pairBody struct {
	RID         any  `json:"rid"`
	Stream      bool `json:"stream"`
	Host        any  `json:"bootstrap_host"`
	Port        any  `json:"bootstrap_port"`
	Room        any  `json:"bootstrap_room"`
	Rank        *int `json:"routed_dp_rank"`
	PrefillRank *int `json:"disagg_prefill_dp_rank"`
}

// fakeLeg is a worker of a pair. It meets its partner in the request's room before it answers,
// unless a test sets another behavior.
type fakeLeg struct {
	*fakeWorker
	prefill bool
	hub     *hub
	ended   chan string // rooms of requests that are over, however
}

// hub has the rooms in which legs meet.
type hub struct {
	mu    sync.Mutex
	rooms map[string]*[2]chan struct{} // closed when the prefill leg, the decode leg, is there; guarded by mu
}

func (h *hub) room(id string) *[2]chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rooms[id] == nil {
		h.rooms[id] = &[2]chan struct{}{make(chan struct{}), make(chan struct{})}
	}
	return h.rooms[id]
}

// act is a leg's behavior at a request.
type act func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody)

// newPair makes so many prefill and decode workers.
func newPair(t *testing.T, prefills, decodes, dp int) (p, d []*fakeLeg) {
	t.Helper()
	h := &hub{rooms: map[string]*[2]chan struct{}{}}
	port := requesttest.Bootstrap(t)
	leg := func(mode string) *fakeLeg {
		l := &fakeLeg{fakeWorker: newFakeWorker(t, requesttest.HalfInfo(mode, dp, port)), prefill: mode == "prefill", hub: h, ended: make(chan string, 1024)}
		l.does(meets)
		return l
	}
	for range prefills {
		p = append(p, leg("prefill"))
	}
	for range decodes {
		d = append(d, leg("decode"))
	}
	return p, d
}

// does sets the leg's behavior.
func (l *fakeLeg) does(a act) {
	for _, path := range []string{"/generate", "/v1/chat/completions", "/v1/completions", "/v1/responses"} {
		l.On(path, func(rw http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(raw))
			var b pairBody
			if err := json.Unmarshal(raw, &b); err != nil {
				rw.WriteHeader(http.StatusBadRequest)
				return
			}
			defer func() { l.ended <- fmt.Sprint(b.Room) }()
			a(l, rw, r, &b)
		})
	}
}

// arrives tells the partner that the leg has the request.
func (l *fakeLeg) arrives(b *pairBody) *[2]chan struct{} {
	room := l.hub.room(fmt.Sprint(b.Room))
	if l.prefill {
		close(room[0])
	} else {
		close(room[1])
	}
	return room
}

// waits waits for the partner; false: the router has closed the connection before.
func (l *fakeLeg) waits(r *http.Request, room *[2]chan struct{}) bool {
	partner := room[0]
	if l.prefill {
		partner = room[1]
	}
	select {
	case <-partner:
		return true
	case <-r.Context().Done():
		return false
	}
}

// The answers of prefill and decode legs.
const (
	prefillReply = `{"text":"p","choices":[{"text":"p","message":{"content":"p"},"delta":{"content":"p"}}],"output":[{"id":"m"}],"meta_info":{"id":"x","prompt_tokens":9,"completion_tokens":1,"cached_tokens":8,"finish_reason":null}}`
	decodeReply  = `{"text":"d","choices":[{"text":"d","message":{"content":"d"},"delta":{"content":"d"}}],"output":[{"id":"m"}],"meta_info":{"id":"x","prompt_tokens":9,"completion_tokens":4,"cached_tokens":8,"finish_reason":{"type":"length"}}}`
)

// meets is the behavior of a healthy leg: meet the partner, answer.
func meets(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
	if !l.waits(r, l.arrives(b)) {
		return
	}
	reply := decodeReply
	if l.prefill {
		reply = prefillReply
	}
	if !b.Stream {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, reply)
		return
	}
	rw.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(rw, "data: "+reply+"\n\n")
	flush(rw)
	_, _ = io.WriteString(rw, "data: [DONE]\n\n")
}

func flush(rw http.ResponseWriter) { _ = http.NewResponseController(rw).Flush() }

// says answers at once.
func says(status int, mime, body string) act {
	return func(_ *fakeLeg, rw http.ResponseWriter, _ *http.Request, _ *pairBody) {
		rw.Header().Set("Content-Type", mime)
		rw.WriteHeader(status)
		_, _ = io.WriteString(rw, body)
	}
}

// startPair is start with the workers of pairs.
func startPair(t *testing.T, p, d []*fakeLeg, options ...option) *harness {
	t.Helper()
	var workers []*fakeWorker
	for _, l := range append(append([]*fakeLeg(nil), p...), d...) {
		workers = append(workers, l.fakeWorker)
	}
	return start(t, workers, options...)
}

// answersWhole adds a regular worker to a pair, which then answers what the pair alone refuses.
func (h *harness) answersWhole(path, body, reply string) {
	h.t.Helper()
	both := newFakeWorker(h.t, info(1))
	both.Answers(path, reply)
	_, err := h.Registry.Add(both.URL)
	require.NoError(h.t, err)
	h.AwaitReady(3)
	resp, got := h.Post(path, body)
	assert.Equal(h.t, http.StatusOK, resp.StatusCode)
	assert.Equal(h.t, reply, got)
}

// noneRunning is the invariant after the last answer: no load is counted at either leg, and no
// prediction stands.
func noneRunning(t *testing.T, h *harness) {
	t.Helper()
	require.Eventually(t, func() bool {
		h.Post("/explain", `{"text":"x"}`) // a choice forgets what ended a while ago
		return h.Unloaded() && h.Index.Stats().Predictions == 0
	}, patience, 20*time.Millisecond, "what a request took was not given back")
}

// streamBody and its like without stream.
const pairIDs = `{"input_ids":[1,2,3,4,5,6,7,8,9],"sampling_params":{"max_new_tokens":4}`

func pairRequest(stream bool) string {
	if stream {
		return pairIDs + `,"stream":true}`
	}
	return pairIDs + `}`
}

func pairReply(stream bool) string {
	if stream {
		return "data: " + decodeReply + "\n\ndata: [DONE]\n\n"
	}
	return decodeReply
}
