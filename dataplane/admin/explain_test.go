package admin_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

const answerWithUsage = `{"choices":[{"text":"","message":{"content":""}}],"usage":{"prompt_tokens":100,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":60}}}`

func (h *harness) explain(query, body string) (admin.Explained, int) {
	h.t.Helper()
	resp, got := h.Do(http.MethodPost, h.Operator+"/explain"+query, body)
	var e admin.Explained
	if resp.StatusCode == http.StatusOK {
		require.NoError(h.t, json.Unmarshal([]byte(got), &e), got)
	}
	return e, resp.StatusCode
}

func TestExplain(t *testing.T) {
	a, b := newFakeWorker(t, info(1)), newFakeWorker(t, info(2))
	for _, w := range []*fakeWorker{a, b} {
		w.Answers("/v1/chat/completions", answerWithUsage)
	}
	h := start(t, []*fakeWorker{a, b})
	bodies := map[string]string{
		"chat":        `{"model":"tiny","messages":[{"role":"user","content":"` + strings.Repeat("words ", 100) + `"}]}`,
		"messages":    `{"model":"tiny","max_tokens":8,"system":"` + strings.Repeat("words ", 100) + `","messages":[{"role":"user","content":"hi"}]}`,
		"completions": `{"model":"tiny","prompt":"` + strings.Repeat("words ", 100) + `"}`,
		"ids":         `{"input_ids":[1,2,3,4,5,6,7,8]}`,
		"text":        `{"text":"` + strings.Repeat("words ", 100) + `"}`,
		"nothing":     `{}`,
	}
	for name, body := range bodies {
		e, status := h.explain("?seed=7", body)
		if name == "nothing" {
			require.NotEqual(t, http.StatusInternalServerError, status)
			continue
		}
		require.Equal(t, http.StatusOK, status, name)
		require.Equal(t, "7", e.Seed)
		require.Len(t, e.Ranks, 3, "one of a and two of b")
		require.NotEmpty(t, e.Winner)
		require.NotEmpty(t, e.Why)
		winners := 0
		for _, r := range e.Ranks {
			require.Equal(t, "ready", r.State)
			require.NotNil(t, r.Overlap)
			require.Positive(t, r.Cost.Total)
			if r.Winner {
				winners++
				require.Equal(t, e.Winner, r.ID)
			}
		}
		require.Equal(t, 1, winners)
		again, _ := h.explain("?seed=7", body)
		require.Equal(t, e.Winner, again.Winner)
		require.Equal(t, e.Turn, again.Turn, "it is no request")
	}
	require.Empty(t, a.LastBody()+b.LastBody(), "nothing was sent anywhere")

	// After an answer, its rank is the one that is warm, and the next request goes where it is
	// explained to go.
	resp, _ := h.Post("/v1/chat/completions", bodies["chat"])
	served := resp.Header.Get("X-Warmpath-Worker")
	h.AwaitIdle()
	e, _ := h.explain("", bodies["chat"])
	require.Equal(t, served, e.Winner)
	require.Positive(t, e.Ranks[indexOf(e, served)].Overlap.GPU)
	require.Equal(t, "approximate", e.Ranks[indexOf(e, served)].Overlap.Source)
	resp, _ = h.Post("/v1/chat/completions", bodies["chat"])
	require.Equal(t, e.Winner, resp.Header.Get("X-Warmpath-Worker"))
}

func indexOf(e admin.Explained, id string) int {
	for i, r := range e.Ranks {
		if r.ID == id {
			return i
		}
	}
	return -1
}

func TestExplainRefuses(t *testing.T) {
	h := start(t, []*fakeWorker{newFakeWorker(t, info(1))}, withOperator("secret"))
	_, status := h.explain("", `{"text":"a"}`)
	require.Equal(t, http.StatusUnauthorized, status, "prompts tell what others have asked")
	resp, _ := h.Do(http.MethodPost, h.Base+"/explain", `{"text":"a"}`)
	require.Equal(t, http.StatusNotFound, resp.StatusCode, "the clients' listener does not explain")
	for _, tt := range []struct {
		method, query, body string
		want                int
	}{
		{http.MethodGet, "", "", http.StatusMethodNotAllowed},
		{http.MethodPost, "", `{"text":`, http.StatusBadRequest},
		{http.MethodPost, "?seed=x", `{"text":"a"}`, http.StatusBadRequest},
		{http.MethodPost, "", `{"text":"a"}`, http.StatusOK},
		{http.MethodPost, "", `{"model":"other","text":"a"}`, http.StatusOK},
	} {
		resp, got := h.Do(tt.method, h.Operator+"/explain"+tt.query, tt.body, "Authorization", "Bearer secret")
		require.Equal(t, tt.want, resp.StatusCode, "%s %s: %s", tt.query, tt.body, got)
		if strings.Contains(tt.body, "other") {
			require.Contains(t, got, `"error":"cannot route`)
			require.Contains(t, got, "serves another model")
		}
	}
}

// TestEveryPolicyServes: each policy can be chosen, and gets the facts that it needs.
func TestEveryPolicyServes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"approx", "dynamo", "staleness", "lmetric", "least-load", "power-of-two", "round-robin", "random"} {
		t.Run(name, func(t *testing.T) {
			a, b := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
			for _, w := range []*fakeWorker{a, b} {
				w.Answers("/v1/completions", answerWithUsage)
			}
			h := start(t, []*fakeWorker{a, b}, withPolicy(name))
			body := `{"model":"tiny","prompt":"` + strings.Repeat("some words ", 200) + `"}`
			before, _ := h.explain("", body)
			require.Empty(t, before.Error)
			require.NotEmpty(t, before.Winner)
			resp, _ := h.Post("/v1/completions", body)
			first := resp.Header.Get("X-Warmpath-Worker")
			require.Equal(t, http.StatusOK, resp.StatusCode)
			h.AwaitIdle()
			switch name {
			case "approx", "lmetric", "staleness", "dynamo":
				for range 5 { // idle again: the rank that has the prefix
					e, _ := h.explain("", body)
					require.Equal(t, first, e.Winner)
				}
			}
		})
	}
}

func TestTrustIsLearntFromAnswers(t *testing.T) {
	w := newFakeWorker(t, info(1))
	h := start(t, []*fakeWorker{w})
	body := `{"model":"tiny","messages":[{"role":"user","content":"` + strings.Repeat("words ", 300) + `"}]}`
	tell := func(cached string) {
		w.Answers("/v1/chat/completions", `{"choices":[{"text":"","message":{"content":""}}],"usage":{"prompt_tokens":400,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":`+cached+`}}}`)
		h.Post("/v1/chat/completions", body)
	}
	for range 12 {
		tell("399")
	}
	st := h.Admin.Status().Workers[0]
	require.InDelta(t, 1, st.Trust.Accuracy, 1e-9)
	require.InDelta(t, 1, st.Trust.Credit, 1e-9)
	require.InDelta(t, 5, st.Trust.CheckSeconds, 1e-9)
	require.GreaterOrEqual(t, st.Trust.Compared, 10)
	for range 12 {
		tell("399") // believed again, since an answer that contradicts is learnt from
		tell("0")
	}
	st = h.Admin.Status().Workers[0]
	require.Less(t, st.Trust.Accuracy, 0.85)
	require.Less(t, st.Trust.Credit, 0.9)
	require.LessOrEqual(t, st.Trust.CheckSeconds, 1.0)
	_, metrics := h.Do(http.MethodGet, h.Operator+"/metrics", "")
	for _, name := range []string{"rank_accuracy", "rank_backlog_tokens", "rank_prefill_tokens_per_second"} {
		require.Contains(t, metrics, "\nwarmpath_"+name+"{")
	}
	require.Equal(t, worker.Ready.String(), st.State)
}
