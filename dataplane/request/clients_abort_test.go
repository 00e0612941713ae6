package request_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	uuid   = "0a1b2c3d-4e5f-4071-8293-a4b5c6d7e8f9"
	uuidOf = "0a1b2c3d4e5f40718293a4b5c6d7e8f9" // another one, without hyphens
)

// namedRequest is a request as its worker got it.
type namedRequest struct {
	worker *fakeWorker
	ids    []string
}

// holder is a worker that answers no inference until its client has left, and tells its ids.
func holder(t *testing.T, got chan<- namedRequest) *fakeWorker {
	t.Helper()
	w := newFakeWorker(t, info(1))
	w.Aborted = make(chan string, 1000)
	for _, path := range []string{"/generate", "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/classify", "/v1/responses", "/v1/messages"} {
		w.On(path, func(_ http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			ids := enginesIDs(t, raw)
			if id := r.Header.Get("X-Override-Rid"); id != "" {
				ids = []string{id}
			}
			got <- namedRequest{w, ids}
			<-r.Context().Done()
		})
	}
	return w
}

// holdsAborts has a worker answer no abort before release; their bodies arrive.
func holdsAborts(w *fakeWorker, release <-chan struct{}) (arrive <-chan string) {
	arrived := make(chan string, 100_000)
	w.On("/abort_request", func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		arrived <- string(raw)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	return arrived
}

// enginesIDs returns the ids that SGLang gives the prompts of a body.
func enginesIDs(t *testing.T, raw []byte) (ids []string) {
	t.Helper()
	var members map[string]any
	if !assert.NoError(t, json.Unmarshal(raw, &members)) {
		return nil
	}
	name := members["rid"]
	if id, ok := members["request_id"]; ok {
		name = id
	}
	n := 0
	for _, of := range []string{"text", "prompt", "input"} {
		if list, ok := members[of].([]any); ok {
			n = len(list)
		}
	}
	switch name := name.(type) {
	case nil: // the engine's own
	case string:
		if n == 0 {
			return []string{name}
		}
		for i := range n {
			ids = append(ids, fmt.Sprintf("%s_%d", name, i))
		}
	case []any:
		assert.Len(t, name, n)
		for _, id := range name {
			s, _ := id.(string)
			ids = append(ids, s)
		}
	}
	return ids
}

// hold sends a request in the background, and returns what ends it.
func (h *harness) hold(path, body string, header ...string) (leave context.CancelFunc) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.Base+path, strings.NewReader(body))
	require.NoError(h.t, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	var done sync.WaitGroup
	done.Go(func() {
		if resp, err := h.Client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	})
	leave = func() { cancel(); done.Wait() }
	h.t.Cleanup(leave)
	return leave
}

// prompts returns a list of n texts.
func prompts(n int) string { return `["` + strings.Repeat(`x","`, n-1) + `x"]` }

// TestNoIDBeginsAnothers: SGLang ends all requests whose id begins with that of a request that is aborted or whose client has left. So
// whatever clients name theirs, no worker gets an id that begins another request's, from several routers either.
func TestNoIDBeginsAnothers(t *testing.T) {
	t.Parallel()
	got := make(chan namedRequest, 1000)
	w := holder(t, got)
	routers := []*harness{start(t, []*fakeWorker{w}), start(t, []*fakeWorker{w})}
	bodies := []struct{ path, body string }{
		{"/v1/responses", `{"model":"tiny","input":"x","request_id":"r"}`},
		{"/v1/responses", `{"model":"tiny","input":"x","request_id":"` + uuid + `0"}`},
		{"/v1/responses", `{"model":"tiny","input":"x","request_id":"resp_1"}`},
		{"/v1/responses", `{"model":"tiny","input":"x"}`},
		{"/v1/completions", `{"model":"tiny","prompt":"x","rid":"chatcmpl-1"}`},
		{"/v1/completions", `{"model":"tiny","prompt":` + prompts(12) + `,"rid":"chatcmpl-12"}`},
		{"/generate", `{"text":` + prompts(3) + `,"rid":["c","ch","cha"]}`},
		{"/generate", `{"text":"x","rid":"\ud800"}`},
		{"/generate", `{"text":"x","rid":"` + uuid[:35] + `"}`},
		{"/generate", `{"text":"x","rid":"` + uuidOf + uuidOf + `"}`},
		{"/generate", `{"text":"x","rid":"` + uuidOf + `-1"}`},
		{"/generate", `{"text":"x","rid":"wp-0123456789abcdef01234567"}`},
	}
	for _, name := range []string{"c", "cm", "chatcmpl-", "w", "0", "a", "f", "resp_", "HEALTH_CHECK", "é", `\"`, uuid, uuidOf} {
		for path, input := range map[string]string{"/generate": "text", "/v1/completions": "prompt", "/v1/embeddings": "input", "/v1/classify": "input"} {
			bodies = append(bodies, struct{ path, body string }{path, `{"model":"tiny","rid":"` + name + `","` + input + `":"x"}`})
		}
		bodies = append(bodies, struct{ path, body string }{"/v1/chat/completions", `{"model":"tiny","rid":"` + name + `","messages":[{"role":"user","content":"x"}]}`})
	}
	var all []namedRequest
	for _, h := range routers {
		for _, b := range bodies {
			h.hold(b.path, b.body)
			all = append(all, <-got)
		}
	}
	own := "0123456789abcdef0123456789abcdef" // as engines name requests themselves
	for i, a := range all {
		require.NotEmpty(t, a.ids)
		for _, id := range a.ids {
			assert.Len(t, id, len(strings.TrimSpace(id)))
			assert.False(t, strings.HasPrefix(own, id), "%q begins an engine's own id", id)
			for j, b := range all {
				for _, other := range b.ids {
					if i != j && id != uuid && id != uuidOf { // two routers cannot know of each other
						assert.False(t, strings.HasPrefix(other, id), "%q of request %d begins %q of %d", id, i, other, j)
					}
				}
			}
		}
	}
}

// TestWholeIDsAreAborted: a client's abort reaches the worker that has the request, by the name that the client gave it or by that which
// its answer has; nothing else in flight ends.
func TestWholeIDsAreAborted(t *testing.T) {
	t.Parallel()
	got, release := make(chan namedRequest, 100), make(chan struct{})
	workers := []*fakeWorker{holder(t, got), holder(t, got), holder(t, got)}
	for _, w := range workers {
		w.On("/generate", func(rw http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			got <- namedRequest{w, enginesIDs(t, raw)}
			<-release
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, idsReply)
		})
	}
	h := start(t, workers, withPolicy("round-robin"))
	const twelve = `{"text":%s,"rid":["l0","l1","l2","l3","l4","l5","l6","l7","l8","l9","l10","l11"]}`
	held := map[string]namedRequest{}
	var answers sync.WaitGroup
	for name, body := range map[string]string{
		"mine": `{"text":"x","rid":"mine"}`, "mine2": `{"text":"x","rid":"mine2"}`, "uuid": `{"text":"x","rid":"` + uuid + `"}`, "none": `{"text":"x"}`,
		"batch": `{"text":` + prompts(3) + `,"rid":"batch"}`, "batch2": `{"text":` + prompts(12) + `,"rid":"batch2"}`,
		"list": fmt.Sprintf(twelve, prompts(12)),
	} {
		answers.Go(func() { h.Post("/generate", body) })
		held[name] = <-got
	}
	assert.Equal(t, []string{uuid}, held["uuid"].ids, "it begins no other, so that the answer has the client's id")
	send := func(body string, status int) {
		t.Helper()
		resp, text := h.Post("/abort_request", body)
		assert.Equal(t, status, resp.StatusCode, "%s: %s", body, text)
	}
	for _, rid := range []string{
		"m", "min", "mine ", "mine3", "w", "wp-", "0", uuid[:8], uuid + "0", "l", "l12", "l0_0", "batch_", "batch_3", "batch_01", "batch_-1", "mine_0", "unknown", "resp_", held["none"].ids[0][:20],
	} {
		send(`{"rid":"`+rid+`"}`, http.StatusOK)
	}
	for _, body := range []string{
		`{}`, `{"rid":""}`, `{"rid":null}`, `{"rid":7}`, `{"rid":["mine2"]}`, `{"rid":[]}`, `[]`, `"mine2"`, `x`, ``, `{"abort_all":true}`, `{"abort_all":true,"rid":"mine2"}`,
		`{"rid":"batch2_1"}`, // ends batch2_10 too
	} {
		send(body, http.StatusBadRequest)
	}
	list := held["list"]
	want := map[*fakeWorker]map[string]bool{}
	for rid, n := range map[string]namedRequest{
		`m\u0069ne`: held["mine"], uuid: held["uuid"], held["none"].ids[0]: held["none"], "batch": held["batch"], "batch2_11": {held["batch2"].worker, held["batch2"].ids[11:]},
		"l1": {list.worker, list.ids[1:2]}, list.ids[3]: {list.worker, list.ids[3:4]},
	} {
		send(`{"rid":"`+rid+`"}`, http.StatusOK)
		for _, id := range n.ids {
			if want[n.worker] == nil {
				want[n.worker] = map[string]bool{}
			}
			want[n.worker][`{"rid":"`+id+`"}`] = true
		}
	}
	close(release)
	answers.Wait()
	h.Stop() // waits for aborts that are under way
	for _, w := range workers {
		sent := map[string]bool{}
		for range len(w.Aborted) {
			sent[<-w.Aborted] = true
		}
		if want[w] == nil {
			want[w] = map[string]bool{}
		}
		assert.Equal(t, want[w], sent)
	}
}

// TestAbortsOfOtherClients: a key aborts its own requests only, and two clients may give theirs the same name.
func TestAbortsOfOtherClients(t *testing.T) {
	t.Parallel()
	for _, rid := range []string{"job-1", uuid} {
		t.Run(rid, func(t *testing.T) {
			t.Parallel()
			got, release := make(chan namedRequest, 100), make(chan struct{})
			w := holder(t, got)
			w.On("/generate", func(rw http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				got <- namedRequest{w, enginesIDs(t, raw)}
				<-release
				rw.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(rw, idsReply)
			})
			h := start(t, []*fakeWorker{w}, withKeys(keysOf(t, "alice", "bob", "carol")))
			var answers sync.WaitGroup
			held := map[string]namedRequest{}
			for _, name := range []string{"alice", "bob"} {
				answers.Go(func() { h.askBy(name, "/generate", `{"text":"x","rid":"`+rid+`"}`) })
				held[name] = <-got
			}
			assert.NotEqual(t, held["alice"].ids, held["bob"].ids)
			for client, names := range map[string][]string{"carol": {rid, held["alice"].ids[0], held["bob"].ids[0]}, "alice": {held["bob"].ids[0]}, "bob": {rid}} {
				for _, name := range names {
					resp, text := h.askBy(client, "/abort_request", `{"rid":"`+name+`"}`)
					assert.Equal(t, http.StatusOK, resp.StatusCode, text)
				}
			}
			close(release)
			answers.Wait()
			h.Stop()
			require.NotEmpty(t, w.Aborted)
			for range len(w.Aborted) {
				assert.Equal(t, `{"rid":"`+held["bob"].ids[0]+`"}`, <-w.Aborted)
			}
		})
	}
}

// TestAbortsOfClientsHavePlacesOfTheirOwn: a client that asks for too many is told so, and requests whose clients leave are aborted then.
func TestAbortsOfClientsHavePlacesOfTheirOwn(t *testing.T) {
	t.Parallel()
	got, release := make(chan namedRequest, 100), make(chan struct{})
	w := holder(t, got)
	aborted := holdsAborts(w, release)
	h := start(t, []*fakeWorker{w})
	t.Cleanup(func() { close(release) })
	const n = 1000 // all of one batch, so that none has been asked for before
	h.hold("/generate", `{"text":`+prompts(n)+`,"rid":["`+strings.Join(numbered("mine-%d", n), `","`)+`"]}`)
	mine := <-got
	leave := h.hold("/generate", `{"text":"x"}`)
	other := <-got
	// Many at once: each has a place for seconds only, however slow this machine is.
	var next atomic.Int64
	var refused atomic.Bool
	var asking sync.WaitGroup
	for range 64 {
		asking.Go(func() {
			for i := next.Add(1); !refused.Load() && i < 100*n; i = next.Add(1) {
				resp, _, err := h.Try(http.MethodPost, h.Base+"/abort_request", fmt.Sprintf(`{"rid":"mine-%d"}`, i%n))
				if err != nil || resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") != "" {
					refused.Store(err == nil)
					return
				}
			}
		})
	}
	asking.Wait()
	require.True(t, refused.Load())
	leave()
	for text := ""; text != `{"rid":"`+other.ids[0]+`"}`; text = <-aborted {
		if text != "" {
			require.Contains(t, mine.ids, text[len(`{"rid":"`):len(text)-len(`"}`)])
		}
	}
}

// numbered returns n names.
func numbered(format string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf(format, i))
	}
	return names
}

// TestTheWorkersIDIsAborted: of equal members the worker takes the last, so that id is aborted
// when the client leaves; of a message it is that of the header, of a response the response's own.
func TestTheWorkersIDIsAborted(t *testing.T) {
	t.Parallel()
	got := make(chan namedRequest, 1)
	w := holder(t, got)
	h := start(t, []*fakeWorker{w})
	for _, tt := range [][2]string{
		{"/generate", `{"text":"x"}`},
		{"/generate", `{"rid":null,"text":"x"}`},
		{"/generate", `{"rid":"","text":"x"}`},
		{"/generate", `{"rid":[],"text":"x"}`},
		{"/generate", `{"text":"x","rid":"mine"}`},
		{"/generate", `{"rid":"first","text":"x","rid":"last"}`},
		{"/generate", `{"rid":"first","text":"x","rid":null}`},
		{"/generate", `{"\u0072id":null,"text":"x"}`},
		{"/generate", `{"\u0072id":"mi\u006ee","text":"x"}`},
		{"/generate", `{"rid":"a","text":"x","r\u0069d":""}`},
		{"/generate", `{"rid":"\ud800","text":"x"}`},
		{"/generate", `{"rid":"w","text":"x"}`},
		{"/generate", `{"rid":"wp-0","text":"x"}`},
		{"/generate", `{"rid":"re","text":"x"}`},
		{"/generate", `{"rid":"resp_0","text":"x"}`},
		{"/generate", `{"rid":["resp_0","b"],"text":["x","y"]}`},
		{"/generate", `{"rid":["a","b"],"text":["x","y"]}`},
		{"/generate", `{"rid":["a",""],"text":["x","y"]}`},
		{"/generate", `{"rid":null,"text":["x","y"] }`},
		{"/v1/messages", messagesBody + "}"},
		{"/v1/responses", responsesBody + "}"},
		{"/v1/responses", responsesBody + `,"request_id":"my-own"}`},
	} {
		leave := h.hold(tt[0], tt[1])
		ids := (<-got).ids
		require.NotEmpty(t, ids, "the worker makes an id of its own of %s", tt[1])
		leave()
		for _, id := range ids {
			assert.NotEmpty(t, id)
			if tt[0] != "/v1/responses" {
				assert.NotRegexp(t, "^"+regexp.QuoteMeta(id), "resp_0123456789abcdef0123456789abcdef", "also aborts a response")
			}
			for aborted := ""; aborted != `{"rid":"`+id+`"}`; { // those before are aborted a second time
				select {
				case aborted = <-w.Aborted:
				case <-time.After(patience):
					t.Fatalf("%q of %s is not aborted", id, tt[1])
				}
			}
		}
	}
}

// TestAnAbortEndsNoRequestOfTheSameName: an abort is repeated a second later. A client that sends its request again
// by then, with the same whole id, as SDKs do after a timeout, must not lose that one.
func TestAnAbortEndsNoRequestOfTheSameName(t *testing.T) {
	t.Parallel()
	response := "resp_" + uuidOf
	for name, tt := range map[string]struct {
		path, body string
		ids        []string
	}{
		"id":       {"/generate", `{"text":"x","rid":"` + uuid + `"}`, []string{uuid}},
		"list":     {"/generate", `{"text":["x","y"],"rid":["` + uuidOf + `","` + uuid + `"]}`, []string{uuidOf, uuid}},
		"batch":    {"/generate", `{"text":["x","y"],"rid":"` + uuid + `"}`, []string{uuid + "_0", uuid + "_1"}},
		"response": {"/v1/responses", `{"model":"tiny","input":"x","request_id":"` + response + `"}`, []string{response}},
	} {
		for _, how := range []string{"leaves", "aborts"} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				got, release := make(chan namedRequest, 10), make(chan struct{})
				w := holder(t, got)
				arrived := holdsAborts(w, release)
				h := start(t, []*fakeWorker{w})
				leave := h.hold(tt.path, tt.body)
				require.Equal(t, tt.ids, (<-got).ids, "it begins no other, and none has it")
				if how == "aborts" {
					resp, text := h.Post("/abort_request", `{"rid":"`+strings.TrimSuffix(tt.ids[0], "_0")+`"}`)
					require.Equal(t, http.StatusOK, resp.StatusCode, text)
				}
				leave()
				assert.Equal(t, `{"rid":"`+tt.ids[0]+`"}`, <-arrived)
				h.hold(tt.path, tt.body)
				again := <-got
				for _, id := range tt.ids {
					for _, other := range again.ids {
						assert.False(t, strings.HasPrefix(other, id), "%q is about to be aborted a second time, and %q with it", id, other)
					}
				}
				close(release)
			})
		}
	}
}

// TestAbortsOfTheSameRequestAreOne: a worker gets as many aborts for a client that asks a hundred times as for one that
// asks once. A batch has a thousand prompts, each of which is aborted by itself.
func TestAbortsOfTheSameRequestAreOne(t *testing.T) {
	t.Parallel()
	const n = 200
	got, release := make(chan namedRequest, 10), make(chan struct{})
	w := holder(t, got)
	arrived := holdsAborts(w, release)
	h := start(t, []*fakeWorker{w})
	leave := h.hold("/generate", `{"text":`+prompts(n)+`,"rid":"mine"}`)
	ids := (<-got).ids
	begin := time.Now()
	for range 100 {
		resp, text := h.Post("/abort_request", `{"rid":"mine"}`)
		require.Equal(t, http.StatusOK, resp.StatusCode, text)
	}
	rounds := 1 + int(time.Since(begin).Seconds()) // one is under way for a second and more
	close(release)
	leave()
	h.Stop() // waits for aborts that are under way
	times := map[string]int{}
	for range len(arrived) {
		times[<-arrived]++
	}
	assert.Len(t, times, n)
	for _, id := range ids {
		// Twice a round for the client, and twice because it left.
		assert.LessOrEqual(t, times[fmt.Sprintf(`{"rid":%q}`, id)], 2*rounds+2, id)
	}
}
