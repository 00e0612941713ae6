package worker

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/valyala/fastjson"
)

// Info is what a worker says of itself in GET /server_info and GET /v1/models
// (SGLang 0.5.23; older releases say part of it). Immutable once published.
type Info struct {
	Version   string
	ModelPath string
	Models    []string // served names, LoRA adapters included
	PageSize  int      // tokens a KV page; 0 when unknown
	DPSize    int      // at least 1
	Mode      string   // disaggregation_mode: "", "null", "prefill", "decode"
	Events    *Events  // nil when the worker publishes no KV events
}

// Events says where a worker publishes its KV events.
type Events struct {
	Endpoints []string // one a DP rank, "tcp://host:port"
	Replays   []string // one a DP rank, or nil when there is no replay
	Topic     string
	BlockSize int // tokens a block: page size × decode context parallel size
}

var errNotObject = errors.New("worker: server_info is not a JSON object")

// parseInfo reads the body of GET /server_info. host stands in for an endpoint
// host of "*", which is where the worker binds, not where it can be reached.
func parseInfo(body []byte, host string) (*Info, error) {
	v, err := fastjson.ParseBytes(body)
	if err != nil {
		return nil, fmt.Errorf("cannot read server_info: %w", err)
	}
	if v.Type() != fastjson.TypeObject {
		return nil, errNotObject
	}
	info := &Info{
		Version:   string(v.GetStringBytes("version")),
		ModelPath: string(v.GetStringBytes("model_path")),
		PageSize:  v.GetInt("page_size"),
		DPSize:    max(v.GetInt("dp_size"), 1),
		Mode:      string(v.GetStringBytes("disaggregation_mode")),
	}
	if name := string(v.GetStringBytes("served_model_name")); name != "" {
		info.Models = []string{name}
	}
	if kv := v.Get("kv_events"); kv != nil && kv.Type() == fastjson.TypeObject {
		info.Events = parseEvents(kv, host, info.DPSize)
	}
	return info, nil
}

// parseEvents reads the kv_events object; ports are base + rank.
func parseEvents(kv *fastjson.Value, host string, dpSize int) *Events {
	base := kv.GetInt("endpoint_port_base")
	if base == 0 {
		return nil
	}
	if h := string(kv.GetStringBytes("endpoint_host")); h != "" && h != "*" && h != "0.0.0.0" && h != "::" {
		host = h
	}
	if n := kv.GetInt("dp_size"); n > 0 {
		dpSize = n
	}
	ev := &Events{Topic: string(kv.GetStringBytes("topic")), BlockSize: kv.GetInt("block_size")}
	replay := kv.GetInt("replay_endpoint_port_base")
	for rank := range dpSize {
		ev.Endpoints = append(ev.Endpoints, endpoint(host, base+rank))
		if replay != 0 {
			ev.Replays = append(ev.Replays, endpoint(host, replay+rank))
		}
	}
	return ev
}

func endpoint(host string, port int) string {
	return "tcp://" + net.JoinHostPort(host, strconv.Itoa(port))
}

// parseModels reads the ids of GET /v1/models.
func parseModels(body []byte) ([]string, error) {
	v, err := fastjson.ParseBytes(body)
	if err != nil {
		return nil, fmt.Errorf("cannot read /v1/models: %w", err)
	}
	var ids []string
	for _, m := range v.GetArray("data") {
		if id := string(m.GetStringBytes("id")); id != "" {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Model returns the name that requests to this worker are routed by: the
// first served one, else the path of the weights.
func (i *Info) Model() string {
	if len(i.Models) > 0 {
		return i.Models[0]
	}
	return i.ModelPath
}
