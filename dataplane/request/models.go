package request

import (
	"math/rand/v2"
	"slices"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fastjson"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// modelCard is one entry of GET /v1/models.
type modelCard struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	MaxLen  *int   `json:"max_model_len"` // the least of the workers that serve it; null where none says, as SGLang has it for adapters
	Root    string `json:"root"`          // as SGLang has it; vLLM's benchmark does without model names by it
}

// serveModels lists what the known workers serve.
func (s *Server) serveModels(ctx *fasthttp.RequestCtx) {
	data := []modelCard{}
	for _, w := range s.Registry.Snapshot().Workers {
		info := w.Info()
		if info == nil || w.State() == worker.Dead {
			continue
		}
		for _, name := range info.Models {
			at := slices.IndexFunc(data, func(m modelCard) bool { return m.ID == name })
			if at < 0 {
				at = len(data)
				data = append(data, modelCard{ID: name, Object: "model", Created: s.started.Unix(), OwnedBy: "sglang", Root: name})
			}
			if least := data[at].MaxLen; info.MaxLen > 0 && (least == nil || *least > info.MaxLen) {
				data[at].MaxLen = &info.MaxLen
			}
		}
	}
	s.serveJSON(ctx, fasthttp.StatusOK, map[string]any{"object": "list", "data": data})
}

// serveAbort passes a client's own abort on to every worker: the router does
// not keep which worker has which id.
func (s *Server) serveAbort(ctx *fasthttp.RequestCtx) {
	rid := fastjson.GetString(ctx.PostBody(), "rid")
	if !ctx.IsPost() || rid == "" {
		s.fail(ctx, openai.BadRequest("rid", `Name the request: POST {"rid": "…"}.`))
		return
	}
	for _, w := range s.Registry.Snapshot().Workers {
		s.aborts.send(w, []byte(rid), nil, false, 1)
	}
	ctx.SetStatusCode(fasthttp.StatusOK)
}

// needs says what the policy looks at: only for that is a prompt worth reading,
// and only for some a question to a worker.
func (s *Server) needs() policy.Needs { return s.Router.Policy().Needs() }

// usesOverlap reports whether the policy looks at what workers hold by token
// ids.
func (s *Server) usesOverlap() bool { return s.needs().Has(policy.NeedsOverlap) }

// anyWorker returns a fit worker that serves the prompt's model, the less
// loaded of two, or nil.
func (s *Server) anyWorker(p *routing.Prompt) *worker.Worker {
	var best *worker.Rank
	ranks := s.Registry.Snapshot().Ranks
	if len(ranks) == 0 {
		return nil
	}
	first := rand.IntN(len(ranks))
	for seen, i := 0, 0; i < len(ranks) && seen < 2; i++ {
		r := ranks[(first+i)%len(ranks)]
		info := r.Worker.Info()
		if r.Worker.State() != worker.Ready || info == nil || !routing.Serves(info, p.Model) {
			continue
		}
		seen++
		if best == nil || r.Load.InFlight() < best.Load.InFlight() {
			best = r
		}
	}
	if best == nil {
		return nil
	}
	return best.Worker
}
