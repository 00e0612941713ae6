package admin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// readiness knows which models the router can serve now.
type readiness struct {
	responder
	registry *worker.Registry
	router   *routing.Router
	ingest   *ingest.Manager
}

// ServedModel says whether the router can serve requests for a model now.
type ServedModel struct {
	Model string   `json:"model"`
	Names []string `json:"names"` // that requests may use, adapters included
	Ready bool     `json:"ready"`
	Lacks string   `json:"lacks,omitempty"` // the reason why it cannot
}

// models returns the models of all workers that have described themselves, by name.
func (r *readiness) models() []ServedModel {
	all := []ServedModel{}
	for _, w := range r.registry.Snapshot().Workers {
		info := w.Info()
		if info == nil {
			continue
		}
		at := slices.IndexFunc(all, func(m ServedModel) bool { return m.Model == info.Model() })
		if at < 0 {
			at = len(all)
			all = append(all, ServedModel{Model: info.Model(), Names: []string{}})
		}
		for _, name := range info.Models {
			if !slices.Contains(all[at].Names, name) {
				all[at].Names = append(all[at].Names, name)
			}
		}
	}
	for i := range all {
		all[i].Lacks = r.lacks(all[i].Model)
		all[i].Ready = all[i].Lacks == ""
	}
	slices.SortFunc(all, func(a, b ServedModel) int { return strings.Compare(a.Model, b.Model) })
	return all
}

// lacks returns the reason why no request for model can be served; "" where one can. It looks for
// candidates as a request does: a regular worker, or both halves of a pair.
func (r *readiness) lacks(model string) string {
	var fit routing.Eligible
	ranks, err := r.router.Eligible(&fit, &routing.Prompt{Model: model, DP: -1})
	switch {
	case errors.Is(err, routing.ErrNoPrefill):
		return "no prefill worker is ready"
	case errors.Is(err, routing.ErrNoDecode):
		return "no decode worker is ready"
	case err != nil && !errors.Is(err, routing.ErrAmbiguous):
		return "no worker is ready"
	case r.router.Policy().Needs().Has(policy.NeedsOverlap) && !slices.ContainsFunc(ranks, r.indexed):
		return "the KV events of its workers are still being replayed"
	}
	return ""
}

// indexed reports whether the index has the rank's cache, or gets no events of it. A resync after
// the first does not count against the rank: it has served requests before.
func (r *readiness) indexed(rank *worker.Rank) bool {
	stream := r.ingest.Stream(rank)
	if stream == nil {
		return true
	}
	switch stream.Stats.State() {
	case ingest.Connecting, ingest.Replaying:
		return stream.Stats.Resyncs.Load() > 1
	default:
		return true
	}
}

// progress reports whether some model can be served, and whether all can that are known of with no
// worker on probation; lacks is the first reason why not.
func (r *readiness) progress() (some, all bool, lacks string) {
	all, lacks = true, "no worker has said what it serves"
	for _, m := range r.models() {
		if m.Ready {
			some = true
		} else {
			all, lacks = false, fmt.Sprintf("%s: %s", m.Model, m.Lacks)
		}
	}
	for _, w := range r.registry.Snapshot().Workers {
		if w.State() == worker.Probing {
			all, lacks = false, w.URL+" is not ready"
		}
	}
	if all = all && some; all {
		lacks = ""
	}
	return some, all, lacks
}

// serve answers 200 while the router can serve some model, else 503. Liveness is GET /health: a
// restart of a router without workers brings none.
func (r *readiness) serve(ctx *fasthttp.RequestCtx) {
	workers := 0
	for _, w := range r.registry.Snapshot().Workers {
		if w.State() == worker.Ready {
			workers++
		}
	}
	models, lacks := []string{}, map[string]string{}
	for _, m := range r.models() {
		if m.Ready {
			models = append(models, m.Model)
		} else {
			lacks[m.Model] = m.Lacks
		}
	}
	draining := r.requests.Draining()
	status := fasthttp.StatusOK
	if len(models) == 0 || draining {
		status = fasthttp.StatusServiceUnavailable
	}
	r.json(ctx, status, map[string]any{
		"ready": status == fasthttp.StatusOK, "workers_ready": workers, "models": models,
		"lacks": lacks, "draining": draining,
	})
}
