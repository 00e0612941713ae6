package responses

import (
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// customParameters is the schema of the function that SGLang shows for a custom tool.
const customParameters = `{"type":"object","properties":{"input":{"type":"string",` +
	`"description":"The freeform text payload for this tool."}},"required":["input"],"additionalProperties":false}`

// tool holds the members of a tool as raw JSON; nil where they are absent or null.
type tool struct {
	kind, name, description, parameters, strict, format []byte
	nullStrict                                          bool
}

func (t *tool) read(raw []byte) error {
	*t = tool{}
	if !isObject(raw) {
		return refused("a tool is no object")
	}
	_, err := openai.Members(raw, 0, func(key []byte, lo, hi int) {
		v := present(raw[lo:hi])
		switch string(openai.Unescape(key)) {
		case "type":
			t.kind = v
		case "name":
			t.name = v
		case "description":
			t.description = v
		case "parameters":
			t.parameters = v
		case "strict":
			t.strict, t.nullStrict = v, v == nil
		case "format":
			t.format = v
		}
	})
	if err != nil {
		return refused(err.Error())
	}
	return t.check()
}

// check refuses tools that the engine refuses.
func (t *tool) check() error {
	switch {
	case !isString(t.kind) || !isToolType(string(openai.Unescape(inside(t.kind)))):
		return refused("a tool of an unknown type")
	case t.name != nil && !isString(t.name), t.description != nil && !isString(t.description),
		t.parameters != nil && !isObject(t.parameters), t.format != nil && !isObject(t.format), t.nullStrict:
		return refused("a malformed tool")
	case is(t.kind, "function") && !truthy(t.name):
		return refused("a function without a name")
	case is(t.kind, "shell"):
		return refused("a shell tool")
	case t.strict != nil && t.strict[0] != 't' && t.strict[0] != 'f':
		return unsupported("strict is neither true nor false")
	}
	for _, name := range [...]string{"syntax", "definition"} {
		if v := member(t.format, name); truthy(v) && !isString(v) {
			return unsupported("a grammar that is no text")
		}
	}
	return nil
}

// isToolType reports whether an engine takes tools of a type. It shows functions and custom tools
// to the model, and no others.
func isToolType(kind string) bool {
	switch kind {
	case "function", "web_search", "web_search_preview", "code_interpreter", "file_search", "image_generation",
		"computer_use_preview", "local_shell", "shell", "mcp", "custom", "namespace", "tool_search":
		return true
	}
	return false
}

// appendTools appends tools and tool_choice (_response_tools_to_chat_tools).
func appendTools(dst []byte, f *fields) ([]byte, error) {
	choice, named, err := readChoice(f.toolChoice)
	if err != nil {
		return dst, err
	}
	if f.tools == nil {
		if is(choice, "required") || named {
			return dst, refused("a tool_choice without tools")
		}
		return dst, nil
	}
	if !isList(f.tools) {
		return dst, refused("tools is no list")
	}
	start, shown, declared, name := len(dst), 0, false, ""
	if named {
		name = string(openai.Unescape(inside(choice)))
	}
	dst = append(dst, `,"tools":[`...)
	var t tool
	_, _ = openai.Elements(f.tools, 0, func(lo, hi int) {
		if err != nil {
			return
		}
		if err = t.read(f.tools[lo:hi]); err != nil {
			return
		}
		custom := is(t.kind, "custom") && truthy(t.name)
		if !custom && !is(t.kind, "function") {
			return
		}
		if shown++; shown > 1 {
			dst = append(dst, ',')
		}
		declared = declared || named && is(t.name, name)
		dst = t.appendTo(dst, custom)
	})
	switch {
	case err != nil:
		return dst, err
	case named && !declared, shown == 0 && is(choice, "required"):
		return dst, refused("a tool_choice without its tool")
	case shown == 0:
		return dst[:start], nil
	}
	dst = append(dst, ']')
	switch {
	case named:
		dst = append(append(append(dst, `,"tool_choice":{"type":"function","function":{"name":`...), choice...), `}}`...)
	case !is(choice, "auto"):
		dst = appendMember(dst, "tool_choice", choice)
	}
	return dst, nil
}

// modeAuto is the tool_choice of bodies that name none. Never written to.
var modeAuto = []byte(`"auto"`)

// readChoice reads tool_choice: a mode, or the name of a tool. Other objects cannot be honored and
// mean "auto" (effective_tool_choice).
func readChoice(raw []byte) (choice []byte, named bool, err error) {
	switch {
	case raw == nil, is(raw, "auto"):
		return modeAuto, false, nil
	case is(raw, "required"), is(raw, "none"):
		return raw, false, nil
	case !isObject(raw):
		return nil, false, refused("an unknown tool_choice")
	}
	kind, name := member(raw, "type"), member(raw, "name")
	if !truthy(name) {
		name = member(member(raw, "function"), "name")
	}
	if (is(kind, "function") || is(kind, "custom")) && truthy(name) {
		if !isString(name) {
			return nil, false, refused("a tool_choice with a name that is no text")
		}
		return name, true, nil
	}
	return modeAuto, false, nil
}

// appendTo appends the tool as a chat has it.
func (t *tool) appendTo(dst []byte, custom bool) []byte {
	dst = append(dst, `{"type":"function","function":{"name":`...)
	dst = append(dst, t.name...)
	dst = append(dst, `,"description":`...)
	if custom {
		dst = t.appendCustomDescription(dst)
		dst = append(dst, `,"parameters":`+customParameters...)
	} else {
		dst = appendOrNull(dst, t.description)
		dst = append(dst, `,"parameters":`...)
		dst = appendOrNull(dst, t.parameters)
	}
	if len(t.strict) > 0 && t.strict[0] == 't' {
		return append(dst, `,"strict":true}}`...)
	}
	return append(dst, `,"strict":false}}`...)
}

// appendCustomDescription appends the description of a custom tool with its grammar.
func (t *tool) appendCustomDescription(dst []byte) []byte {
	grammar := is(member(t.format, "type"), "grammar")
	if !truthy(t.description) && !grammar {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	if truthy(t.description) {
		dst = append(dst, inside(t.description)...)
	}
	if !grammar {
		return append(dst, '"')
	}
	if truthy(t.description) {
		dst = append(dst, `\n\n`...)
	}
	dst = append(dst, "The payload must conform to this "...)
	if syntax := member(t.format, "syntax"); truthy(syntax) {
		dst = append(dst, inside(syntax)...)
	} else {
		dst = append(dst, "lark"...)
	}
	dst = append(dst, ` grammar:\n`...)
	if definition := member(t.format, "definition"); truthy(definition) {
		dst = append(dst, inside(definition)...)
	}
	return append(dst, '"')
}
