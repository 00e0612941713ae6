package admin

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/request"
)

// modelList answers GET /v1/models, and Ollama's GET /api/tags.
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

// serve lists the models.
func (l *modelList) serve(ctx *fasthttp.RequestCtx) {
	if data, ok := l.cards(ctx); ok {
		l.json(ctx, fasthttp.StatusOK, map[string]any{"object": "list", "data": data})
	}
}

// tag is one entry of GET /api/tags, as SGLang writes it.
type tag struct {
	Name     string            `json:"name"`
	Model    string            `json:"model"`
	Modified string            `json:"modified_at"`
	Size     int               `json:"size"`
	Digest   string            `json:"digest"`
	Details  map[string]string `json:"details"`
}

// serveTags lists the models for Ollama's clients.
func (l *modelList) serveTags(ctx *fasthttp.RequestCtx) {
	data, ok := l.cards(ctx)
	if !ok {
		return
	}
	tags := []tag{}
	for i := range data {
		id := data[i].ID
		tags = append(tags, tag{
			Name: id, Model: id, Modified: l.started.UTC().Format("2006-01-02T15:04:05.000Z"), Digest: "sha256:sglang" + strings.Repeat("0", 58),
			Details: map[string]string{"format": "sglang", "family": path.Base(id), "parameter_size": "unknown"},
		})
	}
	l.json(ctx, fasthttp.StatusOK, map[string]any{"models": tags})
}

// cards returns the models of all workers that are not dead, as far as the client may use them. It
// answers a client without a key, and then reports false.
func (l *modelList) cards(ctx *fasthttp.RequestCtx) (data []modelCard, ok bool) {
	key, err := l.requests.ClientKey(ctx)
	if err != nil {
		l.fail(ctx, request.ErrorFor(err, ""))
		return nil, false
	}
	data = []modelCard{}
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
	return data, true
}
