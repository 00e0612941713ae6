package request

import (
	"errors"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// ServedModel says whether a request for a model would be taken now.
type ServedModel struct {
	Model string   `json:"model"`
	Names []string `json:"names"` // that requests may use, adapters included
	Ready bool     `json:"ready"`
	Lacks string   `json:"lacks,omitempty"` // why it would not be
}

// servedModels returns the models of all workers that have described themselves, in order of their names.
func (s *Server) servedModels() []ServedModel {
	all := []ServedModel{}
	for _, w := range s.Registry.Snapshot().Workers {
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
		all[i].Lacks = s.lacks(all[i].Model)
		all[i].Ready = all[i].Lacks == ""
	}
	slices.SortFunc(all, func(a, b ServedModel) int { return strings.Compare(a.Model, b.Model) })
	return all
}

// lacks says what is missing for a request for model to be taken; "" is nothing. It asks as a request would: for a worker that does
// all, or both halves of a pair.
func (s *Server) lacks(model string) string {
	var scratch routing.Scratch
	ranks, err := s.Router.Fit(&scratch, &routing.Prompt{Model: model, DP: -1})
	switch {
	case errors.Is(err, routing.ErrNoPrefill):
		return "no prefill worker is ready"
	case errors.Is(err, routing.ErrNoDecode):
		return "no decode worker is ready"
	case err != nil && !errors.Is(err, routing.ErrAmbiguous):
		return "no worker is ready"
	case s.usesOverlap() && !slices.ContainsFunc(ranks, s.learnt):
		return "the KV events of its workers are still being replayed"
	}
	return ""
}

// learnt reports whether what the rank's events tell is known, or that they tell nothing. A rank that is being learnt again counts:
// requests were sent there before.
func (s *Server) learnt(r *worker.Rank) bool {
	stream := s.Ingest.Stream(r)
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

// serveReady answers 200 when a request for some model would be taken now. Liveness is GET /health: a router without
// workers lives, and a restart of it would bring none.
func (s *Server) serveReady(ctx *fasthttp.RequestCtx) {
	workers := 0
	for _, w := range s.Registry.Snapshot().Workers {
		if w.State() == worker.Ready {
			workers++
		}
	}
	models, lacks := []string{}, map[string]string{}
	for _, m := range s.servedModels() {
		if m.Ready {
			models = append(models, m.Model)
		} else {
			lacks[m.Model] = m.Lacks
		}
	}
	draining := s.draining.Load()
	status := fasthttp.StatusOK
	if len(models) == 0 || draining {
		status = fasthttp.StatusServiceUnavailable
	}
	s.serveJSON(ctx, status, map[string]any{
		"ready": status == fasthttp.StatusOK, "workers_ready": workers, "models": models, "lacks": lacks, "draining": draining,
	})
}
