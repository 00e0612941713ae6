package chattemplate

import "slices"

// tools makes the list of tools that the template gets, or None.
func (p *preparation) tools() (value, error) {
	only, mode, err := p.toolChoice()
	if err != nil {
		return only, err
	}
	v := noneValue
	if sent(p.req.Tools) {
		if v, err = decodeJSON(p.s, p.req.Tools, true); err != nil {
			return v, err
		}
		if v.k != kList {
			return v, refuse("tools that are not a list")
		}
	}
	if v.k == kNone || len(v.o.items) == 0 {
		if mode == "required" || only.k == kString {
			return v, refuse("a tool_choice without tools")
		}
		return noneValue, nil
	}
	selected := v.o.items[:0:len(v.o.items)]
	for _, tool := range v.o.items {
		if tool.k != kDict {
			return v, refuse("a tool that is not an object")
		}
		made, name, err := p.tool(tool.o)
		if err != nil {
			return v, err
		}
		if only.k != kString || only.s == name {
			selected = append(selected, made)
		}
	}
	if v.o.items = selected; len(selected) == 0 {
		return v, refuse("a tool_choice that names no tool")
	}
	if mode == "none" {
		return noneValue, nil
	}
	return v, p.s.err
}

// toolChoice reads tool_choice: a mode, or in only the name of the one tool that is shown.
func (p *preparation) toolChoice() (only value, mode string, err error) {
	if !sent(p.req.ToolChoice) {
		// By set_tool_choice_default; without tools it makes no difference.
		return noneValue, "auto", nil
	}
	v, err := decodeJSON(p.s, p.req.ToolChoice, true)
	if err != nil {
		return v, "", err
	}
	switch {
	case v.k == kString && (v.s == "auto" || v.s == "required" || v.s == "none"):
		return noneValue, v.s, nil
	case v.k == kDict:
		if kind, ok := v.o.get("type"); ok && (kind.k != kString || kind.s != "function") {
			break
		}
		if f, ok := v.o.get("function"); ok && f.k == kDict {
			if name, _ := f.o.get("name"); name.k == kString {
				return name, "", nil
			}
		}
	}
	return noneValue, "", refuse("an unknown tool_choice")
}

// tool is model_dump of Tool.
func (p *preparation) tool(o *object) (made value, name string, err error) {
	kind, ok := o.get("type")
	if !ok {
		kind = strValue("function")
	}
	f, _ := o.get("function")
	deferred, _ := o.get("defer_loading")
	if kind.k != kString || f.k != kDict || deferred.k != kUndefined && deferred.k != kNone {
		return made, "", refuse("a malformed tool")
	}
	function, name, err := p.function(f.o)
	if err != nil {
		return made, "", err
	}
	return newDict(p.s, strValue("type"), kind, strValue("function"), function, strValue("defer_loading"), noneValue), name, nil
}

// function is model_dump of Function: None for a field that was not sent, except for strict and
// defer_loading.
func (p *preparation) function(o *object) (made value, name string, err error) {
	id, _ := o.get("name")
	if id.k != kString {
		return made, "", refuse("a function without a name")
	}
	description, err := want(o, "description", kString)
	if err != nil {
		return made, "", err
	}
	strict, err := want(o, "strict", kBool)
	if err != nil {
		return made, "", err
	}
	if v, ok := o.get("defer_loading"); ok && v.k != kNone {
		return made, "", refuse("a malformed tool")
	}
	parameters, ok := o.get("parameters")
	if !ok {
		parameters = noneValue
	}
	if err := p.schema(parameters, 0); err != nil {
		return made, "", err
	}
	if v, sent := o.get("strict"); !p.m.dialect.keepKeyOrder && strict.k == kNone {
		if sent && v.k == kNone {
			return made, "", refuse("strict is null") // no bool: 400
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
	return newDict(p.s, pairs...), id.s, nil
}

// jsonTypes are the types of JSON Schema. SGLang rewrites others, such as varchar and int, before
// it renders (0.5.13).
var jsonTypes = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

// schema refuses a schema in which normalize_json_schema_types (srt/function_call/utils.py) would
// change something.
func (p *preparation) schema(v value, depth int) error {
	if v.k == kList {
		return p.schemas(v.o.items, depth)
	}
	if v.k != kDict {
		return nil
	}
	if t, ok := v.o.get("type"); ok && !plainTypes(t) {
		return refuse("a type in a tool's schema that SGLang may rewrite")
	}
	for i, k := range v.o.keys {
		item := v.o.items[i]
		var err error
		switch k.s {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			if item.k == kDict {
				err = p.schemas(item.o.items, depth)
			}
		case "anyOf", "oneOf", "allOf", "prefixItems", "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
			"unevaluatedItems", "unevaluatedProperties":
			err = p.schema(item, depth)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// schemas checks a list of schemas. The decoder bounds their depth.
func (p *preparation) schemas(items []value, depth int) error {
	for _, item := range items {
		if err := p.schema(item, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// plainTypes reports whether a type of a schema stays as it is.
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
