package mock

import (
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// control answers everything but prompts.
func (w *worker) control(get bool, path, query, body []byte) []byte {
	c := &w.in.cfg
	switch string(path) {
	case "/health", "/health_generate", "/ready", "/readiness", "/liveness", "/abort_request":
		return seal(w.blank(), 200)
	case "/server_info", "/get_server_info":
		return w.serverInfo()
	case "/v1/models":
		return w.says(`{"object":"list","data":[{"id":"`, c.Model, `","object":"model","created":1700000000,"owned_by":"sglang","root":"`,
			c.Model, `","parent":null,"max_model_len":16777216}]}`)
	case "/model_info", "/get_model_info":
		return w.says(`{"model_path":"`, c.Model, `","tokenizer_path":"`, c.Model, `","served_model_name":"`, c.Model,
			`","is_generation":true,"preferred_sampling_params":null,"weight_version":"default","has_image_understanding":false,`+
				`"has_audio_understanding":false,"model_type":"llama","architectures":["LlamaForCausalLM"]}`)
	case "/v1/loads":
		return w.says(`{"timestamp":"2026-01-01T00:00:00Z","version":"0.5.23","dp_rank_count":1,"loads":[`, rankLoad, `],"aggregate":`+
			`{"total_running_reqs":0,"total_waiting_reqs":0,"total_reqs":0,"avg_token_usage":0.0,"avg_throughput":0.0,"avg_utilization":0.0}}`)
	case "/get_load":
		return w.says(`[{"dp_rank":0,"num_reqs":0,"num_waiting_reqs":0,"num_tokens":0}]`)
	case "/version":
		return w.says(`{"version":"0.5.23"}`)
	case "/flush_cache":
		w.cache.clear()
		if w.pub != nil {
			w.pub.cleared()
		}
		return seal(w.blank(), 200)
	case "/v1/tokenize", "/tokenize":
		if c.Tokenize && !get {
			return w.tokenize(body)
		}
	case "/bench/pace":
		return w.pace(query)
	}
	return w.problem(404, "not found")
}

// rankLoad is an idle rank, as GET /v1/loads tells of it.
const rankLoad = `{"dp_rank":0,"num_running_reqs":0,"num_waiting_reqs":0,"num_total_reqs":0,"num_used_tokens":0,"num_total_tokens":0,` +
	`"max_total_num_tokens":1048576,"token_usage":0.0,"gen_throughput":0.0,"cache_hit_rate":0.0,"utilization":0.0,"max_running_requests":4096}`

func (w *worker) says(parts ...string) []byte {
	w.out = append(w.blank(), strings.Join(parts, "")...)
	return seal(w.out, 200)
}

func (w *worker) problem(status int, what string) []byte {
	w.out = append(w.blank(), `{"object":"error","message":`+strconv.Quote(what)+`,"code":`+strconv.Itoa(status)+`}`...)
	return seal(w.out, status)
}

// serverInfo says of SGLang's fields those that routers read.
func (w *worker) serverInfo() []byte {
	c := &w.in.cfg
	tokens := strconv.Itoa(c.CachePages * c.PageSize)
	page := strconv.Itoa(c.PageSize)
	kv := "null"
	if w.pub != nil {
		kv = `{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":` + port(w.pub.zmq.Endpoint()) + `,"topic":"` + topic +
			`","block_size":` + page + `,"dp_size":1,"replay_endpoint_port_base":` + port(w.pub.zmq.ReplayEndpoint()) + `}`
	}
	return w.says(`{"model_path":"`, c.Model, `","tokenizer_path":"`, c.Model, `","served_model_name":"`, c.Model,
		`","tp_size":1,"dcp_size":1,"pp_size":1,"dp_size":1,"page_size":`, page,
		`,"context_length":16777216,"max_running_requests":4096,"max_total_num_tokens":`, tokens,
		`,"load_balance_method":"round_robin","disaggregation_mode":"null","enable_cache_report":true,"kv_events":`, kv,
		`,"internal_states":[{"last_gen_throughput":0.0,"load":0,"effective_max_running_requests_per_dp":4096}],"status":"ready","version":"0.5.23"}`)
}

// port is the port of "tcp://host:port".
func port(endpoint string) string {
	_, p, _ := net.SplitHostPort(strings.TrimPrefix(endpoint, "tcp://"))
	return p
}

// tokenize answers with the ids that a prompt of the same text or messages has.
func (w *worker) tokenize(body []byte) []byte {
	q, ok := parseAsk(completions, body)
	if !ok || q.text == nil {
		return w.problem(400, "neither prompt nor messages")
	}
	w.ids = q.appendTokens(w.ids[:0])
	b := append(w.blank(), `{"tokens":[`...)
	for i, id := range w.ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendInt(b, int(id))
	}
	b = appendInt(append(b, `],"count":`...), len(w.ids))
	b = append(b, `,"max_model_len":16777216}`...)
	w.out = b
	return seal(w.out, 200)
}

// pace sets the times of all workers: /bench/pace?ttft=DURATION&gap=DURATION.
func (w *worker) pace(query []byte) []byte {
	v, err := url.ParseQuery(string(query))
	if err != nil {
		return w.problem(400, err.Error())
	}
	for name, at := range map[string]*time.Duration{"ttft": &w.in.cfg.TTFT, "gap": &w.in.cfg.Gap} {
		if s := v.Get(name); s != "" {
			d, err := time.ParseDuration(s)
			if err != nil || d < 0 {
				return w.problem(400, "not a duration: "+s)
			}
			*at = d
		}
	}
	return w.says("{}")
}
