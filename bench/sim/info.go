package sim

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/zmq/kvevent"
)

// infoAPI serves the endpoints that describe the engine.
type infoAPI struct {
	*process
	ranks  []*rank
	loaded *atomic.Pointer[modelWeights]
	served *requestCounts
	born   time.Time
	seed   int64 // random_seed
}

func (a *infoAPI) models(ctx *fasthttp.RequestCtx) {
	b := a.appendModel([]byte(`{"object":"list","data":[`))
	writeJSON(ctx, fasthttp.StatusOK, append(b, "]}"...))
}

func (a *infoAPI) model(ctx *fasthttp.RequestCtx) {
	writeJSON(ctx, fasthttp.StatusOK, a.appendModel(nil))
}

func (a *infoAPI) appendModel(dst []byte) []byte {
	name := a.loaded.Load().name
	dst = append(dst, `{"id":`...)
	dst = appendJSONString(dst, name)
	dst = append(dst, `,"object":"model","created":`...)
	dst = appendInt(dst, int(time.Now().Unix()))
	dst = append(dst, `,"owned_by":"sglang","root":`...)
	dst = appendJSONString(dst, name)
	dst = append(dst, `,"parent":null,"max_model_len":`...)
	return append(appendInt(dst, a.cfg.ContextLength), '}')
}

// modelInfo serves /model_info with the fields that a router may read.
func (a *infoAPI) modelInfo(ctx *fasthttp.RequestCtx) {
	w := a.loaded.Load()
	b := append([]byte(nil), `{"model_path":`...)
	b = appendJSONString(b, w.path)
	b = append(b, `,"served_model_name":`...)
	b = appendJSONString(b, w.name)
	b = append(b, `,"tokenizer_path":`...)
	b = appendJSONString(b, a.cfg.ModelPath)
	b = append(b, `,"is_generation":true,"preferred_sampling_params":null,"weight_version":`...)
	b = appendJSONString(b, w.version)
	b = append(b, `,"load_format":"dummy","reasoning_parser":null,"tool_call_parser":null,"disaggregation_mode":"`+a.cfg.disaggregation()+`",`+
		`"has_image_understanding":false,"has_audio_understanding":false,"model_type":"simulated",`+
		`"architectures":["SimulatedForCausalLM"]}`...)
	writeJSON(ctx, fasthttp.StatusOK, b)
}

// serverInfo serves /server_info with the fields that routers need, of SGLang's 550. They are
// those of the start: new weights show only in /model_info and /v1/models.
func (a *infoAPI) serverInfo(ctx *fasthttp.RequestCtx) {
	c := a.cfg
	b := append([]byte(nil), `{"model_path":`...)
	b = appendJSONString(b, c.ModelPath)
	b = append(b, `,"tokenizer_path":`...)
	b = appendJSONString(b, c.ModelPath)
	b = append(b, `,"served_model_name":`...)
	b = appendJSONString(b, c.Model)
	b = append(b, `,"api_key":`...)
	b = appendNullable(b, c.APIKey)
	b = append(b, `,"admin_api_key":`...)
	b = appendNullable(b, c.AdminAPIKey)
	b = append(b, `,"context_length":`...)
	b = appendInt(b, c.ContextLength)
	b = append(b, `,"page_size":`...)
	b = appendInt(b, c.PageSize)
	b = append(b, `,"chunked_prefill_size":`...)
	b = appendInt(b, c.Service.ChunkedPrefill)
	b = append(b, `,"max_running_requests":`...)
	b = appendInt(b, c.MaxRunning)
	b = append(b, `,"tp_size":`...)
	b = appendInt(b, c.TPSize)
	b = append(b, `,"dcp_size":1,"pp_size":1,"dp_size":`...)
	b = appendInt(b, c.DPSize)
	b = append(b, `,"schedule_policy":"fcfs","radix_eviction_policy":"lru",`+
		`"enable_cache_report":true,"enable_metrics":true,"enable_hierarchical_cache":false,`...)
	b = strconv.AppendBool(append(b, `"enable_response_store":`...), c.ResponseStore)
	b = append(b, ',')
	b = a.appendDisaggregation(b)
	b = append(b, `,"skip_tokenizer_init":false,"status":"ready","max_total_tokens":`...)
	b = appendInt(b, c.CachePages*c.PageSize)
	b = append(b, `,"max_total_num_tokens":`...)
	b = appendInt(b, c.CachePages*c.PageSize)
	b = append(b, `,"max_req_input_len":`...)
	b = appendInt(b, c.maxInput())
	if c.Events != off {
		b = a.appendEvents(append(b, `,"kv_events":`...))
	} else {
		b = append(b, `,"kv_events":null`...)
	}
	b = a.appendStart(b)
	b = append(b, `,"version":`...)
	b = appendJSONString(b, c.Version)
	writeJSON(ctx, fasthttp.StatusOK, append(b, `,"frontend":"python"}`...))
}

// appendDisaggregation appends the worker's half of a pair.
func (a *infoAPI) appendDisaggregation(dst []byte) []byte {
	c := a.cfg
	dst = strconv.AppendBool(append(dst, `"disable_radix_cache":`...), c.NoCache || c.Mode == ModeDecode && !c.DecodeCache)
	dst = append(append(append(dst, `,"disaggregation_mode":"`...), c.disaggregation()...), `","disaggregation_bootstrap_port":`...)
	dst = append(appendInt(dst, c.BootstrapPort), `,"disaggregation_decode_enable_radix_cache":`...)
	dst = append(strconv.AppendBool(dst, c.DecodeCache), `,"disaggregation_transfer_backend":"nixl","load_balance_method":"`...)
	if c.Mode == ModePrefill {
		return append(dst, `follow_bootstrap_room"`...)
	}
	return append(dst, `round_robin"`...)
}

// appendEvents appends the event endpoints, so that a router needs only the URL.
func (a *infoAPI) appendEvents(dst []byte) []byte {
	host, port, err := splitEndpoint(a.cfg.Events)
	if err != nil {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"publisher":"zmq","endpoint_host":`...)
	dst = appendJSONString(dst, host)
	dst = append(dst, `,"endpoint_port_base":`...)
	dst = appendInt(dst, port)
	dst = append(dst, `,"topic":`...)
	dst = appendJSONString(dst, a.cfg.Topic)
	dst = append(dst, `,"block_size":`...)
	dst = appendInt(dst, a.cfg.PageSize)
	dst = append(dst, `,"dp_size":`...)
	dst = appendInt(dst, a.cfg.DPSize)
	if _, port, err := splitEndpoint(a.cfg.Load); err == nil {
		dst = append(dst, `,"load_endpoint_port_base":`...)
		dst = appendInt(dst, port)
		dst = append(dst, `,"load_topic":"`+loadTopic+`"`...)
	}
	if _, port, err := splitEndpoint(a.cfg.Replay); err == nil {
		dst = append(dst, `,"replay_endpoint_port_base":`...)
		dst = appendInt(dst, port)
	}
	return append(dst, '}')
}

// loads serves /v1/loads; ?dp_rank=N selects one rank, or none if it does not exist.
func (a *infoAPI) loads(ctx *fasthttp.RequestCtx) {
	now := time.Now()
	b := append([]byte(nil), `{"timestamp":"`...)
	b = now.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000-07:00")
	b = append(b, `","version":`...)
	b = appendJSONString(b, a.cfg.Version)
	b = append(b, `,"accelerator":null,"num_accelerators":1,"loads":[`...)
	want, only := ctx.QueryArgs().GetUint("dp_rank")
	full := string(ctx.QueryArgs().Peek("include")) != "core"
	first := true
	for _, k := range a.ranks {
		if only == nil && want != k.id {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = appendLoad(b, now, k.report.snapshot(), full)
	}
	writeJSON(ctx, fasthttp.StatusOK, append(b, "]}"...))
}

func appendLoad(dst []byte, now time.Time, s snapshot, full bool) []byte {
	n := s.load
	dst = append(dst, `{"timestamp":`...)
	dst = appendStamp(dst, now)
	for _, f := range loadFields(n) {
		dst = append(dst, ',', '"')
		dst = append(append(dst, f.name...), '"', ':')
		dst = appendInt(dst, int(f.value))
	}
	dst = append(dst, `,"token_usage":`...)
	dst = appendFloat(dst, ratio(int(n.Tokens), int(n.MaxTotal)))
	dst = append(dst, `,"gen_throughput":`...)
	dst = appendFloat(dst, s.rate)
	dst = append(dst, `,"cache_hit_rate":`...)
	dst = appendFloat(dst, s.hitRate)
	dst = append(dst, `,"utilization":0.0,"total_prefill_uncached_tokens":`...)
	dst = appendInt(dst, int(n.PrefillUncached))
	dst = append(dst, `,"total_prefill_busy_us":`...)
	dst = appendInt(dst, int(n.PrefillBusyMicros))
	dst = append(dst, `,"decode_moments":[0.0,0.0,0.0,0.0,0.0,0.0]`...)
	if full {
		dst = append(dst, `,"memory":{"weight_gb":0.0,"kv_cache_gb":0.0,"graph_gb":0.0,"token_capacity":`...)
		dst = appendInt(dst, int(n.MaxTotal))
		dst = append(append(append(dst, `},"disaggregation":{"mode":"`...), s.mode...), `","prefill_bootstrap_queue_reqs":`...)
		dst = append(appendInt(dst, s.legs[legParked]), `,"prefill_inflight_queue_reqs":`...)
		dst = append(appendInt(dst, s.legs[legSending]), `,"decode_prealloc_queue_reqs":`...)
		dst = append(appendInt(dst, s.legs[legMeeting]+s.legs[legReady]), `,"decode_transfer_queue_reqs":`...)
		dst = append(appendInt(dst, s.legs[legReceiving]), `,"decode_retracted_queue_reqs":0,"kv_transfer_speed_gb_s":0.0,"kv_transfer_latency_ms":0.0},`+
			`"queues":{"waiting":`...)
		dst = append(appendInt(dst, s.queued), `,"grammar":0,"paused":0,"retracted":0,"prealloc_ready":`...)
		dst = append(appendInt(dst, s.legs[legReady]), '}')
	}
	return append(dst, '}')
}

type loadField struct {
	name  string
	value int64
}

// loadFields are the counts of /v1/loads in SGLang's order.
func loadFields(n kvevent.Load) []loadField {
	return []loadField{
		{"dp_rank", int64(n.Rank)},
		{"num_running_reqs", n.Running},
		{"num_waiting_reqs", n.Waiting},
		{"num_waiting_uncached_tokens", n.WaitingUncached},
		{"num_used_tokens", n.Tokens},
		{"num_total_tokens", n.TotalTokens},
		{"num_active_tokens", n.Tokens},
		{"num_prealloc_ready_tokens", 0},
		{"max_total_num_tokens", n.MaxTotal},
		{"max_running_requests", n.MaxRunning},
	}
}

// appendStart appends the fields that differ between two processes with the same arguments.
func (a *infoAPI) appendStart(dst []byte) []byte {
	took := float64(a.born.UnixNano()%int64(time.Minute)) / float64(time.Second)
	dst = append(dst, `,"random_seed":`...)
	dst = strconv.AppendInt(dst, a.seed, 10)
	dst = append(dst, `,"startup_time":{"load_weight":0.5,"kv_cache_allocation":0.25,"scheduler_e2e":1.5,"cuda_graph":{},"tokenizer_e2e":`...)
	return append(strconv.AppendFloat(dst, took, 'f', 9, 64), '}')
}
