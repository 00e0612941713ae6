package request_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestResponsesTemplate: a chat template in a body of /v1/responses, which SGLang forgets to
// refuse, reaches only workers that trust it.
func TestResponsesTemplate(t *testing.T) {
	t.Parallel()
	const template = `{"chat_template":"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"}`
	for _, tt := range []struct {
		name, info, body string
		status           int
	}{
		{"refused", info(1), responsesBody + `,"chat_template_kwargs":` + template, http.StatusBadRequest},
		{"escaped", info(1), responsesBody + `,"chat_templ\u0061te_kwargs":` + strings.Replace(template, "chat_t", `cha\u0074_t`, 1), http.StatusBadRequest},
		{"not converted", info(1), `{"model":"tiny","input":[{"type":"item_reference"}],"chat_template_kwargs":` + template, http.StatusBadRequest},
		{"null", info(1), responsesBody + `,"chat_template_kwargs":{"chat_template":null}`, http.StatusBadRequest},
		{"other", info(1), responsesBody + `,"chat_template_kwargs":{"enable_thinking":false},"metadata":` + template, http.StatusOK},
		{"trusted", strings.TrimSuffix(info(1), "}") + `,"trust_request_chat_template":true}`, responsesBody + `,"chat_template_kwargs":` + template, http.StatusOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newFakeWorker(t, tt.info)
			w.answers("/v1/responses", responseReply)
			resp, body := start(t, []*fakeWorker{w}).post("/v1/responses", tt.body+"}")
			require.Equal(t, tt.status, resp.StatusCode, body)
			if tt.status == http.StatusBadRequest {
				kind, param := readResponsesError(t, body)
				assert.Equal(t, "invalid_request_error", kind)
				assert.Equal(t, "chat_template_kwargs", param)
			}
		})
	}
}
