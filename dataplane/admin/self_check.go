package admin

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/selfcheck"
)

var (
	descCheckPolicy = desc("self_check_policy",
		"1, with the policy in force and its state: configured, trial (a change that has not proved itself) or changed.", "policy", "state")
	descCheckRuns = desc("self_check_runs_total",
		"Simulations of the last requests, by result: matched (the simulation had the observed times) or mismatched.", "result")
	descCheckChanges = desc("self_check_changes_total",
		"Changes of the policy, by kind: changed, taken_back (a change that was worse than its forecast), and advised (not carried out).", "kind")
	descCheckTTFT = desc("self_check_ttft_seconds",
		"Mean TTFT of the last check: observed, and simulated by policy.", "policy")
	descCheckCPU     = desc("self_check_cpu_seconds_total", "Processor time of the simulations.")
	descCheckHeld    = desc("self_check_requests", "Requests remembered for the next check.")
	descCheckBytes   = desc("self_check_bytes", "Memory for them.")
	descCheckDropped = desc("self_check_dropped_total",
		"Requests that came faster than they could be remembered.")
)

// selfCheckCollector reads the checks of the choice at each scrape.
type selfCheckCollector struct{ checks *selfcheck.Checker }

var _ prometheus.Collector = selfCheckCollector{}

// Describe implements prometheus.Collector.
func (selfCheckCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descCheckPolicy, descCheckRuns, descCheckChanges, descCheckTTFT, descCheckCPU, descCheckHeld, descCheckBytes, descCheckDropped,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c selfCheckCollector) Collect(ch chan<- prometheus.Metric) {
	st, out := c.checks.Status(), sink{ch}
	state := "configured"
	switch {
	case st.Trial:
		state = "trial"
	case st.Policy != st.Configured:
		state = "changed"
	}
	out.gauge(descCheckPolicy, 1, st.Policy, state)
	out.counter(descCheckRuns, float64(st.Matched), "matched")
	out.counter(descCheckRuns, float64(st.Checks-st.Matched), "mismatched")
	out.counter(descCheckChanges, float64(st.Changed-st.TakenBack), "changed")
	out.counter(descCheckChanges, float64(st.TakenBack), "taken_back")
	out.counter(descCheckChanges, float64(st.Advised), "advised")
	if st.Last != nil && st.Last.Requests > 0 {
		out.gauge(descCheckTTFT, st.Last.TTFT, "observed")
		for _, f := range st.Last.Forecasts {
			out.gauge(descCheckTTFT, f.TTFT, f.Policy)
		}
	}
	out.counter(descCheckCPU, st.CPUSeconds)
	out.gauge(descCheckHeld, float64(st.Requests))
	out.gauge(descCheckBytes, float64(st.Bytes))
	out.counter(descCheckDropped, float64(st.Dropped))
}

// serveSelfCheck answers GET /self-check, and takes a change of the policy back on DELETE.
func (a *API) serveSelfCheck(ctx *fasthttp.RequestCtx) {
	checks := a.status.SelfCheck
	switch {
	case checks == nil:
		a.fail(ctx, openai.NotFound(string(ctx.Path())))
		return
	case ctx.IsDelete():
		if err := checks.TakeBack(); err != nil {
			a.fail(ctx, openai.BadRequest("", "There is no change to take back: the configured policy is in force."))
			return
		}
	case !ctx.IsGet():
		a.wrongMethod(ctx, fasthttp.MethodGet+", "+fasthttp.MethodDelete)
		return
	}
	a.json(ctx, fasthttp.StatusOK, checks.Status())
}
