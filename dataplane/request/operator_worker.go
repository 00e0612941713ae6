package request

import (
	"fmt"
	"strconv"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fastjson"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// workerSpec reads what a body tells of a worker beside its URL: {"url": …, "role": "prefill", "bootstrap_port": 8998,
// "bootstrap_host": "10.0.0.1"}, none of which is needed, as the worker tells it.
func workerSpec(url string, body []byte) (worker.Spec, error) {
	spec := worker.Spec{URL: url}
	v, err := fastjson.ParseBytes(body)
	if err != nil { // the URL was in the query
		return spec, nil //nolint:nilerr // and the body may be anything
	}
	if spec.Role, err = worker.ParseRole(string(v.GetStringBytes("role"))); err != nil {
		return spec, err
	}
	spec.Bootstrap.Host = string(v.GetStringBytes("bootstrap_host"))
	if port := v.Get("bootstrap_port"); port != nil {
		n, err := port.Int()
		if err != nil || n < 1 || n > 65535 {
			return spec, fmt.Errorf("cannot use bootstrap_port %s: %w: want 1 to 65535", port, worker.ErrBadURL)
		}
		spec.Bootstrap.Port = n
	}
	return spec, nil
}

// removeWorker takes a worker away: after what it has in flight, or at once with ?now=true.
func (s *Server) removeWorker(ctx *fasthttp.RequestCtx) {
	atOnce := false
	if now := ctx.QueryArgs().Peek("now"); len(now) > 0 {
		var err error
		if atOnce, err = strconv.ParseBool(string(now)); err != nil {
			s.fail(ctx, openai.BadRequest("now", "Say now=true or now=false."))
			return
		}
	}
	s.changeWorker(ctx, func(url string, answer map[string]any) error {
		inFlight, err := s.Fleet.Remove(url, atOnce)
		answer["in_flight"] = inFlight // which it still answers
		answer["scope"] = "router"     // other routers go on; a drain is of the cluster
		return err
	})
}
