package admin_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/admin"
)

// chat returns the body of a chat with so many turns of a user.
func chat(fields string, user, turns int) string {
	var b strings.Builder
	b.WriteString(`{` + fields + `"model":"tiny","messages":[{"role":"system","content":"` + strings.Repeat("You help. ", 60) + `"}`)
	for i := range turns {
		text := strings.Repeat("words of "+strconv.Itoa(user)+" in turn "+strconv.Itoa(i)+" ", 40)
		b.WriteString(`,{"role":"user","content":"` + text + `"}`)
		if i < turns-1 {
			b.WriteString(`,{"role":"assistant","content":"` + text + `"}`)
		}
	}
	b.WriteString(`]}`)
	return b.String()
}

// TestSessionsAreSeen: turns are known by the prompt's beginning, or by the name that Claude Code
// gives its session; /explain, /status and /metrics show it, and no name.
func TestSessionsAreSeen(t *testing.T) {
	w := newFakeWorker(t, info(1))
	w.Answers("/v1/chat/completions", answerWithUsage)
	h := start(t, []*fakeWorker{w})
	e, _ := h.explain("", chat("", 1, 1))
	require.Equal(t, "first", e.Prompt.Turn.Kind)
	require.Empty(t, e.Prompt.Turn.Session)
	for turns := 1; turns <= 3; turns++ {
		h.Post("/v1/chat/completions", chat("", 1, turns))
	}
	h.AwaitIdle()
	next, _ := h.explain("", chat("", 1, 4))
	require.Equal(t, "next", next.Prompt.Turn.Kind)
	require.Equal(t, "prefix", next.Prompt.Turn.Source)
	require.Equal(t, 3, next.Prompt.Turn.Turns)
	require.NotEmpty(t, next.Prompt.Turn.Session)
	require.Positive(t, next.Prompt.Turn.Pause)
	require.Equal(t, w.URL, next.Prompt.Turn.Home)
	require.Positive(t, next.Prompt.Turn.Own)
	require.Zero(t, next.Ranks[0].Live, "there is no other session")

	const user = `"metadata":{"user_id":"user_0a1b_account__session_57a121ec-f78c-48c3-a745-e3036a3ecc33"},`
	h.Post("/v1/chat/completions", chat(user, 2, 1))
	h.Post("/v1/chat/completions", chat(user, 2, 2))
	h.Post("/v1/chat/completions", chat(user, 3, 1))
	h.AwaitIdle()
	e, _ = h.explain("", chat(user, 2, 3))
	require.Equal(t, "next", e.Prompt.Turn.Kind)
	require.Equal(t, "metadata", e.Prompt.Turn.Source)
	require.Positive(t, e.Ranks[0].Live, "another session is there")
	sub, _ := h.explain("", chat(user, 4, 1))
	require.Equal(t, "branch", sub.Prompt.Turn.Kind)
	require.Equal(t, e.Prompt.Turn.Session, sub.Prompt.Turn.Session)
	require.NotEqual(t, next.Prompt.Turn.Session, sub.Prompt.Turn.Session)

	_, got := h.Do(http.MethodGet, h.Operator+"/status", "")
	var st admin.Status
	require.NoError(t, json.Unmarshal([]byte(got), &st))
	require.Positive(t, st.Sessions.Pause)
	require.Less(t, st.Sessions.Pause, 60.0)
	require.Equal(t, 3, st.Workers[0].Sessions)
	require.Positive(t, st.Workers[0].LiveTokens)
	st.Sessions.Pause = 0
	require.Equal(t, &admin.SessionStatus{
		Live: 2, Named: 1, Branches: 3,
		Sources: map[string]uint64{"prefix": 3, "metadata": 3},
		Turns:   map[string]uint64{"first": 2, "next": 3, "branch": 1},
	}, st.Sessions)
	require.NotContains(t, got, "57a121ec")
	_, got = h.Do(http.MethodGet, h.Operator+"/metrics", "")
	for _, want := range []string{
		`warmpath_sessions{named="yes"} 1`, `warmpath_sessions{named="no"} 1`, `warmpath_session_branches 3`,
		`warmpath_session_requests_total{source="prefix"} 3`, `warmpath_session_turns_total{kind="next"} 3`,
	} {
		require.Contains(t, got, want)
	}
}

// TestFlushedSessions: after a flush no session has pages, and all are still known.
func TestFlushedSessions(t *testing.T) {
	w := newFakeWorker(t, info(1))
	w.Answers("/v1/chat/completions", answerWithUsage)
	w.Answers("/flush_cache", "")
	h := start(t, []*fakeWorker{w})
	h.Post("/v1/chat/completions", chat("", 1, 1))
	h.Post("/v1/chat/completions", chat("", 1, 2))
	h.AwaitIdle()
	resp, got := h.Do(http.MethodPost, h.Operator+"/flush_cache", "")
	require.Equal(t, http.StatusOK, resp.StatusCode, got)
	e, _ := h.explain("", chat("", 1, 3))
	require.Equal(t, "next", e.Prompt.Turn.Kind)
	require.Empty(t, e.Prompt.Turn.Home)
	_, got = h.Do(http.MethodGet, h.Operator+"/status", "")
	var st admin.Status
	require.NoError(t, json.Unmarshal([]byte(got), &st))
	require.Zero(t, st.Workers[0].LiveTokens)
}
