package admin

import (
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/request"
)

// modelList answers GET /v1/models.
type modelList struct {
	responder
	registry *worker.Registry
	started  time.Time // of the router
}

// modelCard is one entry of GET /v1/models.
type modelCard struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	// MaxLen is the least of the model's workers; null where none reports one, as SGLang does for
	// adapters.
	MaxLen *int `json:"max_model_len"`
	// Root is the name, as SGLang has it. vLLM's benchmark finds the model by it.
	Root string `json:"root"`
}

// serve lists the models of all workers that are not dead, as far as the client may use them.
func (l *modelList) serve(ctx *fasthttp.RequestCtx) {
	key, err := l.requests.ClientKey(ctx)
	if err != nil {
		l.fail(ctx, request.ErrorFor(err, ""))
		return
	}
	data := []modelCard{}
	for _, w := range l.registry.Snapshot().Workers {
		info := w.Info()
		if info == nil || w.State() == worker.Dead {
			continue
		}
		for _, name := range info.Models {
			if key != nil && !key.Allows(name, "") {
				continue
			}
			at := slices.IndexFunc(data, func(m modelCard) bool { return m.ID == name })
			if at < 0 {
				at = len(data)
				data = append(data,
					modelCard{ID: name, Object: "model", Created: l.started.Unix(), OwnedBy: "sglang", Root: name})
			}
			if least := data[at].MaxLen; info.MaxLen > 0 && (least == nil || *least > info.MaxLen) {
				data[at].MaxLen = &info.MaxLen
			}
		}
	}
	l.json(ctx, fasthttp.StatusOK, map[string]any{"object": "list", "data": data})
}
