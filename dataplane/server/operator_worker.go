package server

import (
	"fmt"

	"github.com/valyala/fastjson"

	"github.com/warmpath/warmpath/dataplane/worker"
)

// workerSpec reads what a body tells of a worker beside its URL: {"url": …, "role": "prefill", "bootstrap_port": 8998,
// "bootstrap_host": "10.0.0.1"}, none of which is needed, as the worker tells it.
func workerSpec(url string, body []byte) (worker.Spec, error) {
	spec := worker.Spec{URL: url}
	v, err := fastjson.ParseBytes(body)
	if err != nil { // the URL was in the query
		return spec, nil //nolint:nilerr // and the body may be anything
	}
	role := string(v.GetStringBytes("role"))
	switch role {
	case "", worker.RoleAggregated.String():
	case worker.RolePrefill.String():
		spec.Role = worker.RolePrefill
	case worker.RoleDecode.String():
		spec.Role = worker.RoleDecode
	default:
		return spec, fmt.Errorf("cannot use role %q: %w: want aggregated, prefill or decode", role, worker.ErrBadURL)
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
