package worker

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unique"

	"github.com/valyala/fastjson"
)

// Info is a worker's description from GET /server_info and GET /v1/models (SGLang 0.5.23; older
// releases have a part of it). Immutable once published.
type Info struct {
	Engine    string // what the worker is, where it is no SGLang: "vLLM 0.32.0"
	Refused   int    // status by which it refused /server_info for want of its API key; or 0
	Version   string // of SGLang
	ModelPath string
	// Served names, of which the first is the one to route by; LoRA adapters come last.
	Models   []string
	Adapters int // of Models, how many are adapters
	// Process identifies the process behind the URL; 0 when the description has nothing to
	// identify it by.
	Process  uint64
	PageSize int // tokens a KV page; 0 when unknown
	DPSize   int // at least 1
	TPSize   int // GPUs that compute one request together, tp_size; 0 when unknown

	// Tokens of a prompt and its answer together, max_model_len of /v1/models; 0 when unknown.
	MaxLen int
	// Vocabulary is the number of token ids of the model; 0 when unknown. A larger id ends an
	// engine.
	Vocabulary int
	// Chunk is the tokens of a full prefill batch, chunked_prefill_size; 0 when unknown.
	Chunk     int
	MaxTokens int // tokens in the KV pool of one rank; 0 when unknown
	// TokenBytes is the KV size of a token in bytes, over all GPUs of the worker; 0 when
	// unknown.
	TokenBytes float64

	Labels bool // tokenizer_metrics_allowed_custom_labels names some
	// CacheReport is enable_cache_report: answers of OpenAI's and Anthropic's routes have the
	// number of cached prompt tokens.
	CacheReport bool
	// ResponseStore is enable_response_store: the worker keeps the responses of /v1/responses in
	// its memory, for previous_response_id.
	ResponseStore bool

	Mode string // disaggregation_mode: "", "null", "prefill", "decode"; see Role
	// BootstrapPort is disaggregation_bootstrap_port; 0 when unknown. It means nothing of a
	// decode worker, which has one too.
	BootstrapPort int
	// DecodeCache is disaggregation_decode_enable_radix_cache: a decode worker caches prefixes
	// and receives only missing pages. Without it a transfer is always of the whole prompt.
	DecodeCache bool

	// NoCache is disable_radix_cache: no prompt finds anything of an earlier one.
	NoCache bool
	// Storage is hicache_storage_backend, enable_lmcache or enable_flexkv: prompts find pages in a
	// store that no event of this process told of.
	Storage   bool
	Events    *Events // nil when the worker publishes no KV events
	Loads     *Loads  // nil when the worker publishes no load
	Tokenizer Tokenizer
	Placement Placement
}

// Tokenizer holds a worker's arguments for making token ids, "" where they are not set.
type Tokenizer struct {
	Path            string // tokenizer_path
	Revision        string // revision, of a model of Hugging Face's hub
	Mode            string // tokenizer_mode
	Skip            bool   // skip_tokenizer_init: it takes token ids only
	ChatTemplate    string // chat_template: a file, or the name of a built-in one
	TemplateName    string // hf_chat_template_name
	DefaultKwargs   string // default_chat_template_kwargs, raw JSON
	ToolCallParser  string
	ReasoningParser string
	TrustRequests   bool // trust_request_chat_template: bodies may bring a chat template
}

// parseTokenizer reads them from server_info.
func parseTokenizer(v *fastjson.Value) Tokenizer {
	text := func(name string) string { return string(v.GetStringBytes(name)) }
	t := Tokenizer{
		Path: text("tokenizer_path"), Revision: text("revision"), Mode: text("tokenizer_mode"), Skip: v.GetBool("skip_tokenizer_init"),
		ChatTemplate: text("chat_template"), TemplateName: text("hf_chat_template_name"),
		DefaultKwargs:  text("default_chat_template_kwargs"), // as it was on the command line
		ToolCallParser: text("tool_call_parser"), ReasoningParser: text("reasoning_parser"),
		TrustRequests: v.GetBool("trust_request_chat_template"),
	}
	if kwargs := v.Get("default_chat_template_kwargs"); kwargs != nil && kwargs.Type() == fastjson.TypeObject {
		t.DefaultKwargs = string(kwargs.MarshalTo(nil))
	}
	return t
}

// Placement is where on its machine a worker runs, by its own arguments; zero fields are unknown.
type Placement struct {
	Port    int    // that it serves on, before any mapping of ports
	Device  string // cuda, cpu, …
	PPSize  int    // pipeline stages
	Nodes   int    // machines that it spans; this one has an equal part of its GPUs
	BaseGPU int    // its first GPU among the visible ones
	GPUStep int    // from one GPU to the next
	// Data-parallel ranks share the tensor-parallel GPUs instead of having their own.
	DPAttention bool
}

func parsePlacement(v *fastjson.Value) Placement {
	return Placement{
		Port: within(v.GetInt("port"), maxPort), Device: string(v.GetStringBytes("device")),
		PPSize: within(v.GetInt("pp_size"), maxDP), Nodes: within(v.GetInt("nnodes"), maxDP),
		BaseGPU: within(v.GetInt("base_gpu_id"), maxDP), GPUStep: within(v.GetInt("gpu_id_step"), maxDP),
		DPAttention: v.GetBool("enable_dp_attention"),
	}
}

// Loads holds the endpoints at which a worker publishes its load.
type Loads struct {
	Endpoints []string // one a DP rank, "tcp://host:port"
	Topic     string
}

// Events holds the endpoints of a worker's KV events.
type Events struct {
	Endpoints []string // one a DP rank, "tcp://host:port"
	Replays   []string // one a DP rank, or nil when there is no replay
	Topic     string
	BlockSize int // tokens a block: page size × decode context parallel size
}

var (
	errNotObject = errors.New("worker: server_info is not a JSON object")
	errTooMany   = errors.New("worker: dp_size is out of range")
)

const (
	// maxDP bounds the cost of a bad dp_size: each rank has an event stream.
	maxDP   = 1024
	maxPort = 65535
	maxPage = 1 << 20 // tokens: longer than any context
	maxText = 4096    // bytes: the longest path
)

// parseInfo reads the body of GET /server_info. host stands in for an endpoint
// host of "*", which is where the worker binds, not where it can be reached.
func parseInfo(body []byte, host string) (*Info, error) {
	v, err := fastjson.ParseBytes(body)
	if err != nil {
		return nil, fmt.Errorf("cannot read server_info: %w", err)
	}
	if v.Type() != fastjson.TypeObject {
		return nil, fmt.Errorf("cannot read server_info: %w", errNotObject)
	}
	text := func(name string) string { // "" of one that no record or label may have
		raw := v.GetStringBytes(name)
		if len(raw) > maxText || !utf8.Valid(raw) {
			return ""
		}
		return string(raw)
	}
	info := &Info{
		Version: text("version"), ModelPath: text("model_path"), Process: processOf(v),
		PageSize:   within(v.GetInt("page_size"), maxPage),
		DPSize:     max(v.GetInt("dp_size"), 1),
		TPSize:     within(v.GetInt("tp_size"), maxDP),
		Chunk:      within(v.GetInt("chunked_prefill_size"), maxPage),
		MaxTokens:  max(v.GetInt("max_total_num_tokens"), v.GetInt("internal_states", "0", "memory_usage", "token_capacity"), 0),
		TokenBytes: parseTokenBytes(v),

		Labels:        len(v.GetArray("tokenizer_metrics_allowed_custom_labels")) > 0,
		CacheReport:   v.GetBool("enable_cache_report"),
		ResponseStore: v.GetBool("enable_response_store"),

		Mode:          text("disaggregation_mode"),
		BootstrapPort: within(v.GetInt("disaggregation_bootstrap_port"), maxPort),
		DecodeCache:   v.GetBool("disaggregation_decode_enable_radix_cache"),

		NoCache:   v.GetBool("disable_radix_cache"),
		Storage:   text("hicache_storage_backend") != "" || v.GetBool("enable_lmcache") || v.GetBool("enable_flexkv"),
		Tokenizer: parseTokenizer(v), Placement: parsePlacement(v),
	}
	if info.DPSize > maxDP {
		return nil, fmt.Errorf("cannot read server_info, dp_size %d: %w", info.DPSize, errTooMany)
	}
	if name := text("served_model_name"); name != "" && len(name) <= maxNameSize {
		info.addNames(modelNames{bases: []string{unique.Make(name).Value()}})
	}
	if kv := v.Get("kv_events"); kv != nil && kv.Type() == fastjson.TypeObject {
		info.parseStreams(kv, host)
	} else {
		info.parseEventsConfig(v, host)
	}
	return info, nil
}

// within returns n where it can be a size, else 0 for unknown.
func within(n, limit int) int {
	if n < 0 || n > limit {
		return 0
	}
	return n
}

// parseStreams reads the kv_events object, which newer releases have. It has the endpoints of the
// load too (SGLang from 0.5.22 on, with --load-publish-endpoint).
func (i *Info) parseStreams(kv *fastjson.Value, host string) {
	dpSize := cmp.Or(within(kv.GetInt("dp_size"), maxDP), i.DPSize)
	host = reachable(string(kv.GetStringBytes("endpoint_host")), host)
	at := func(base string) []string { return endpoints(host, kv.GetInt(base), dpSize) }
	if p := string(kv.GetStringBytes("publisher")); p == "" || p == "zmq" {
		i.Events = (&Events{
			Topic: string(kv.GetStringBytes("topic")), BlockSize: within(kv.GetInt("block_size"), maxPage),
			Endpoints: at("endpoint_port_base"), Replays: at("replay_endpoint_port_base"),
		}).orNone()
	}
	if all := at("load_endpoint_port_base"); all != nil {
		i.Loads = &Loads{Endpoints: all, Topic: string(kv.GetStringBytes("load_topic"))}
	}
}

// parseEventsConfig reads kv_events_config, the command-line option that older
// releases pass on as it was given: a string of JSON.
func (i *Info) parseEventsConfig(v *fastjson.Value, host string) {
	kv, err := fastjson.ParseBytes(v.GetStringBytes("kv_events_config"))
	if err != nil || string(kv.GetStringBytes("publisher")) != "zmq" {
		return
	}
	live := cmp.Or(string(kv.GetStringBytes("endpoint")), "tcp://*:5557") // SGLang's default
	i.Events = (&Events{
		Topic:     string(kv.GetStringBytes("topic")),
		BlockSize: within(i.PageSize*max(within(v.GetInt("dcp_size"), maxDP), 1), maxPage),
		Endpoints: splitEndpoint(live, host, i.DPSize),
		Replays:   splitEndpoint(string(kv.GetStringBytes("replay_endpoint")), host, i.DPSize),
	}).orNone()
}

// orNone is nil for events without an endpoint.
func (e *Events) orNone() *Events {
	if e.Endpoints == nil {
		return nil
	}
	return e
}

// splitEndpoint reads rank 0's "tcp://host:port"; nil without a port.
func splitEndpoint(s, host string, dpSize int) []string {
	addr, ok := strings.CutPrefix(s, "tcp://")
	colon := strings.LastIndexByte(addr, ':')
	if !ok || colon < 0 {
		return nil
	}
	base, err := strconv.Atoi(addr[colon+1:])
	if err != nil {
		return nil
	}
	return endpoints(reachable(addr[:colon], host), base, dpSize)
}

// reachable returns the host to connect to for the one that the worker binds.
func reachable(bound, host string) string {
	switch bound = strings.Trim(bound, "[]"); bound {
	case "", "*", "0.0.0.0", "::":
		return host
	default:
		return bound
	}
}

// endpoints lists one endpoint a rank, at port base + rank; nil when there are
// none.
func endpoints(host string, base, dpSize int) []string {
	if base < 1 || base > maxPort+1-dpSize || strings.ContainsAny(host, "[]/ ") {
		return nil
	}
	all := make([]string, dpSize)
	for rank := range all {
		all[rank] = "tcp://" + net.JoinHostPort(host, strconv.Itoa(base+rank))
	}
	return all
}

// Named returns model in the memory of the worker's own name for it, if it has one: that
// compares faster with other workers'.
func (i *Info) Named(model string) string {
	if at := slices.Index(i.Models, model); at >= 0 {
		return i.Models[at]
	}
	return model
}

// Model returns the name that requests to this worker are routed by: the
// first served one, else the path of the weights.
func (i *Info) Model() string {
	if len(i.Models) > 0 {
		return i.Models[0]
	}
	return i.ModelPath
}

// Consequence describes the effect on routing of a worker that is not SGLang; "" for SGLang.
func (i *Info) Consequence() string {
	switch i.Engine {
	case "":
		return ""
	case routerEngine:
		return "its workers are its own choice, so that no cache can be known: name them here instead"
	}
	return "no KV events, no load and no ranks are known of it; its cache is estimated by the requests that it got"
}

// sameProcess reports whether two descriptions are of one process, as far as they tell: identities
// may agree by chance, as those of releases without a start time do, and caches of another shape
// are other caches. Without anything to identify it, a process is the same while it has its model.
func (i *Info) sameProcess(old *Info) bool {
	switch {
	case i.Process != old.Process, !i.sameShape(old):
		return false
	case i.Process != 0:
		return true
	}
	return i.ModelPath == old.ModelPath && i.Version == old.Version &&
		(len(old.Models) == 0 || slices.Contains(i.Models, old.Models[0]))
}

// sameShape reports whether two descriptions agree in the properties that are fixed for the life of
// a process: role, ranks, GPUs, pages, pool, cache, tokenizer and publishers. Sizes that one of
// them leaves out agree.
func (i *Info) sameShape(old *Info) bool {
	agree := func(a, b int) bool { return a == b || a == 0 || b == 0 }
	return (i.Mode == "" || i.Role() == old.Role()) && i.NoCache == old.NoCache && i.DecodeCache == old.DecodeCache &&
		i.CacheReport == old.CacheReport && i.ResponseStore == old.ResponseStore && i.Tokenizer == old.Tokenizer &&
		i.DPSize == old.DPSize && agree(i.TPSize, old.TPSize) && agree(i.PageSize, old.PageSize) && agree(i.MaxTokens, old.MaxTokens) &&
		reflect.DeepEqual(i.Events, old.Events) && reflect.DeepEqual(i.Loads, old.Loads)
}

// Role returns the worker's role by its own word: disaggregation_mode. One leg
// of a pair answers a plain request with 400.
func (i *Info) Role() Role {
	switch i.Mode {
	case "prefill":
		return RolePrefill
	case "decode":
		return RoleDecode
	default: // "null", and releases that know no pairs
		return RoleRegular
	}
}

// processOf returns a number for the process that wrote a server_info, 0 where nothing in it
// identifies a process. SGLang 0.5.23 has the durations of its start in nanoseconds and a random
// seed; both survive a change of weights. Two processes of an older release with a fixed seed
// are equal if their arguments are.
func processOf(v *fastjson.Value) uint64 {
	h, known := fnv.New64a(), false
	for _, name := range []string{"startup_time", "random_seed", "launch_command"} {
		if f := v.Get(name); f != nil && f.Type() != fastjson.TypeNull {
			known = true
			_, _ = h.Write(f.MarshalTo([]byte(name)))
		}
	}
	if !known {
		return 0
	}
	// No update changes them.
	for _, name := range []string{"served_model_name", "tokenizer_path", "version"} {
		_, _ = h.Write(strconv.AppendQuote([]byte(name), string(v.GetStringBytes(name))))
	}
	for _, name := range []string{"port", "dp_size", "tp_size"} {
		_, _ = h.Write(strconv.AppendInt([]byte(name), v.GetInt64(name), 10))
	}
	return max(h.Sum64(), 1)
}

// parseTokenBytes returns the KV size of a token over all GPUs that compute it. server_info has
// the size of the pool on one GPU in GiB, rounded to 1 MiB, and its tokens; 0 where they are
// missing. It is too large where each GPU keeps all of it (MLA).
func parseTokenBytes(v *fastjson.Value) float64 {
	m := v.Get("internal_states", "0", "memory_usage")
	if m == nil {
		m = v.Get("memory_usage")
	}
	if m == nil {
		return 0
	}
	gib, tokens, tp := m.GetFloat64("kvcache"), m.GetFloat64("token_capacity"), float64(max(v.GetInt("tp_size"), 1))
	bytes := gib * (1 << 30) / tokens * tp
	// Below 50 MiB rounding distorts the result.
	if !(gib > 0.05 && tokens > 0 && tp <= maxDP && bytes >= 1 && bytes <= 1<<26) {
		return 0
	}
	return bytes
}
