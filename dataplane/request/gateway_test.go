package request_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStreamsWithALength: a gateway before a worker may know a stream's length from its own hop.
func TestStreamsWithALength(t *testing.T) {
	w := newFakeWorker(t, info(1))
	text := "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n" +
		"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	w.On("/v1/chat/completions", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		rw.Header().Set("Content-Length", strconv.Itoa(len(text)))
		for _, part := range strings.SplitAfter(text, "\n\n") {
			_, _ = io.WriteString(rw, part)
			rw.(http.Flusher).Flush()
		}
	})
	h := start(t, []*fakeWorker{w})
	resp, got := h.Post("/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"x"}],"stream":true}`)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, text, got)
}

// TestCompressedErrors: an error that a gateway has compressed reaches the client with the header that
// says so, and without it where the router writes it anew.
func TestCompressedErrors(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, `{"object":"error","message":"the prompt is too long","type":"BadRequestError","param":null,"code":400}`)
	require.NoError(t, z.Close())
	bodies := map[string]string{
		"/generate":            `{"text":"x","stream":%s}`,
		"/v1/chat/completions": `{"model":"tiny","messages":[{"role":"user","content":"x"}],"stream":%s}`,
		"/v1/messages":         `{"model":"tiny","max_tokens":9,"messages":[{"role":"user","content":"x"}],"stream":%s}`,
		"/v1/responses":        `{"model":"tiny","input":"x","stream":%s}`,
	}
	for path, body := range bodies {
		for _, status := range []int{400, 422, 429, 500, 503} {
			for _, stream := range []string{"false", "true"} {
				t.Run(fmt.Sprint(path, " ", status, " ", stream), func(t *testing.T) {
					w := newFakeWorker(t, info(1))
					w.On(path, func(rw http.ResponseWriter, _ *http.Request) {
						rw.Header().Set("Content-Type", "application/json")
						rw.Header().Set("Content-Encoding", "gzip")
						rw.WriteHeader(status)
						_, _ = rw.Write(packed.Bytes())
					})
					h := start(t, []*fakeWorker{w})
					resp, got := h.Do(http.MethodPost, h.Base+path, fmt.Sprintf(body, stream), "Content-Type", "application/json", "Accept-Encoding", "gzip")
					require.Equal(t, status, resp.StatusCode)
					if resp.Header.Get("Content-Encoding") == "gzip" {
						r, err := gzip.NewReader(strings.NewReader(got))
						require.NoError(t, err)
						plain, err := io.ReadAll(r)
						require.NoError(t, err)
						got = string(plain)
					}
					require.Contains(t, got, "too long")
				})
			}
		}
	}
}

// TestReadsPassADeadWorker: what the router asks of any worker is not asked of one that has died.
func TestReadsPassADeadWorker(t *testing.T) {
	all := []*fakeWorker{newFakeWorker(t, info(1)), newFakeWorker(t, info(1)), newFakeWorker(t, info(1))}
	for _, w := range all {
		w.Answers("/v1/models/tiny", `{"id":"tiny"}`)
		w.Answers("/model_info", `{"model_path":"tiny"}`)
		w.Answers("/get_model_info", `{"model_path":"tiny"}`)
	}
	for dead := range all {
		h := start(t, all[dead:])
		require.NoError(t, all[dead].Close())
		for range 20 {
			for _, path := range []string{"/v1/models", "/v1/models/tiny", "/model_info", "/get_model_info"} {
				resp, got := h.Do(http.MethodGet, h.Base+path, "")
				if dead < len(all)-1 {
					require.Equal(t, http.StatusOK, resp.StatusCode, path+got)
				}
			}
		}
		h.Stop()
	}
}
