package router

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
)

// offers tells the tokenizers of workers. It is made before they are, and set before the first worker is added.
type offers struct{ models *tokens.Models }

var _ worker.Observer = (*offers)(nil)

// Up implements worker.Observer.
func (o *offers) Up(w *worker.Worker, info *worker.Info) {
	if o.models == nil || info == nil {
		return
	}
	t := &info.Tokenizer
	o.models.Offer(w.URL, info.Model(), tokens.Settings{
		Version: info.Version, Model: info.ModelPath, Tokenizer: t.Path, Mode: t.Mode, Skip: t.Skip, ChatTemplate: t.ChatTemplate,
		TemplateName: t.TemplateName, DefaultKwargs: t.DefaultKwargs, ToolCallParser: t.ToolCallParser, ReasoningParser: t.ReasoningParser,
	})
}

// Down implements worker.Observer.
func (o *offers) Down(w *worker.Worker) {
	if o.models != nil {
		o.models.Withdraw(w.URL)
	}
}

// tokenizers returns what makes and remembers token ids.
func (d *Router) tokenizers(o *offers) (*tokens.Source, *promptcache.Cache, error) {
	source, err := tokens.New(tokens.Config{Fetch: &fetcher{transport: d.transport, registry: d.registry}, Index: d.index, BlockSize: d.blockSize})
	if err != nil {
		return nil, nil, err
	}
	sessions, err := promptcache.New(promptcache.Config{MaxBytes: d.cfg.SessionMaxBytes, Index: d.index, BlockSize: d.blockSize})
	if err != nil {
		return nil, nil, err
	}
	if d.cfg.Tokenize == TokenizeByWorkers {
		return source, sessions, nil
	}
	folders, err := modelFolders(d.cfg.ModelPaths)
	if err != nil {
		return nil, nil, err
	}
	cfg := tokens.ModelsConfig{Source: source, Sessions: sessions, Folders: folders, Log: d.cfg.Log}
	if d.cfg.ForwardIDs { // a wrong id would be a wrong answer: no longer a wrong choice only
		cfg.Need, cfg.SampleEvery = 32, 32
	}
	d.models = tokens.NewModels(cfg)
	o.models = d.models
	return source, sessions, nil
}

const (
	// TokenizeAuto makes token ids in the router where a model's files are found and its ids are proved.
	TokenizeAuto = "auto"
	// TokenizeByWorkers leaves all of them to POST /v1/tokenize.
	TokenizeByWorkers = "workers"
)

// ErrTokenize is a Config.Tokenize that does not exist, or two folders for one model.
var ErrTokenize = errors.New("dataplane: cannot make token ids so")

func checkTokenize(cfg *Config) error {
	switch cfg.Tokenize = cmp.Or(cfg.Tokenize, TokenizeAuto); cfg.Tokenize {
	case TokenizeAuto, TokenizeByWorkers:
	default:
		return fmt.Errorf("cannot use --tokenize %q: %w: want %s or %s", cfg.Tokenize, ErrTokenize, TokenizeAuto, TokenizeByWorkers)
	}
	_, err := modelFolders(cfg.ModelPaths)
	return err
}

// modelFolders reads "NAME=DIR", or "DIR" for every model that is not named.
func modelFolders(paths []string) (map[string]string, error) {
	folders := map[string]string{}
	for _, p := range paths {
		name, dir, named := strings.Cut(p, "=")
		if !named {
			name, dir = "", p
		}
		if old, twice := folders[name]; twice {
			return nil, fmt.Errorf("cannot use --model-path %s beside %s: %w", p, old, ErrTokenize)
		}
		folders[name] = dir
	}
	return folders, nil
}
