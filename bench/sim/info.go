package sim

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// infoAPI serves the endpoints that describe the engine.
type infoAPI struct {
	*process
	ranks  []*rank
	loaded *atomic.Pointer[modelWeights]
	born   time.Time
	seed   int64 // random_seed
}

func (a *infoAPI) models(ctx *fasthttp.RequestCtx) {
	writeJSON(ctx, fasthttp.StatusOK, fmt.Appendf(nil, `{"object":"list","data":[%s]}`, a.describeModel()))
}

func (a *infoAPI) model(ctx *fasthttp.RequestCtx) {
	writeJSON(ctx, fasthttp.StatusOK, a.describeModel())
}

func (a *infoAPI) describeModel() []byte {
	name := quoted(a.loaded.Load().name)
	return fmt.Appendf(nil, `{"id":%s,"object":"model","created":%d,"owned_by":"sglang","root":%s,"parent":null,"max_model_len":%d}`,
		name, time.Now().Unix(), name, a.cfg.ContextLength)
}

// modelInfo serves /model_info with the fields that a router may read.
func (a *infoAPI) modelInfo(ctx *fasthttp.RequestCtx) {
	w := a.loaded.Load()
	writeJSON(ctx, fasthttp.StatusOK, fmt.Appendf(nil,
		`{"model_path":%s,"served_model_name":%s,"tokenizer_path":%s,"is_generation":true,"preferred_sampling_params":null,"weight_version":%s,`+
			`"load_format":"dummy","reasoning_parser":null,"tool_call_parser":null,"disaggregation_mode":"%s",`+
			`"has_image_understanding":false,"has_audio_understanding":false,"model_type":"simulated","architectures":["SimulatedForCausalLM"]}`,
		quoted(w.path), quoted(w.name), quoted(a.cfg.ModelPath), quoted(w.version), a.cfg.disaggregation()))
}

// serverInfo serves /server_info with the fields that routers need, of SGLang's 550. They are
// those of the start: new weights show only in /model_info and /v1/models. The last ones differ
// between two processes with the same arguments.
func (a *infoAPI) serverInfo(ctx *fasthttp.RequestCtx) {
	c := a.cfg
	balance, tokens := "round_robin", c.CachePages*c.PageSize
	if c.Mode == ModePrefill {
		balance = "follow_bootstrap_room"
	}
	took := float64(a.born.UnixNano()%int64(time.Minute)) / float64(time.Second)
	writeJSON(ctx, fasthttp.StatusOK, fmt.Appendf(nil,
		`{"model_path":%s,"tokenizer_path":%s,"served_model_name":%s,"api_key":%s,"admin_api_key":%s,"context_length":%d,"page_size":%d,`+
			`"chunked_prefill_size":%d,"max_running_requests":%d,"tp_size":%d,"dcp_size":1,"pp_size":1,"dp_size":%d,`+
			`"schedule_policy":"fcfs","radix_eviction_policy":"lru","enable_cache_report":true,"enable_metrics":true,`+
			`"enable_hierarchical_cache":false,"enable_response_store":%t,"disable_radix_cache":%t,"disaggregation_mode":"%s",`+
			`"disaggregation_bootstrap_port":%d,"disaggregation_decode_enable_radix_cache":%t,"disaggregation_transfer_backend":"nixl",`+
			`"load_balance_method":"%s","skip_tokenizer_init":false,"status":"ready","max_total_tokens":%d,"max_total_num_tokens":%d,`+
			`"max_req_input_len":%d,"kv_events":%s,"random_seed":%d,"startup_time":{"load_weight":0.5,"kv_cache_allocation":0.25,`+
			`"scheduler_e2e":1.5,"cuda_graph":{},"tokenizer_e2e":%.9f},"version":%s,"frontend":"python"}`,
		quoted(c.ModelPath), quoted(c.ModelPath), quoted(c.Model), nullable(c.APIKey), nullable(c.AdminAPIKey), c.ContextLength, c.PageSize,
		c.Service.ChunkedPrefill, c.MaxRunning, c.TPSize, c.DPSize, c.ResponseStore, c.NoCache || c.cacheless(), c.disaggregation(),
		c.BootstrapPort, c.DecodeCache, balance, tokens, tokens, c.maxInput(), a.describeEvents(), a.seed, took, quoted(c.Version)))
}

// describeEvents names the event endpoints, so that a router needs only the URL.
func (a *infoAPI) describeEvents() []byte {
	host, port, err := splitEndpoint(a.cfg.Events)
	if a.cfg.Events == off || err != nil {
		return []byte("null")
	}
	b := fmt.Appendf(nil, `{"publisher":"zmq","endpoint_host":%s,"endpoint_port_base":%d,"topic":%s,"block_size":%d,"dp_size":%d`,
		quoted(host), port, quoted(a.cfg.Topic), a.cfg.PageSize, a.cfg.DPSize)
	if _, port, err := splitEndpoint(a.cfg.Load); err == nil {
		b = fmt.Appendf(b, `,"load_endpoint_port_base":%d,"load_topic":"%s"`, port, loadTopic)
	}
	if _, port, err := splitEndpoint(a.cfg.Replay); err == nil {
		b = fmt.Appendf(b, `,"replay_endpoint_port_base":%d`, port)
	}
	return append(b, '}')
}

// loads serves /v1/loads; ?dp_rank=N selects one rank, or none if it does not exist.
func (a *infoAPI) loads(ctx *fasthttp.RequestCtx) {
	now := time.Now()
	want, only := ctx.QueryArgs().GetUint("dp_rank")
	full := string(ctx.QueryArgs().Peek("include")) != "core"
	var all [][]byte
	for _, k := range a.ranks {
		if only != nil || want == k.id {
			all = append(all, appendLoad(nil, now, k.report.snapshot(), full))
		}
	}
	writeJSON(ctx, fasthttp.StatusOK, fmt.Appendf(nil, `{"timestamp":"%s","version":%s,"accelerator":null,"num_accelerators":1,"loads":[%s]}`,
		now.UTC().Format("2006-01-02T15:04:05.000000-07:00"), quoted(a.cfg.Version), bytes.Join(all, []byte(","))))
}

func appendLoad(dst []byte, now time.Time, s snapshot, full bool) []byte {
	n := s.load
	dst = fmt.Appendf(dst, `{"timestamp":%.6f,"dp_rank":%d,"num_running_reqs":%d,"num_waiting_reqs":%d,"num_waiting_uncached_tokens":%d,`+
		`"num_used_tokens":%d,"num_total_tokens":%d,"num_active_tokens":%d,"num_prealloc_ready_tokens":0,"max_total_num_tokens":%d,"max_running_requests":%d,`,
		unixSeconds(now), n.Rank, n.Running, n.Waiting, n.WaitingUncached, n.Tokens, n.TotalTokens, n.Tokens, n.MaxTotal, n.MaxRunning)
	dst = appendFloat(append(dst, `"token_usage":`...), ratio(int(n.Tokens), int(n.MaxTotal)))
	dst = appendFloat(append(dst, `,"gen_throughput":`...), s.rate)
	dst = appendFloat(append(dst, `,"cache_hit_rate":`...), s.hitRate)
	dst = fmt.Appendf(dst, `,"utilization":0.0,"total_prefill_uncached_tokens":%d,"total_prefill_busy_us":%d,"decode_moments":[0.0,0.0,0.0,0.0,0.0,0.0]`,
		n.PrefillUncached, n.PrefillBusyMicros)
	if full {
		dst = fmt.Appendf(dst, `,"memory":{"weight_gb":0.0,"kv_cache_gb":0.0,"graph_gb":0.0,"token_capacity":%d},"disaggregation":{"mode":"%s",`+
			`"prefill_bootstrap_queue_reqs":%d,"prefill_inflight_queue_reqs":%d,"decode_prealloc_queue_reqs":%d,"decode_transfer_queue_reqs":%d,`+
			`"decode_retracted_queue_reqs":0,"kv_transfer_speed_gb_s":0.0,"kv_transfer_latency_ms":0.0},`+
			`"queues":{"waiting":%d,"grammar":0,"paused":0,"retracted":0,"prealloc_ready":%d}`,
			n.MaxTotal, s.mode, s.legs[legParked], s.legs[legSending], s.legs[legMeeting]+s.legs[legReady], s.legs[legReceiving], s.queued, s.legs[legReady])
	}
	return append(dst, '}')
}
