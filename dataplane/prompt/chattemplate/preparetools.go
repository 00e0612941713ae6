package chattemplate

import "slices"

// tools makes the list of tools that the template gets, or None.
func (p *preparation) tools() value {
	only, mode := p.toolChoice()
	v := noneValue
	if sent(p.req.Tools) {
		if v = decodeJSON(p.s, p.req.Tools, true); v.k != kList {
			return p.refuse("tools that are not a list")
		}
	}
	if v.k == kNone || len(v.o.items) == 0 {
		if mode == "required" || only.k == kString {
			return p.refuse("a tool_choice without tools")
		}
		return noneValue
	}
	selected := v.o.items[:0:len(v.o.items)]
	for _, tool := range v.o.items {
		if tool.k != kDict {
			return p.refuse("a tool that is not an object")
		}
		made, name := p.tool(tool.o)
		if p.s.err != nil {
			return v
		}
		if only.k != kString || only.s == name {
			selected = append(selected, made)
		}
	}
	if v.o.items = selected; len(selected) == 0 {
		return p.refuse("a tool_choice that names no tool")
	}
	if mode == "none" {
		return noneValue
	}
	return v
}

// toolChoice reads tool_choice: a mode, or in only the name of the one tool that is shown.
func (p *preparation) toolChoice() (only value, mode string) {
	if !sent(p.req.ToolChoice) {
		// By set_tool_choice_default; without tools it makes no difference.
		return noneValue, "auto"
	}
	v := decodeJSON(p.s, p.req.ToolChoice, true)
	switch {
	case v.k == kString && (v.s == "auto" || v.s == "required" || v.s == "none"):
		return noneValue, v.s
	case v.k == kDict:
		if kind, ok := v.o.get("type"); ok && (kind.k != kString || kind.s != "function") {
			break
		}
		if f, ok := v.o.get("function"); ok && f.k == kDict {
			if name, _ := f.o.get("name"); name.k == kString {
				return name, ""
			}
		}
	}
	return p.refuse("an unknown tool_choice"), ""
}

// tool is model_dump of Tool.
func (p *preparation) tool(o *object) (made value, name string) {
	kind, ok := o.get("type")
	if !ok {
		kind = strValue("function")
	}
	f, _ := o.get("function")
	deferred, _ := o.get("defer_loading")
	if kind.k != kString || f.k != kDict || deferred.k != kUndefined && deferred.k != kNone {
		return p.refuse("a malformed tool"), ""
	}
	function, name := p.function(f.o)
	return newDict(p.s, strValue("type"), kind, strValue("function"), function, strValue("defer_loading"), noneValue), name
}

// function is model_dump of Function: None for a field that was not sent, except for strict and
// defer_loading.
func (p *preparation) function(o *object) (made value, name string) {
	id, _ := o.get("name")
	if id.k != kString {
		return p.refuse("a function without a name"), ""
	}
	description, strict := p.want(o, "description", kString), p.want(o, "strict", kBool)
	if v, ok := o.get("defer_loading"); ok && v.k != kNone {
		return p.refuse("a malformed tool"), ""
	}
	parameters, ok := o.get("parameters")
	if !ok {
		parameters = noneValue
	}
	p.checkSchema(parameters)
	if v, sent := o.get("strict"); !p.m.dialect.keepKeyOrder && strict.k == kNone {
		if sent && v.k == kNone {
			return p.refuse("strict is null"), "" // no bool: 400
		}
		strict = boolValue(false)
	}
	fields := []string{"description", "name", "parameters", "strict"}
	values := []value{description, id, parameters, strict}
	if strict.k == kNone {
		fields, values = fields[:3], values[:3]
	}
	pairs := make([]value, 0, 8)
	if p.m.dialect.keepKeyOrder {
		for _, k := range o.keys {
			if at := slices.Index(fields, k.s); at >= 0 {
				pairs = append(pairs, k, values[at])
			}
		}
	}
	for i, field := range fields {
		if _, there := o.get(field); !there || !p.m.dialect.keepKeyOrder {
			pairs = append(pairs, strValue(field), values[i])
		}
	}
	return newDict(p.s, pairs...), id.s
}

// jsonTypes are the types of JSON Schema. SGLang rewrites others, such as varchar and int, before
// it renders (0.5.13).
var jsonTypes = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

// checkSchema refuses a schema, or a list of them, in which normalize_json_schema_types
// (srt/function_call/utils.py) would change something. The decoder bounds their depth.
func (p *preparation) checkSchema(v value) {
	if v.k == kList {
		p.checkSchemas(v.o.items)
	}
	if v.k != kDict {
		return
	}
	if t, ok := v.o.get("type"); ok && !plainTypes(t) {
		p.refuse("a type in a tool's schema that SGLang may rewrite")
	}
	for i, k := range v.o.keys {
		item := v.o.items[i]
		switch k.s {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			if item.k == kDict {
				p.checkSchemas(item.o.items)
			}
		case "anyOf", "oneOf", "allOf", "prefixItems", "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
			"unevaluatedItems", "unevaluatedProperties":
			p.checkSchema(item)
		}
	}
}

func (p *preparation) checkSchemas(items []value) {
	for _, item := range items {
		p.checkSchema(item)
	}
}

func plainTypes(t value) bool {
	switch t.k {
	case kString:
		return slices.Contains(jsonTypes, t.s)
	case kList:
		for i, item := range t.o.items {
			if item.k != kString || !slices.Contains(jsonTypes, item.s) {
				return false
			}
			for _, before := range t.o.items[:i] {
				if before.s == item.s {
					return false
				}
			}
		}
	}
	return true
}

// bareFunctions returns the tools of SGLang's second attempt.
func (p *preparation) bareFunctions(tools value) value {
	items := p.s.list(len(tools.o.items))
	if items == nil {
		return undefValue
	}
	for i, tool := range tools.o.items {
		items[i], _ = tool.o.get("function")
	}
	return p.s.listValue(kList, items)
}
