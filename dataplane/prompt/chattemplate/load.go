package chattemplate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// Source is the chat template of a model, as its files give it.
type Source struct {
	Template string
	// Tokens are the special tokens that the template may read, for instance bos_token. A token
	// that the files name as null is here as "".
	Tokens map[string]string
}

// ErrNoTemplate means that a model's files hold no chat template.
var ErrNoTemplate = errors.New("chattemplate: the model has no chat template")

// Load finds the chat template of a model among its files, as transformers and SGLang do:
// chat_template.jinja, else chat_template.json, else tokenizer_config.json, where it is a string or
// a list of named ones. Of several, name picks one (SGLang's --hf-chat-template-name); "" is the
// first, as SGLang takes it.
func Load(model fs.FS, name string) (Source, error) {
	src := Source{Tokens: map[string]string{}}
	var config map[string]json.RawMessage
	if err := readJSON(model, "tokenizer_config.json", &config); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return src, err
	}
	src.tokens(config)
	var named map[string]json.RawMessage
	if err := readJSON(model, "special_tokens_map.json", &named); err == nil {
		src.tokens(named)
	}
	raw, err := fs.ReadFile(model, "chat_template.jinja")
	if err == nil {
		src.Template = string(raw)
		return src, nil
	}
	if !errors.Is(err, fs.ErrNotExist) { // the worker may have it
		return src, err
	}
	var processor map[string]json.RawMessage
	if err := readJSON(model, "chat_template.json", &processor); err == nil && processor["chat_template"] != nil {
		config = processor
	}
	src.Template, err = pick(config["chat_template"], name)
	return src, err
}

// FromFlag returns the template in a file that SGLang's flag --chat-template names: without
// newlines at both ends, and with a newline for every \n that is written out.
func FromFlag(text string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	return strings.ReplaceAll(strings.Trim(text, "\n"), `\n`, "\n")
}

// readJSON decodes a file. A missing one is fs.ErrNotExist.
func readJSON(model fs.FS, name string, into any) error {
	raw, err := fs.ReadFile(model, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("cannot read %s: %w", name, err)
	}
	return nil
}

// tokens notes the fields *_token, a string or an object with the content, where
// they are not known yet.
func (src *Source) tokens(config map[string]json.RawMessage) {
	for key, raw := range config {
		if _, known := src.Tokens[key]; known || !strings.HasSuffix(key, "_token") || strings.HasPrefix(key, "add_") {
			continue
		}
		var text *string
		var object struct{ Content *string }
		switch {
		case json.Unmarshal(raw, &text) == nil && text != nil:
			src.Tokens[key] = *text
		case json.Unmarshal(raw, &object) == nil && object.Content != nil:
			src.Tokens[key] = *object.Content
		case string(raw) == "null":
			src.Tokens[key] = ""
		}
	}
}

// pick returns one of the templates in raw.
func pick(raw json.RawMessage, name string) (string, error) {
	var single string
	switch {
	case raw == nil, string(raw) == "null":
		return "", ErrNoTemplate
	case json.Unmarshal(raw, &single) == nil:
		return single, nil
	}
	var list []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", fmt.Errorf("cannot read the chat template: %w", err)
	}
	for _, entry := range list {
		if name == "" || entry.Name == name {
			return entry.Template, nil
		}
	}
	return "", fmt.Errorf("%w called %q", ErrNoTemplate, name)
}
