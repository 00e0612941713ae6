package admin_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestMarkRequests: /workers/drain and /workers/cordon take the same requests.
func TestMarkRequests(t *testing.T) {
	w := newFakeWorker(t, info(1))
	h := start(t, []*fakeWorker{w}, settings{})
	for _, act := range []string{"drain", "cordon"} {
		for _, tt := range []struct {
			method, query, body string
			status              int
			want                string
		}{
			{http.MethodPost, "", `{"url":"` + w.url + `/"}`, 200, `{"` + act + `":true,"scope":"router","url":"` + w.url + `"}`},
			{http.MethodPost, "", `{"url":"` + w.url + `","` + act + `":false}`, 200, `"` + act + `":false`},
			{http.MethodPost, "?url=" + w.url, "", 200, `"` + act + `":true`},
			{http.MethodDelete, "?url=" + w.url, "", 200, `"` + act + `":false`},
			{http.MethodDelete, "", `{"url":"` + w.url + `","` + act + `":true}`, 200, `"` + act + `":false`},
			{http.MethodPost, "", `{"url":"http://127.0.0.1:1"}`, 404, "worker_not_found"},
			{http.MethodPost, "", `{"node":"n"}`, 404, "node_not_found"},
			{http.MethodPost, "", `{"node":"n","url":"` + w.url + `"}`, 400, "its node"},
			{http.MethodPost, "", `{}`, 400, "its node"},
			{http.MethodGet, "", "", 405, "POST, DELETE"},
		} {
			resp, got := h.do(tt.method, h.operator+"/workers/"+act+tt.query, tt.body)
			assert.Equal(t, tt.status, resp.StatusCode, "%s %s %s: %s", act, tt.method, tt.body, got)
			assert.Contains(t, got+resp.Header.Get("Allow"), tt.want)
		}
	}
}
