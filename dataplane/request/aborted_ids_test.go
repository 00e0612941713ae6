package request_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
				got, arrived, release := make(chan namedRequest, 10), make(chan string, 100), make(chan struct{})
				w := holder(t, got)
				w.on("/abort_request", func(_ http.ResponseWriter, r *http.Request) {
					raw, _ := io.ReadAll(r.Body)
					arrived <- string(raw)
					select {
					case <-release:
					case <-r.Context().Done():
					}
				})
				h := start(t, []*fakeWorker{w})
				leave := h.hold(tt.path, tt.body)
				require.Equal(t, tt.ids, (<-got).ids, "it begins no other, and none has it")
				if how == "aborts" {
					resp, text := h.post("/abort_request", `{"rid":"`+strings.TrimSuffix(tt.ids[0], "_0")+`"}`)
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
	arrived := make(chan string, 100_000)
	w.on("/abort_request", func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		arrived <- string(raw)
		<-release
	})
	h := start(t, []*fakeWorker{w})
	leave := h.hold("/generate", `{"text":`+prompts(n)+`,"rid":"mine"}`)
	ids := (<-got).ids
	begin := time.Now()
	for range 100 {
		resp, text := h.post("/abort_request", `{"rid":"mine"}`)
		require.Equal(t, http.StatusOK, resp.StatusCode, text)
	}
	rounds := 1 + int(time.Since(begin).Seconds()) // one is under way for a second and more
	close(release)
	leave()
	h.stop() // waits for aborts that are under way
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
