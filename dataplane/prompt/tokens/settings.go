package tokens

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/warmpath/warmpath/dataplane/modelfile"
	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
	"github.com/warmpath/warmpath/dataplane/prompt/tokenizer"
)

// Settings are the arguments of a worker that decide its token ids, from GET /server_info (SGLang
// 0.5.23); "" for unknown ones.
type Settings struct {
	Version         string // of SGLang
	Model           string // --model-path
	Tokenizer       string // --tokenizer-path; "" is the model's
	Revision        string // --revision of either at Hugging Face's hub
	Mode            string // --tokenizer-mode
	Skip            bool   // --skip-tokenizer-init: it takes ids only
	ChatTemplate    string // --chat-template: a file, or the name of a built-in one
	TemplateName    string // --hf-chat-template-name: one of several that the model has
	DefaultKwargs   string // --default-chat-template-kwargs, JSON
	ToolCallParser  string
	ReasoningParser string
}

const (
	// maxName is beyond any path: a longer one names nothing.
	maxName = 4097
	// maxKwargs is beyond any defaults: longer ones are no JSON once they are clipped.
	maxKwargs = 64 << 10
)

// clip shortens texts, since a description may have some of megabytes.
func (s *Settings) clip() {
	for _, text := range []*string{
		&s.Version, &s.Model, &s.Tokenizer, &s.Revision, &s.Mode, &s.ChatTemplate, &s.TemplateName, &s.ToolCallParser, &s.ReasoningParser,
	} {
		*text = (*text)[:min(len(*text), maxName)]
	}
	s.DefaultKwargs = s.DefaultKwargs[:min(len(s.DefaultKwargs), maxKwargs)]
}

// errNoFiles is a model without files on this machine.
var errNoFiles = errors.New("tokens: no tokenizer.json found")

// modelFiles reads the files of one worker's model.
type modelFiles struct {
	ctx    context.Context //nolint:containedctx // of one load
	reader *modelfile.Reader
	own    ownFolder
	now    func() time.Time
	log    *slog.Logger
}

// folder returns the folder of the tokenizer's files: the operator's own, else the worker's path,
// or the folder of its name in a hub's cache.
func (f *modelFiles) folder(s *Settings) (modelfile.Folder, string, error) {
	if f.own.path != "" {
		name, err := filepath.Abs(f.own.path)
		return f.reader.Folder(f.ctx, name, modelfile.Operator), name, err
	}
	name := s.Tokenizer
	if name == "" {
		name = s.Model
	}
	if name == "" {
		return modelfile.Folder{}, "", fmt.Errorf("%w: the worker does not report its model's path", errNoFiles)
	}
	var why error
	for _, candidate := range append([]string{name}, f.cached(name, s.Revision)...) {
		err := f.reader.Find(f.ctx, filepath.Join(candidate, modelfile.TokenizerFile), modelfile.Worker)
		if err == nil {
			return f.reader.Folder(f.ctx, candidate, modelfile.Worker), candidate, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			why = err
		}
	}
	if f.own.err != nil {
		return modelfile.Folder{}, "", fmt.Errorf("%w: %w", errNoFiles, f.own.err)
	}
	if why != nil {
		return modelfile.Folder{}, "", fmt.Errorf("%w for the worker's model: %w; give its folder or its name at the hub as --model-path", errNoFiles, why)
	}
	return modelfile.Folder{}, "", fmt.Errorf("%w in %s nor in the hub's cache: give its folder, or its name at the hub, as --model-path", errNoFiles, name)
}

// cached returns the folder of a hub's name in the hub's cache.
func (f *modelFiles) cached(name, revision string) []string {
	if revision != "" {
		name += "@" + revision
	}
	hub, ok := modelfile.ParseHubName(name)
	if !ok {
		return nil
	}
	cache := modelfile.HubCache()
	commit, err := hub.Commit(cache, func(file string) ([]byte, error) {
		return f.reader.Read(f.ctx, file, modelfile.MaxRef, modelfile.Worker)
	})
	if err != nil {
		return nil
	}
	return []string{hub.Snapshot(cache, commit)}
}

// template reads the file of --chat-template.
func (f *modelFiles) template(s *Settings) ([]byte, error) {
	return f.reader.Read(f.ctx, s.ChatTemplate, modelfile.MaxTemplate, modelfile.Worker)
}

func loadText(files fs.FS, dir string) (*tokenizer.Tokenizer, error) {
	raw, err := fs.ReadFile(files, modelfile.TokenizerFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the tokenizer: %w", err)
	}
	t, err := tokenizer.Load(raw)
	if err != nil {
		return nil, fmt.Errorf("cannot use the tokenizer of %s: %w", dir, err)
	}
	return t, nil
}

// loadChat compiles the chat template that the worker uses.
func loadChat(f *modelFiles, files fs.FS, dir string, s *Settings) (_ *chattemplate.Model, begin string, _ error) {
	source, err := chattemplate.Load(files, s.TemplateName)
	if s.ChatTemplate != "" {
		text, readErr := f.template(s)
		switch {
		case errors.Is(readErr, fs.ErrNotExist):
			return nil, "", fmt.Errorf("%w: the worker uses --chat-template %s, which is not a file here", chattemplate.ErrUnsupported, s.ChatTemplate)
		case readErr != nil:
			return nil, "", fmt.Errorf("%w: the worker's --chat-template: %w", chattemplate.ErrUnsupported, readErr)
		}
		if err != nil && !errors.Is(err, chattemplate.ErrNoTemplate) {
			return nil, "", fmt.Errorf("cannot use the chat template of %s: %w", dir, err)
		}
		source.Template, err = chattemplate.FromFlag(string(text)), nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("cannot use the chat template of %s: %w", dir, err)
	}
	engine := chattemplate.Engine{
		Version: s.Version, ModelPath: s.Model, ToolCallParser: s.ToolCallParser, ReasoningParser: s.ReasoningParser,
	}
	if s.DefaultKwargs != "" {
		engine.DefaultKwargs = []byte(s.DefaultKwargs)
	}
	engine.ModelType, engine.Architectures = architecture(files)
	m, err := chattemplate.New(chattemplate.Config{Source: source, Engine: engine})
	if err != nil {
		return nil, "", fmt.Errorf("cannot use the chat template of %s: %w", dir, err)
	}
	return m, source.Tokens["bos_token"], nil
}

// architecture reads config.json, which a folder with a tokenizer alone lacks.
func architecture(files fs.FS) (modelType string, architectures []string) {
	var config struct {
		ModelType     string   `json:"model_type"`
		Architectures []string `json:"architectures"`
	}
	if raw, err := fs.ReadFile(files, modelfile.ConfigFile); err != nil || json.Unmarshal(raw, &config) != nil {
		return "", nil
	}
	return config.ModelType, config.Architectures
}
