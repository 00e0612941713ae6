package responses_test

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// naiveChat is the conversion on decoded JSON, line by line after serving_responses.py. It is the
// specification of the package: the vectors prove it, and the fuzz test compares with it.
func naiveChat(raw []byte, history [][]byte, inline bool) (map[string]any, error) {
	body, ok := decodeNaive(raw).(map[string]any)
	if !ok {
		return nil, errNaive
	}
	var messages []any
	if s, isText := body["instructions"].(string); isText && s != "" {
		messages = append(messages, map[string]any{"role": "system", "content": s})
	} else if !isText && body["instructions"] != nil {
		return nil, errNaive
	}
	lists := []any{}
	for _, list := range history {
		lists = append(lists, decodeNaive(list))
	}
	for _, list := range append(lists, body["input"]) {
		if s, isText := list.(string); isText {
			list = []any{map[string]any{"role": "user", "content": s}}
		}
		items, isList := list.([]any)
		if !isList {
			return nil, errNaive
		}
		for _, item := range items {
			m, err := naiveMessage(item)
			if err != nil {
				return nil, err
			}
			if m != nil {
				messages = append(messages, m)
			}
		}
	}
	if messages = naiveMerge(messages); !inline {
		messages = naiveSystem(messages)
	}
	if len(messages) == 0 {
		return nil, errNaive
	}
	chat := map[string]any{"messages": messages}
	if err := naiveTools(chat, body); err != nil {
		return nil, err
	}
	return chat, naiveReasoning(chat, body)
}

var errNaive = errors.New("refused")

func decodeNaive(raw []byte) any {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

func naiveMessage(v any) (map[string]any, error) {
	item, ok := v.(map[string]any)
	if !ok {
		return nil, errNaive
	}
	item = maps.Clone(item)
	if _, isText := item["id"].(string); isText && item["content"] != nil {
		delete(item, "id")
	}
	if item["role"] == "developer" {
		item["role"], item["content"] = "system", naiveLabel(item["content"])
	}
	call := func(arguments any) map[string]any {
		id := item["call_id"]
		if !naiveTrue(id) {
			id = item["id"]
		}
		return map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{
			"id": id, "type": "function", "function": map[string]any{"name": item["name"], "arguments": arguments},
		}}}
	}
	switch item["type"] {
	case "function_call":
		switch raw := item["arguments"].(type) {
		case map[string]any:
			return call(raw), nil
		case string:
			var object any // numbers beyond a double's range are errors, as to orjson
			if json.Unmarshal([]byte(raw), &object) == nil && reflect.TypeOf(object) == reflect.TypeFor[map[string]any]() {
				return call(raw), nil
			}
		}
		return call("{}"), nil
	case "custom_tool_call":
		input, _ := item["input"].(string)
		return call(map[string]any{"input": input}), nil
	case "function_call_output", "custom_tool_call_output":
		output, sent := item["output"]
		if parts, isList := output.([]any); isList {
			var text strings.Builder
			for _, p := range parts {
				if p, isObject := p.(map[string]any); isObject {
					s, isText := p["text"].(string)
					if _, there := p["text"]; there && !isText {
						return nil, errNaive
					}
					text.WriteString(s)
				}
			}
			output = text.String()
		} else if !sent {
			output = ""
		}
		return map[string]any{"role": "tool", "tool_call_id": item["call_id"], "content": output}, nil
	case "reasoning":
		return naiveReason(item)
	case nil, "message":
	default:
		return nil, errNaive
	}
	if parts, isList := item["content"].([]any); isList {
		made := []any{}
		for _, p := range parts {
			made = append(made, naivePart(p))
		}
		item["content"] = made
	}
	maps.DeleteFunc(item, func(k string, v any) bool { return v == nil || k == "id" || k == "status" || k == "type" })
	return item, nil
}

func naiveLabel(content any) any {
	const label = "Developer instructions:"
	if s, isText := content.(string); isText {
		return label + "\n" + s
	}
	parts, isList := content.([]any)
	if !isList {
		return content
	}
	for i, p := range parts {
		if p, isObject := p.(map[string]any); isObject {
			if s, isText := p["text"].(string); isText {
				p = maps.Clone(p)
				p["text"] = label + "\n" + s
				return slices.Concat(parts[:i], []any{p}, parts[i+1:])
			}
		}
	}
	return slices.Concat([]any{map[string]any{"type": "input_text", "text": label}}, parts)
}

func naivePart(v any) any {
	p, isObject := v.(map[string]any)
	if !isObject {
		return v
	}
	detail := func(image map[string]any) map[string]any {
		image = maps.Clone(image)
		if !naiveTrue(image["detail"]) {
			if image["detail"] = p["detail"]; !naiveTrue(p["detail"]) {
				image["detail"] = "auto"
			}
		}
		return image
	}
	switch p["type"] {
	case "input_text", "output_text":
		text, there := p["text"]
		if !there {
			text = ""
		}
		return map[string]any{"type": "text", "text": text}
	case "input_image":
		image, isObject := p["image_url"].(map[string]any)
		if !isObject {
			image = map[string]any{"url": p["image_url"]}
		}
		image = detail(image)
		for _, k := range []string{"min_dynamic_patch", "max_dynamic_patch", "max_long_side_pixel"} {
			if v, there := p[k]; there && image[k] == nil && v != nil {
				image[k] = v
			}
		}
		return map[string]any{"type": "image_url", "image_url": image}
	case "image_url":
		out := maps.Clone(p)
		switch image := p["image_url"].(type) {
		case string:
			out["image_url"] = detail(map[string]any{"url": image})
		case map[string]any:
			out["image_url"] = detail(image)
		}
		return out
	}
	return p
}

func naiveReason(item map[string]any) (map[string]any, error) {
	var texts []string
	for _, list := range []any{item["summary"], item["content"]} {
		parts, _ := list.([]any)
		for _, p := range parts {
			p, _ := p.(map[string]any)
			if s, isText := p["text"].(string); isText && s != "" {
				texts = append(texts, s)
			} else if !isText && naiveTrue(p["text"]) {
				return nil, errNaive
			}
		}
		if len(texts) > 0 {
			return map[string]any{"role": "assistant", "reasoning_content": strings.Join(texts, "\n")}, nil
		}
	}
	blob, _ := item["encrypted_content"].(string)
	if rest, ok := strings.CutPrefix(blob, "sglang-reasoning-v1."); ok {
		packed, _ := base64.URLEncoding.DecodeString(rest)
		if r, err := zlib.NewReader(bytes.NewReader(packed)); err == nil {
			if text, err := io.ReadAll(r); err == nil && len(text) > 0 {
				return map[string]any{"role": "assistant", "reasoning_content": string(text)}, nil
			}
		}
	}
	return nil, nil
}

// naiveTrue is Python's truth of a decoded value.
func naiveTrue(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case json.Number:
		f, _ := v.Float64()
		return f != 0
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return true
}

func naiveMerge(messages []any) (merged []any) {
	for _, v := range messages {
		m, _ := v.(map[string]any)
		var prev map[string]any
		if len(merged) > 0 {
			prev, _ = merged[len(merged)-1].(map[string]any)
		}
		only := len(prev) == 2 && prev["reasoning_content"] != nil
		if m["role"] != "assistant" || prev["role"] != "assistant" || prev["phase"] != m["phase"] && !only {
			merged = append(merged, maps.Clone(m))
			continue
		}
		if m["phase"] != nil {
			prev["phase"] = m["phase"]
		}
		if content := m["content"]; content != nil && content != "" {
			prev["content"] = naiveContent(prev["content"], content)
		}
		if calls, _ := m["tool_calls"].([]any); len(calls) > 0 {
			before, _ := prev["tool_calls"].([]any)
			prev["tool_calls"] = slices.Concat(before, calls)
		}
		if r, _ := m["reasoning_content"].(string); r != "" {
			if before, _ := prev["reasoning_content"].(string); before != "" {
				r = before + "\n" + r
			}
			prev["reasoning_content"] = r
		}
	}
	return merged
}

func naiveContent(before, after any) any {
	b, bText := before.(string)
	a, aText := after.(string)
	if before == nil || before == "" {
		return after
	}
	if bText && aText {
		return b + "\n\n" + a
	}
	list := func(v any) []any {
		if s, isText := v.(string); isText && s != "" {
			return []any{map[string]any{"type": "text", "text": s}}
		}
		parts, _ := v.([]any)
		return parts
	}
	return append(append([]any{}, list(before)...), list(after)...)
}

func naiveSystem(messages []any) (out []any) {
	var chunks []string
	var others []any
	for _, v := range messages {
		m, _ := v.(map[string]any)
		if m["role"] != "system" {
			others = append(others, m)
			continue
		}
		switch content := m["content"].(type) {
		case string:
			chunks = append(chunks, content)
		case []any:
			for _, p := range content {
				p, _ := p.(map[string]any)
				if s, isText := p["text"].(string); isText {
					chunks = append(chunks, s)
				}
			}
		}
	}
	if chunks == nil {
		return others
	}
	return append([]any{map[string]any{"role": "system", "content": strings.Join(chunks, "\n\n")}}, others...)
}

func naiveTools(chat, body map[string]any) error {
	tools, isList := body["tools"].([]any)
	if _, there := body["tools"]; there && !isList {
		return errNaive
	}
	choice := body["tool_choice"]
	if object, isObject := choice.(map[string]any); isObject {
		name := object["name"]
		if f, _ := object["function"].(map[string]any); !naiveTrue(name) {
			name = f["name"]
		}
		if choice = "auto"; (object["type"] == "function" || object["type"] == "custom") && naiveTrue(name) {
			choice = map[string]any{"type": "function", "function": map[string]any{"name": name}}
		}
	}
	var shown []any
	for _, v := range tools {
		t, _ := v.(map[string]any)
		f := map[string]any{"name": t["name"], "description": t["description"], "parameters": t["parameters"], "strict": t["strict"] == true}
		if t["type"] == "custom" && naiveTrue(t["name"]) {
			f["parameters"] = decodeNaive([]byte(`{"type":"object","properties":{"input":{"type":"string","description":"The freeform text payload for this tool."}},"required":["input"],"additionalProperties":false}`))
			var parts []string
			if d, _ := t["description"].(string); d != "" {
				parts = append(parts, d)
			}
			if format, _ := t["format"].(map[string]any); format["type"] == "grammar" {
				syntax, _ := format["syntax"].(string)
				if syntax == "" {
					syntax = "lark"
				}
				definition, _ := format["definition"].(string)
				parts = append(parts, "The payload must conform to this "+syntax+" grammar:\n"+definition)
			}
			if f["description"] = strings.Join(parts, "\n\n"); parts == nil {
				f["description"] = nil
			}
		} else if t["type"] != "function" {
			continue
		}
		shown = append(shown, map[string]any{"type": "function", "function": f})
	}
	if shown != nil {
		chat["tools"], chat["tool_choice"] = shown, choice
	}
	return nil
}

func naiveReasoning(chat, body map[string]any) error {
	kwargs, _ := body["chat_template_kwargs"].(map[string]any)
	if r, isObject := body["reasoning"].(map[string]any); isObject {
		effort, there := r["effort"]
		if !there {
			effort = "medium"
		}
		chat["reasoning_effort"] = effort
		if r["effort"] == "none" || !naiveTrue(r["effort"]) && r["reasoning_effort"] == "none" {
			off := map[string]any{"thinking": false, "enable_thinking": false}
			maps.Copy(off, kwargs)
			kwargs = off
		}
	}
	if kwargs != nil {
		chat["chat_template_kwargs"] = kwargs
	}
	return nil
}
