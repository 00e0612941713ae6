package anthropic_test

import (
	"encoding/json"
	"strings"

	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
)

// naiveChat is the obvious conversion, on documents: for bodies that SGLang takes.
func naiveChat(body map[string]any, r chattemplate.Rules) map[string]any {
	var system []string
	add := func(text string) {
		if text != "" {
			system = append(system, text)
		}
	}
	switch s := body["system"].(type) {
	case string:
		if strip(s) != "" {
			add(s)
		}
	case []any:
		for _, text := range naiveTexts(s) {
			add(text)
		}
	}
	list, _ := body["messages"].([]any)
	if !r.InlineSystem {
		for _, m := range list {
			if m, _ := m.(map[string]any); m["role"] == "system" {
				add(naiveSystem(m["content"]))
			}
		}
	}
	messages := []any{}
	if len(system) > 0 {
		messages = append(messages, map[string]any{"role": "system", "content": strings.Join(system, "\n")})
	}
	for _, m := range list {
		m, _ := m.(map[string]any)
		if m["role"] != "system" || r.InlineSystem {
			messages = append(messages, naiveMessage(m, r)...)
		}
	}
	chat := map[string]any{"messages": messages}
	if tools := naiveTools(body["tools"]); len(tools) > 0 {
		chat["tools"] = tools
	}
	return chat
}

func naiveTexts(blocks []any) (texts []string) {
	for _, b := range blocks {
		if b, _ := b.(map[string]any); b["type"] == "text" {
			text, _ := b["text"].(string)
			texts = append(texts, text)
		}
	}
	return texts
}

// strip is str.strip of Python.
func strip(text string) string {
	return strings.Trim(text, "\t\n\v\f\r \x1c\x1d\x1e\x1f\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000")
}

// naiveSystem is the text of a system message behind others.
func naiveSystem(content any) string {
	if text, ok := content.(string); ok {
		return strip(text)
	}
	blocks, _ := content.([]any)
	var texts []string
	for _, text := range naiveTexts(blocks) {
		if text = strip(text); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}

func naiveMessage(m map[string]any, r chattemplate.Rules) (out []any) {
	if text, ok := m["content"].(string); ok {
		return []any{map[string]any{"role": m["role"], "content": text}}
	}
	blocks, _ := m["content"].([]any)
	var parts, calls []any
	var thoughts []string
	for _, b := range blocks {
		b, _ := b.(map[string]any)
		if text, _ := b["thinking"].(string); b["type"] == "thinking" && m["role"] == "assistant" && text != "" {
			thoughts = append(thoughts, text)
		}
	}
	if len(thoughts) > 0 && r.ThinkStart != "" {
		parts = append(parts, naiveText(r.ThinkStart+strings.Join(thoughts, "\n")+"\n"+r.ThinkEnd))
	}
	flush := func() {
		if len(parts) > 0 {
			out = append(out, map[string]any{"role": m["role"], "content": naiveContent(parts)})
		}
		parts = nil
	}
	for _, b := range blocks {
		b, _ := b.(map[string]any)
		switch b["type"] {
		case "text":
			parts = append(parts, naiveText(b["text"]))
		case "image":
			if naiveImage(b["source"]) {
				parts = append(parts, map[string]any{"type": "image_url"})
			}
		case "tool_use":
			input := b["input"]
			if input == nil {
				input = map[string]any{}
			}
			calls = append(calls, map[string]any{
				"id": b["id"], "type": "function", "function": map[string]any{"name": b["name"], "arguments": input},
			})
		case "tool_result":
			flush()
			out = append(out, naiveResult(b)...)
		}
	}
	last := map[string]any{"role": m["role"]}
	switch {
	case len(parts) > 0:
		last["content"] = naiveContent(parts)
	case len(calls) == 0 && m["role"] == "user":
		return out
	case len(calls) == 0:
		last["content"] = ""
	}
	if len(calls) > 0 {
		last["tool_calls"] = calls
	}
	return append(out, last)
}

func naiveText(text any) map[string]any { return map[string]any{"type": "text", "text": text} }

func naiveContent(parts []any) any {
	if one, _ := parts[0].(map[string]any); len(parts) == 1 && one["type"] == "text" {
		return one["text"]
	}
	return parts
}

func naiveImage(source any) bool {
	s, _ := source.(map[string]any)
	data := s["url"]
	if s["type"] == "base64" {
		data = s["data"]
	}
	text, _ := data.(string)
	return text != ""
}

func naiveResult(b map[string]any) (out []any) {
	id, _ := b["tool_use_id"].(string)
	if id == "" {
		id, _ = b["id"].(string)
	}
	add := func(content any) {
		out = append(out, map[string]any{"role": "tool", "tool_call_id": id, "content": content})
	}
	if text, ok := b["content"].(string); ok {
		add(text)
		return out
	}
	items, _ := b["content"].([]any)
	var parts []any
	references := false
	for _, item := range items {
		item, _ := item.(map[string]any)
		var part map[string]any
		switch item["type"] {
		case "text":
			if item["text"] != "" {
				part = naiveText(item["text"])
			}
		case "image":
			if naiveImage(item["source"]) {
				part = map[string]any{"type": "image_url"}
			}
		case "tool_reference":
			name, _ := item["tool_name"].(string)
			if name == "" {
				name, _ = item["name"].(string)
			}
			if name != "" {
				part = map[string]any{"type": "tool_reference", "name": name}
			}
		}
		if part == nil {
			continue
		}
		if is := part["type"] == "tool_reference"; is != references && len(parts) > 0 {
			add(naiveContent(parts))
			parts = nil
		}
		references = part["type"] == "tool_reference"
		parts = append(parts, part)
	}
	switch {
	case len(parts) > 0:
		add(naiveContent(parts))
	case len(out) == 0:
		add("")
	}
	return out
}

func naiveTools(list any) (tools []any) {
	all, _ := list.([]any)
	for _, t := range all {
		t, _ := t.(map[string]any)
		kind, _ := t["type"].(string)
		if strings.HasPrefix(kind, "web_search_") || strings.HasPrefix(kind, "computer_") ||
			strings.HasPrefix(kind, "bash_") || strings.HasPrefix(kind, "text_editor_") {
			continue
		}
		schema, _ := t["input_schema"].(map[string]any)
		if _, typed := schema["type"]; !typed {
			schema["type"] = "object"
		}
		f := map[string]any{"name": t["name"], "description": t["description"], "parameters": schema, "strict": t["strict"]}
		if f["description"] == nil {
			f["description"] = ""
		}
		if f["strict"] == nil {
			f["strict"] = false
		}
		tool := map[string]any{"type": "function", "function": f}
		if t["defer_loading"] != nil {
			tool["defer_loading"] = t["defer_loading"]
		}
		tools = append(tools, tool)
	}
	return tools
}

// parsed reads a document; nil where it is none.
func parsed(raw []byte) (v map[string]any) {
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	return v
}
