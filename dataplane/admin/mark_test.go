package admin_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/testkit"
)

// TestWorkersOfSGLangsRouter: its paths list, add and remove workers, and tell their loads.
func TestWorkersOfSGLangsRouter(t *testing.T) {
	a, b := newFakeWorker(t, info(2)), newFakeWorker(t, info(1))
	h := start(t, []*fakeWorker{a})
	busy := h.Worker(a).Ranks()[1].Load.Begin(1000)
	for _, path := range []string{"/get_loads", "/v1/loads"} {
		_, body := h.get(path, &struct{}{})
		require.JSONEq(t, `{"workers":[{"worker":"`+a.URL+`","load":1000}]}`, body)
	}
	busy.End()
	resp, got := h.Post("/add_worker?url="+b.URL, "")
	require.Equal(t, http.StatusOK, resp.StatusCode, got)
	h.AwaitReady(2)
	listed := func() []string {
		var list struct{ URLs []string }
		h.get("/list_workers", &list)
		return list.URLs
	}
	require.ElementsMatch(t, []string{a.URL, b.URL}, listed())
	resp, got = h.Post("/remove_worker?url="+a.URL, "")
	require.Equal(t, http.StatusOK, resp.StatusCode, got)
	testkit.Await(t, "the worker is still listed", func() bool { return slices.Equal(listed(), []string{b.URL}) })
	for path, method := range map[string]string{"/add_worker": http.MethodGet, "/remove_worker": http.MethodDelete, "/list_workers": http.MethodPost, "/v1/loads": http.MethodPost} {
		resp, got = h.Do(method, h.Operator+path+"?url="+b.URL, "")
		require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode, got)
	}
}

// TestMarkRequests: /workers/drain and /workers/cordon take the same requests.
func TestMarkRequests(t *testing.T) {
	w := newFakeWorker(t, info(1))
	h := start(t, []*fakeWorker{w})
	for _, act := range []string{"drain", "cordon"} {
		for _, tt := range []struct {
			method, query, body string
			status              int
			want                string
		}{
			{http.MethodPost, "", `{"url":"` + w.URL + `/"}`, 200, `{"` + act + `":true,"scope":"router","url":"` + w.URL + `"}`},
			{http.MethodPost, "", `{"url":"` + w.URL + `","` + act + `":false}`, 200, `"` + act + `":false`},
			{http.MethodPost, "?url=" + w.URL, "", 200, `"` + act + `":true`},
			{http.MethodPost, "", `{"url":"` + w.URL + `","` + act + `":"true"}`, 400, act + " must be true or false"},
			{http.MethodDelete, "?url=" + w.URL, "", 200, `"` + act + `":false`},
			{http.MethodDelete, "", `{"url":"` + w.URL + `","` + act + `":true}`, 200, `"` + act + `":false`},
			{http.MethodPost, "", `{"url":"http://127.0.0.1:1"}`, 404, "worker_not_found"},
			{http.MethodPost, "", `{"node":"n"}`, 404, "node_not_found"},
			{http.MethodPost, "", `{"node":"n","url":"` + w.URL + `"}`, 400, "its node"},
			{http.MethodPost, "", `{}`, 400, "its node"},
			{http.MethodGet, "", "", 405, "POST, DELETE"},
		} {
			resp, got := h.Do(tt.method, h.Operator+"/workers/"+act+tt.query, tt.body)
			assert.Equal(t, tt.status, resp.StatusCode, "%s %s %s: %s", act, tt.method, tt.body, got)
			assert.Contains(t, got+resp.Header.Get("Allow"), tt.want)
		}
	}
}
