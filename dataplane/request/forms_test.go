package request_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTranscriptionsGoByTheModelOfTheirForm: sound reaches a worker of its model as it came.
func TestTranscriptionsGoByTheModelOfTheirForm(t *testing.T) {
	t.Parallel()
	const path = "/v1/audio/transcriptions"
	other, whisper := newFakeWorker(t, info(1)), newFakeWorker(t, `{"version":"0.5.23","served_model_name":"whisper","page_size":4,"dp_size":1}`)
	whisper.Answers("/v1/models", `{"object":"list","data":[{"id":"whisper"}]}`)
	whisper.Answers(path, `{"text":"hello"}`)
	h := start(t, []*fakeWorker{other, whisper})
	send := func(kind string, fields ...string) (int, []byte, string) {
		t.Helper()
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		for i := 0; i < len(fields); i += 2 {
			part, err := form.CreateFormField(fields[i])
			require.NoError(t, err)
			_, err = io.WriteString(part, fields[i+1])
			require.NoError(t, err)
		}
		file, err := form.CreateFormFile("file", "a.wav")
		require.NoError(t, err)
		_, err = file.Write([]byte("RIFF\x00\xff{\r\n--"))
		require.NoError(t, err)
		require.NoError(t, form.Close())
		if kind == "" {
			kind = form.FormDataContentType()
		}
		resp, err := h.Client.Post(h.Base+path, kind, bytes.NewReader(body.Bytes()))
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, body.Bytes(), string(got)
	}
	status, sent, got := send("", "model", "whisper", "language", "en")
	require.Equal(t, http.StatusOK, status, got)
	assert.JSONEq(t, `{"text":"hello"}`, got)
	assert.Equal(t, string(sent), whisper.LastBody())
	for _, refused := range []struct {
		kind   string
		fields []string
		status int
	}{
		{"", []string{"model", "nobody's"}, http.StatusNotFound},
		{"", []string{"model", "whisper", "model", "tiny"}, http.StatusBadRequest},
		{"application/json", []string{"model", "whisper"}, http.StatusBadRequest},
		{"multipart/form-data; boundary=other", []string{"model", "whisper"}, http.StatusBadRequest},
	} {
		status, _, got = send(refused.kind, refused.fields...)
		assert.Equal(t, refused.status, status, got)
	}
	h.AwaitIdle()
}
