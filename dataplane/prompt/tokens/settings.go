package tokens

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
	"github.com/warmpath/warmpath/dataplane/prompt/tokenizer"
)

// Settings are the arguments of a worker that decide its token ids, from GET /server_info (SGLang
// 0.5.23); "" for unknown ones.
type Settings struct {
	Version         string // of SGLang
	Model           string // --model-path
	Tokenizer       string // --tokenizer-path; "" is the model's
	Mode            string // --tokenizer-mode
	Skip            bool   // --skip-tokenizer-init: it takes ids only
	ChatTemplate    string // --chat-template: a file, or the name of a built-in one
	TemplateName    string // --hf-chat-template-name: one of several that the model has
	DefaultKwargs   string // --default-chat-template-kwargs, JSON
	ToolCallParser  string
	ReasoningParser string
}

// errNoFiles is a model without files on this machine.
var errNoFiles = errors.New("tokens: no tokenizer.json found")

// folder returns the folder of the tokenizer's files: dir if it is given, else the worker's own
// path, or the folder of its name in a hub's cache.
func (s *Settings) folder(dir string) (string, error) {
	if dir != "" {
		return dir, nil
	}
	name := s.Tokenizer
	if name == "" {
		name = s.Model
	}
	if name == "" {
		return "", fmt.Errorf("%w: the worker does not report its model's path", errNoFiles)
	}
	for _, candidate := range append([]string{name}, cached(name)...) {
		if !filepath.IsAbs(candidate) {
			continue // a hub's name, or a path on the worker's machine
		}
		if _, err := os.Stat(filepath.Join(candidate, "tokenizer.json")); err == nil {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("%w in %s nor in the hub's cache: name the folder with --model-path", errNoFiles, name)
}

// cached returns the folder in which huggingface_hub keeps a model:
// hub/models--OWNER--NAME/snapshots/COMMIT, the commit of refs/main.
func cached(name string) []string {
	if strings.Count(name, "/") > 1 || strings.Contains(name, "..") || filepath.IsAbs(name) {
		return nil
	}
	hub := os.Getenv("HF_HUB_CACHE")
	if home := os.Getenv("HF_HOME"); hub == "" && home != "" {
		hub = filepath.Join(home, "hub")
	}
	if hub == "" {
		home, err := os.UserCacheDir()
		if err != nil {
			return nil
		}
		hub = filepath.Join(home, "huggingface", "hub")
	}
	folder := filepath.Join(hub, "models--"+strings.ReplaceAll(name, "/", "--"))
	commit, err := os.ReadFile(filepath.Join(folder, "refs", "main")) //nolint:gosec // a path of the operator's own cache
	if err != nil {
		return nil
	}
	return []string{filepath.Join(folder, "snapshots", strings.TrimSpace(string(commit)))}
}

// loadText reads tokenizer.json.
func loadText(dir string) (*tokenizer.Tokenizer, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "tokenizer.json")) //nolint:gosec // a folder that the operator or the worker named
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
func loadChat(dir string, s *Settings) (*chattemplate.Model, error) {
	files := os.DirFS(dir)
	source, err := chattemplate.Load(files, s.TemplateName)
	if s.ChatTemplate != "" {
		text, readErr := os.ReadFile(s.ChatTemplate)
		if readErr != nil {
			return nil, fmt.Errorf("%w: the worker uses --chat-template %s, which is not a file here", chattemplate.ErrUnsupported, s.ChatTemplate)
		}
		if err != nil && !errors.Is(err, chattemplate.ErrNoTemplate) {
			return nil, fmt.Errorf("cannot use the chat template of %s: %w", dir, err)
		}
		source.Template, err = chattemplate.FromFlag(string(text)), nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use the chat template of %s: %w", dir, err)
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
		return nil, fmt.Errorf("cannot use the chat template of %s: %w", dir, err)
	}
	return m, nil
}

// architecture reads config.json, which a folder with a tokenizer alone lacks.
func architecture(files fs.FS) (modelType string, architectures []string) {
	var config struct {
		ModelType     string   `json:"model_type"`
		Architectures []string `json:"architectures"`
	}
	if raw, err := fs.ReadFile(files, "config.json"); err != nil || json.Unmarshal(raw, &config) != nil {
		return "", nil
	}
	return config.ModelType, config.Architectures
}
