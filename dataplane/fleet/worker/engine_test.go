package worker_test

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// TestForeignServers names servers that are not SGLang. The bodies are those of vLLM 0.11, TGI
// 3.3, llama.cpp b6700 and Ollama 0.12, shortened.
func TestForeignServers(t *testing.T) {
	models := func(id, owner string) string {
		return `{"object":"list","data":[{"id":"` + id + `","owned_by":"` + owner + `"}]}`
	}
	tests := []struct {
		name, header string
		answers      map[string]string
		is           string
		models       []string
	}{
		{"vLLM", "Server: uvicorn\r\n", map[string]string{"/v1/models": models("m", "vllm"), "/version": `{"version":"0.11.0"}`}, "vLLM 0.11.0", []string{"m"}},
		{
			"TensorRT-LLM", "",
			map[string]string{"/v1/models": models("m", "tensorrt_llm"), "/version": `{"version":"1.2.0"}`},
			"TensorRT-LLM 1.2.0",
			[]string{"m"},
		},
		{"TGI", "", map[string]string{"/v1/models": models("m", "m"), "/info": `{"model_id":"m","version":"3.3.4"}`}, "TGI 3.3.4", []string{"m"}},
		{
			"llama.cpp", "Server: llama.cpp\r\n", map[string]string{
				"/v1/models": models("m.gguf", "llamacpp"), "/props": `{"default_generation_settings":{},"build_info":"b6700-9bd"}`,
			}, "llama.cpp b6700-9bd", []string{"m.gguf"},
		},
		{"Ollama", "", map[string]string{"/v1/models": models("m:7b", "library"), "/api/version": `{"version":"0.12.3"}`}, "Ollama 0.12.3", []string{"m:7b"}},
		{
			"another router", "X-Warmpath-Worker: http://w:1\r\n", map[string]string{
				"/ready": `{"ready":true}`, "/v1/models": models("m", "sglang"),
				"/server_info": `{"version":"0.5.23","page_size":16,"disaggregation_mode":"prefill","kv_events":{"publisher":"zmq","endpoint_port_base":5557}}`,
			}, "a Warmpath router", []string{"m"},
		},
		{"something else", "Server: tool/1\r\n", map[string]string{"/v1/models": models("m", "me"), "/version": "1.0", "/info": `[]`}, "an unknown server (tool/1)", []string{"m"}},
		{"SGLang behind a proxy", "Server: nginx\r\n", map[string]string{
			"/ready": "", "/v1/models": models("m", "sglang"), "/server_info": `{"version":"0.5.23","page_size":16}`,
		}, "", []string{"m"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var logs bytes.Buffer
			strange := func(f *fake) { f.answers, f.header = tt.answers, tt.header }
			watchAs(t, worker.Spec{URL: fakeURL}, slog.NewTextHandler(&logs, nil), strange, func(b *bench) {
				b.after(time.Second)
				b.want(worker.Ready, "up")
				info := b.worker.Info()
				require.Equal(t, tt.is, info.Engine)
				require.Equal(t, tt.models, info.Models)
				require.Equal(t, tt.is != "", info.Consequence() != "")
				if tt.is != "" {
					require.Nil(t, info.Events)
					require.Equal(t, worker.RoleRegular, info.Role())
				}
			})
			require.Equal(t, tt.is != "", bytes.Contains(logs.Bytes(), []byte("worker is no SGLang")), logs.String())
		})
	}
}

// TestServersWithoutModels are never ready, and named all the same, once.
func TestServersWithoutModels(t *testing.T) {
	var logs bytes.Buffer
	web := func(f *fake) { f.answers, f.header = map[string]string{"/": "Welcome"}, "Server: nginx/1.24.0\r\n" }
	watchAs(t, worker.Spec{URL: fakeURL}, slog.NewTextHandler(&logs, nil), web, func(b *bench) {
		b.after(30 * time.Second)
		b.want(worker.Probing)
		require.Contains(t, b.worker.LastError(), "it is an unknown server (nginx/1.24.0)")
		require.Equal(t, 1, b.fake.got("/version"), "questions in half a minute")
	})
	require.Equal(t, 1, bytes.Count(logs.Bytes(), []byte("worker is no model server")), logs.String())
}
