package worker

import (
	"cmp"
	"fmt"
	"time"

	"github.com/valyala/fastjson"
)

// Loads holds the endpoints at which a worker publishes its load.
type Loads struct {
	Endpoints []string // one a DP rank, "tcp://host:port"
	Topic     string
}

// parseLoads reads the load endpoint of the kv_events object (SGLang from
// 0.5.22 on, with --load-publish-endpoint).
func parseLoads(kv *fastjson.Value, host string, info *Info) *Loads {
	dpSize := cmp.Or(within(kv.GetInt("dp_size"), maxDP), info.DPSize)
	host = reachable(string(kv.GetStringBytes("endpoint_host")), host)
	all := endpoints(host, kv.GetInt("load_endpoint_port_base"), dpSize)
	if all == nil {
		return nil
	}
	return &Loads{Endpoints: all, Topic: string(kv.GetStringBytes("load_topic"))}
}

// rankReport is a report of one rank.
type rankReport struct {
	rank   int
	report Report
}

// parseLoadReports reads the body of GET /v1/loads (SGLang 0.5.23).
func parseLoadReports(body []byte) ([]rankReport, error) {
	v, err := fastjson.ParseBytes(body)
	if err != nil {
		return nil, fmt.Errorf("cannot read /v1/loads: %w", err)
	}
	var all []rankReport
	for _, l := range v.GetArray("loads") {
		all = append(all, rankReport{rank: l.GetInt("dp_rank"), report: Report{
			Running: l.GetInt64("num_running_reqs"), Waiting: l.GetInt64("num_waiting_reqs"),
			Queued: l.GetInt64("num_waiting_uncached_tokens"),
			Used:   l.GetInt64("num_used_tokens"), Wanted: l.GetInt64("num_total_tokens"), Pool: l.GetInt64("max_total_num_tokens"), Most: l.GetInt64("max_running_requests"),
			Prefilled: l.GetInt64("total_prefill_uncached_tokens"), Busy: time.Duration(l.GetInt64("total_prefill_busy_us")) * time.Microsecond,
			Polled: true,
		}})
	}
	return all, nil
}
