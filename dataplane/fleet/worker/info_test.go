package worker_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

const host = "10.0.0.5" // where the tests' workers are reached

func TestParseInfoOfSGLang(t *testing.T) {
	body, err := os.ReadFile("testdata/server_info_0.5.23.json")
	require.NoError(t, err)
	info, err := worker.ParseInfo(body, "127.0.0.1")
	require.NoError(t, err)
	require.Equal(t, &worker.Info{
		Version: "0.5.23", ModelPath: "/models/tiny", Models: []string{"tiny"}, PageSize: 4, DPSize: 1, TPSize: 1, MaxTokens: 4096, Mode: "null",
		Events: &worker.Events{
			Endpoints: []string{"tcp://127.0.0.1:31557"}, Replays: []string{"tcp://127.0.0.1:31558"},
			Topic: "kv-events", BlockSize: 4,
		},
		Tokenizer: worker.Tokenizer{Path: "/models/tiny"},
		Placement: worker.Placement{Port: 31000, PPSize: 1},
	}, info)

	// The same server without the object, as older releases answer: only the
	// option that it was started with tells where the events are.
	var doc map[string]any
	require.NoError(t, json.Unmarshal(body, &doc))
	delete(doc, "kv_events")
	body, err = json.Marshal(doc)
	require.NoError(t, err)
	old, err := worker.ParseInfo(body, "127.0.0.1")
	require.NoError(t, err)
	require.Equal(t, info.Events, old.Events, "events by the option instead of by the object")
}

func TestParseInfo(t *testing.T) {
	tests := []struct {
		name, body string
		want       worker.Info
	}{
		{"empty", `{}`, worker.Info{DPSize: 1}},
		{"wrong types", `{"version":1,"dp_size":"8","page_size":[],"kv_events":[]}`, worker.Info{DPSize: 1}},
		{
			"half of a pair", `{"disaggregation_mode":"decode","disaggregation_bootstrap_port":8998,"disaggregation_decode_enable_radix_cache":true}`,
			worker.Info{DPSize: 1, Mode: "decode", BootstrapPort: 8998, DecodeCache: true},
		},
		{"a port that is none", `{"disaggregation_mode":"prefill","disaggregation_bootstrap_port":70000}`, worker.Info{DPSize: 1, Mode: "prefill"}},
		{"a pool, as older releases tell it", `{"max_total_num_tokens":1000}`, worker.Info{DPSize: 1, MaxTokens: 1000}},
		{
			"how tokens are made", `{"tokenizer_path":"/t","revision":"v1","tokenizer_mode":"auto","skip_tokenizer_init":true,"chat_template":"/c.jinja",
				"hf_chat_template_name":"tool_use","default_chat_template_kwargs":{"enable_thinking": false},"tool_call_parser":"qwen","reasoning_parser":"qwen3"}`,
			worker.Info{DPSize: 1, Tokenizer: worker.Tokenizer{
				Path: "/t", Revision: "v1", Mode: "auto", Skip: true, ChatTemplate: "/c.jinja", TemplateName: "tool_use",
				DefaultKwargs: `{"enable_thinking":false}`, ToolCallParser: "qwen", ReasoningParser: "qwen3",
			}},
		},
		{
			"template arguments as they were given", `{"default_chat_template_kwargs":"{\"a\":1}"}`,
			worker.Info{DPSize: 1, Tokenizer: worker.Tokenizer{DefaultKwargs: `{"a":1}`}},
		},
		{"sizes out of range", `{"dp_size":-3,"page_size":-16,"max_total_num_tokens":-1}`, worker.Info{DPSize: 1}},
		{
			"two ranks, any host", `{"dp_size":2,"page_size":16,"kv_events":{"publisher":"zmq","endpoint_host":"*",
				"endpoint_port_base":5557,"topic":"kv","block_size":32,"dp_size":2,"replay_endpoint_port_base":5600}}`,
			worker.Info{DPSize: 2, PageSize: 16, Events: &worker.Events{
				Endpoints: []string{"tcp://10.0.0.5:5557", "tcp://10.0.0.5:5558"},
				Replays:   []string{"tcp://10.0.0.5:5600", "tcp://10.0.0.5:5601"}, Topic: "kv", BlockSize: 32,
			}},
		},
		{
			"no replay, named host", `{"kv_events":{"endpoint_host":"kv.local","endpoint_port_base":5557}}`,
			worker.Info{DPSize: 1, Events: &worker.Events{Endpoints: []string{"tcp://kv.local:5557"}}},
		},
		{
			"IPv6", `{"kv_events":{"endpoint_host":"[fd00::1]","endpoint_port_base":5557}}`,
			worker.Info{DPSize: 1, Events: &worker.Events{Endpoints: []string{"tcp://[fd00::1]:5557"}}},
		},
		{
			"any host of IPv6", `{"kv_events":{"endpoint_host":"::","endpoint_port_base":5557}}`,
			worker.Info{DPSize: 1, Events: &worker.Events{Endpoints: []string{"tcp://10.0.0.5:5557"}}},
		},
		{"other publisher", `{"kv_events":{"publisher":"null","endpoint_port_base":5557}}`, worker.Info{DPSize: 1}},
		{"no port", `{"kv_events":{"publisher":"zmq"}}`, worker.Info{DPSize: 1}},
		{"ports beyond the last", `{"dp_size":2,"kv_events":{"endpoint_port_base":65535}}`, worker.Info{DPSize: 2}},
		{
			"replay ports beyond the last", `{"dp_size":2,"kv_events":{"endpoint_port_base":5557,"replay_endpoint_port_base":65535}}`,
			worker.Info{DPSize: 2, Events: &worker.Events{Endpoints: []string{"tcp://10.0.0.5:5557", "tcp://10.0.0.5:5558"}}},
		},
		{
			"old release", `{"version":"0.5.8","dp_size":2,"page_size":16,"kv_events_config":` +
				`"{\"publisher\":\"zmq\",\"endpoint\":\"tcp://*:5557\",\"replay_endpoint\":\"tcp://*:5600\",\"topic\":\"\"}"}`,
			worker.Info{Version: "0.5.8", DPSize: 2, PageSize: 16, Events: &worker.Events{
				Endpoints: []string{"tcp://10.0.0.5:5557", "tcp://10.0.0.5:5558"},
				Replays:   []string{"tcp://10.0.0.5:5600", "tcp://10.0.0.5:5601"}, BlockSize: 16,
			}},
		},
		{
			"old release, all by default", `{"page_size":1,"kv_events":null,"kv_events_config":"{\"publisher\":\"zmq\"}"}`,
			worker.Info{DPSize: 1, PageSize: 1, Events: &worker.Events{Endpoints: []string{"tcp://10.0.0.5:5557"}, BlockSize: 1}},
		},
		{
			"old release, pages over decode contexts", `{"page_size":16,"dcp_size":4,"kv_events_config":` +
				`"{\"publisher\":\"zmq\",\"endpoint\":\"tcp://0.0.0.0:7000\",\"topic\":\"kv\"}"}`,
			worker.Info{DPSize: 1, PageSize: 16, Events: &worker.Events{
				Endpoints: []string{"tcp://10.0.0.5:7000"}, Topic: "kv", BlockSize: 64,
			}},
		},
		{"old release, no events", `{"kv_events_config":null}`, worker.Info{DPSize: 1}},
		{"old release, other publisher", `{"kv_events_config":"{\"publisher\":\"null\"}"}`, worker.Info{DPSize: 1}},
		{"old release, other transport", `{"kv_events_config":"{\"publisher\":\"zmq\",\"endpoint\":\"ipc:///tmp/kv\"}"}`, worker.Info{DPSize: 1}},
		{"old release, bad port", `{"kv_events_config":"{\"publisher\":\"zmq\",\"endpoint\":\"tcp://*:kv\"}"}`, worker.Info{DPSize: 1}},
		{"host that is none", `{"kv_events":{"endpoint_host":"a]b","endpoint_port_base":5557}}`, worker.Info{DPSize: 1}},
		{"old release, not JSON", `{"kv_events_config":"zmq"}`, worker.Info{DPSize: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := worker.ParseInfo([]byte(tt.body), host)
			require.NoError(t, err)
			require.Equal(t, &tt.want, got)
		})
	}
}

func TestParseInfoRefuses(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"nothing", ``, "cannot read server_info"},
		{"a page of HTML", `<html>`, "cannot read server_info"},
		{"an array", `[]`, "not a JSON object"},
		{"more ranks than any worker has", `{"dp_size":1025}`, "dp_size is out of range"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			info, err := worker.ParseInfo([]byte(tt.body), host)
			require.ErrorContains(t, err, tt.want)
			require.Nil(t, info)
		})
	}
}

func TestParseModels(t *testing.T) {
	tests := []struct {
		name, body      string
		bases, adapters []string
		maxLen          int
	}{
		{"one", `{"object":"list","data":[{"id":"tiny","object":"model","parent":null}]}`, []string{"tiny"}, nil, 0},
		{
			"with an adapter", `{"data":[{"id":"tiny","max_model_len":4096},{"id":"sql","parent":"tiny","max_model_len":null}]}`,
			[]string{"tiny"},
			[]string{"sql"},
			4096,
		},
		{"entries without an id", `{"data":[{},{"id":1},7,{"id":""}]}`, nil, nil, 0},
		{"none", `{"data":[]}`, nil, nil, 0},
		{"not a list", `"tiny"`, nil, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bases, adapters, maxLen, err := worker.ParseModels([]byte(tt.body))
			require.NoError(t, err)
			require.Equal(t, tt.bases, bases)
			require.Equal(t, tt.adapters, adapters)
			require.Equal(t, tt.maxLen, maxLen)
		})
	}
	_, _, _, err := worker.ParseModels([]byte(`{"data"`))
	require.ErrorContains(t, err, "cannot read /v1/models")
}

// TestLongTexts: names and paths that none can be are not taken.
func TestLongTexts(t *testing.T) {
	long := strings.Repeat("x", 5000)
	info, err := worker.ParseInfo([]byte(`{"model_path":"`+long+`","served_model_name":"`+long+`","version":"`+long+`","dp_size":2}`), host)
	require.NoError(t, err)
	require.Equal(t, []any{"", "", 2}, []any{info.Model(), info.Version, info.DPSize})
	info, err = worker.ParseInfo([]byte("{\"model_path\":\"/m\xff\",\"served_model_name\":\"tiny\xff\"}"), host)
	require.NoError(t, err)
	require.Empty(t, info.Model(), "no label of a metric")
	bases, _, _, err := worker.ParseModels([]byte("{\"data\":[{\"id\":\"tiny\xff\"},{\"id\":\"tiny\"}]}"))
	require.NoError(t, err)
	require.Equal(t, []string{"tiny"}, bases)
}

// TestModelsAreBounded: a worker that lists names without end costs no choice more than one that
// lists many.
func TestModelsAreBounded(t *testing.T) {
	var body strings.Builder
	body.WriteString(`{"data":[{"id":"` + strings.Repeat("x", 4096) + `"}`)
	for i := range 20_000 {
		fmt.Fprintf(&body, `,{"id":"m%d"},{"id":"a%d","parent":"m0"}`, i, i)
	}
	bases, adapters, _, err := worker.ParseModels([]byte(body.String() + `]}`))
	require.NoError(t, err)
	require.Equal(t, []any{1024, "m0", 8192, "a0"}, []any{len(bases), bases[0], len(adapters), adapters[0]})
}

func TestInfoModel(t *testing.T) {
	require.Equal(t, "a", (&worker.Info{Models: []string{"a", "b"}, ModelPath: "/m"}).Model())
	require.Equal(t, "/m", (&worker.Info{ModelPath: "/m"}).Model())
}

// FuzzParseInfo compares the parsed description with the reading of encoding/json, and checks
// the fields that a stream needs.
func FuzzParseInfo(f *testing.F) {
	body, err := os.ReadFile("testdata/server_info_0.5.23.json")
	require.NoError(f, err)
	f.Add(body)
	f.Add([]byte(`{"dp_size":3,"page_size":16,"kv_events":{"publisher":"zmq","endpoint_port_base":65533,"dp_size":2}}`))
	f.Add([]byte(`{"dp_size":1e9,"kv_events_config":"{\"publisher\":\"zmq\",\"endpoint\":\"tcp://*:65535\"}"}`))
	f.Add([]byte(`{"kv_events_config":"{\"publisher\":\"zmq\",\"endpoint\":\"tcp://[::]:1\",\"replay_endpoint\":\"tcp://a:2\"}","dcp_size":9}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if info, err := worker.ParseInfo(body, host); err == nil {
			checkInfo(t, info)
		}
		var doc map[string]any
		d := json.NewDecoder(strings.NewReader(string(body)))
		d.UseNumber()
		if d.Decode(&doc) != nil || doc == nil {
			return
		}
		// After the round trip a key is there once and in one spelling: the two readers differ
		// on anything else.
		var option map[string]any
		if json.Unmarshal([]byte(naiveString(doc["kv_events_config"])), &option) == nil {
			text, err := json.Marshal(option)
			require.NoError(t, err)
			doc["kv_events_config"] = string(text)
		} else {
			delete(doc, "kv_events_config")
		}
		again, err := json.Marshal(doc)
		require.NoError(t, err)
		info, err := worker.ParseInfo(again, host)
		if naiveInt(doc["dp_size"]) > 1024 {
			require.Error(t, err, "dp_size of %s", again)
			return
		}
		require.NoError(t, err, "%s", again)
		require.Equal(t, naiveString(doc["version"]), info.Version, "version of %s", again)
		require.Equal(t, naiveString(doc["model_path"]), info.ModelPath, "model_path of %s", again)
		require.Equal(t, max(naiveInt(doc["dp_size"]), 1), info.DPSize, "dp_size of %s", again)
		require.Equal(t, naivePorts(doc), len(ports(t, info)), "ports of %s", again)
	})
}

// checkInfo checks properties of every description.
func checkInfo(t *testing.T, info *worker.Info) {
	t.Helper()
	require.True(t, info.DPSize >= 1 && info.DPSize <= 1024, "ranks: %d", info.DPSize)
	require.GreaterOrEqual(t, info.PageSize, 0)
	if info.Events == nil {
		return
	}
	require.GreaterOrEqual(t, info.Events.BlockSize, 0)
	require.NotEmpty(t, info.Events.Endpoints)
	if info.Events.Replays != nil {
		require.Len(t, info.Events.Replays, len(info.Events.Endpoints))
	}
	ports(t, info)
}

// ports reads the live endpoints' ports, which count up by rank.
func ports(t *testing.T, info *worker.Info) []int {
	t.Helper()
	if info.Events == nil {
		return nil
	}
	var out []int
	for _, e := range append(info.Events.Endpoints, info.Events.Replays...) {
		_, port, err := net.SplitHostPort(strings.TrimPrefix(e, "tcp://"))
		require.NoError(t, err, "endpoint %q", e)
		n, err := strconv.ParseUint(port, 10, 16)
		require.NoError(t, err, "endpoint %q", e)
		out = append(out, int(n))
	}
	out = out[:len(info.Events.Endpoints)]
	for i := range out {
		require.Equal(t, out[0]+i, out[i], "port of rank %d", i)
	}
	return out
}

func naiveInt(v any) int {
	n, err := strconv.Atoi(fmt.Sprint(v))
	if _, ok := v.(json.Number); !ok || err != nil {
		return 0
	}
	return n
}

func naiveString(v any) string {
	s, _ := v.(string)
	return s
}

// naivePorts says how many live endpoints a document has.
func naivePorts(doc map[string]any) int {
	n, base, bound := max(naiveInt(doc["dp_size"]), 1), 0, ""
	if kv, ok := doc["kv_events"].(map[string]any); ok {
		if p := naiveString(kv["publisher"]); p == "" || p == "zmq" {
			base, bound = naiveInt(kv["endpoint_port_base"]), naiveString(kv["endpoint_host"])
		}
		if own := naiveInt(kv["dp_size"]); own > 0 && own <= 1024 {
			n = own
		}
	} else {
		var kv map[string]any
		if json.Unmarshal([]byte(naiveString(doc["kv_events_config"])), &kv) != nil || naiveString(kv["publisher"]) != "zmq" {
			return 0
		}
		at := naiveString(kv["endpoint"])
		if at == "" {
			at = "tcp://*:5557"
		}
		if i := strings.LastIndex(at, ":"); strings.HasPrefix(at, "tcp://") && i >= len("tcp://") {
			base, _ = strconv.Atoi(at[i+1:])
			bound = at[len("tcp://"):i]
		}
	}
	if base < 1 || base > 65535 || base+n-1 > 65535 || strings.ContainsAny(strings.Trim(bound, "[]"), "[]/ ") {
		return 0
	}
	return n
}

func TestKeyed(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var k worker.ExtraKeys
		require.False(t, k.Any())
		require.False(t, k.Take(1))
		a, b := k.Expect([]uint64{1, 2, 3, 3}), k.Expect([]uint64{2, 4})
		require.True(t, k.Any())
		require.Equal(t, []bool{true, false}, []bool{k.Take(1), k.Take(1)}, "one store for each")
		require.Equal(t, []bool{true, true, false}, []bool{k.Take(2), k.Take(2), k.Take(2)}, "of two prompts")
		require.Equal(t, []bool{true, true, false}, []bool{k.Take(3), k.Take(3), k.Take(3)}, "twice in one prompt")
		k.End(a)
		time.Sleep(3 * time.Second)
		require.True(t, k.Any(), "the other has not ended")
		k.End(b)
		require.True(t, k.Any(), "its last events may be under way")
		time.Sleep(3 * time.Second)
		require.False(t, k.Take(4))
		require.False(t, k.Any())
		k.End(nil)

		many := make([]uint64, 1<<18)
		p := k.Expect(many)
		k.End(k.Expect([]uint64{9}))
		require.False(t, k.Take(9), "beyond the bound")
		k.End(p)
		time.Sleep(3 * time.Second)
		require.False(t, k.Take(0))
		require.False(t, k.Any())
	})
}

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
