package worker

import (
	"errors"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fastjson"
)

// errForeignServer accompanies errNotReady for a server without any of the probed routes.
var errForeignServer = errors.New("worker: GET /ready and GET /v1/models answered 404")

// routerEngine is Info.Engine of another router of this project.
const routerEngine = "a Warmpath router"

// unknownServer begins Info.Engine of a server that nothing identifies.
const unknownServer = "an unknown server"

// RouterRefusal is the code of the error with which such a router answers GET /server_info.
const RouterRefusal = "not_for_clients"

// isRouter reports whether an answer to GET /server_info comes from a router: a refusal, as of this
// release, or a worker's answer with a router's header, as of earlier releases.
func isRouter(body []byte, h *fasthttp.ResponseHeader) bool {
	return len(h.Peek(routedHeader)) > 0 || fastjson.GetString(body, "error", "code") == RouterRefusal
}

// foreignEvery is the time between two identifications of a server without a model.
const foreignEvery = time.Minute

// probeAnswer is an answer to a probe.
type probeAnswer struct {
	status int
	body   []byte
	server string // header Server
	routed bool   // a Warmpath router passed it on
}

// otherEngines are identified by a route that no other one has: field exists in its answer, and
// version, unless it is "", holds the release.
var otherEngines = []struct{ name, path, field, version string }{
	{"llama.cpp", "/props", "default_generation_settings", "build_info"},
	{"TGI", "/info", "model_id", "version"},
	{"Ollama", "/api/version", "version", "version"},
	{"vLLM", "/version", "version", "version"},
}

// ownedBy maps the owned_by of /v1/models to engines that share routes.
var ownedBy = map[string]string{
	"vllm": "vLLM", "tensorrt_llm": "TensorRT-LLM", "llamacpp": "llama.cpp", "library": "Ollama",
}

// identifyEngine names a server without /server_info: "vLLM 0.32.0". It asks at most one short
// question for each engine.
func (p *prober) identifyEngine(described probeAnswer, deadline time.Time) string {
	switch {
	case described.routed:
		return routerEngine
	case refusedKey(described.status):
		return keyRefusal(described.status, p.key())
	}
	owner := ""
	if a, err := p.fetch("/v1/models", time.Until(deadline)); err == nil {
		if a.routed {
			return routerEngine
		}
		owner = ownedBy[strings.ToLower(fastjson.GetString(a.body, "data", "0", "owned_by"))]
	}
	for _, k := range otherEngines {
		a, err := p.fetch(k.path, time.Until(deadline))
		if err != nil || a.status != fasthttp.StatusOK {
			continue
		}
		v, err := fastjson.ParseBytes(a.body)
		if err != nil || v.Type() != fastjson.TypeObject || !v.Exists(k.field) {
			continue
		}
		name := k.name
		if owner != "" {
			name = owner
		}
		return strings.TrimSpace(name + " " + shortened(string(v.GetStringBytes(k.version))))
	}
	switch {
	case owner != "":
		return owner
	case described.server != "":
		return unknownServer + " (" + shortened(described.server) + ")"
	}
	return unknownServer
}

// shortened makes a server's own text fit for a log.
func shortened(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text)
	return text[:min(len(text), 64)]
}

// sglang reports whether a body is that of SGLang's /server_info, of any release.
func sglang(body []byte) bool {
	v, err := fastjson.ParseBytes(body)
	if err != nil || v.Type() != fastjson.TypeObject {
		return false
	}
	for _, field := range []string{"model_path", "served_model_name", "page_size", "tp_size", "dp_size", "disaggregation_mode", "kv_events"} {
		if v.Exists(field) {
			return true
		}
	}
	return false
}
