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
}

func (t *tool) read(raw []byte) error {
	*t = tool{}
	if !openai.IsObject(raw) {
		return refused("a tool is no object")
	}
	openai.Pick(raw, 0, openai.To("type", &t.kind), openai.To("name", &t.name), openai.To("description", &t.description),
		openai.To("parameters", &t.parameters), openai.To("strict", &t.strict), openai.To("format", &t.format))
	if _, sent := openai.LastMember(raw, "strict"); sent && t.strict == nil {
		return refused("a malformed tool")
	}
	return t.check()
}

func (t *tool) check() error {
	switch {
	case !openai.IsString(t.kind) || !isToolType(string(openai.Unescape(openai.Inside(t.kind)))):
		return refused("a tool of an unknown type")
	case t.name != nil && !openai.IsString(t.name), t.description != nil && !openai.IsString(t.description),
		t.parameters != nil && !openai.IsObject(t.parameters), t.format != nil && !openai.IsObject(t.format):
		return refused("a malformed tool")
	case openai.Is(t.kind, "function") && !truthy(t.name):
		return refused("a function without a name")
	case openai.Is(t.kind, "shell"):
		return refused("a shell tool")
	case t.strict != nil && t.strict[0] != 't' && t.strict[0] != 'f':
		return unsupported("strict is neither true nor false")
	}
	for _, name := range [...]string{"syntax", "definition"} {
		if v := openai.Member(t.format, name); truthy(v) && !openai.IsString(v) {
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
		if openai.Is(choice, "required") || named {
			return dst, refused("a tool_choice without tools")
		}
		return dst, nil
	}
	if !openai.IsList(f.tools) {
		return dst, refused("tools is no list")
	}
	start, shown, declared, name := len(dst), 0, false, ""
	if named {
		name = string(openai.Unescape(openai.Inside(choice)))
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
		custom := openai.Is(t.kind, "custom") && truthy(t.name)
		if !custom && !openai.Is(t.kind, "function") {
			return
		}
		if shown++; shown > 1 {
			dst = append(dst, ',')
		}
		declared = declared || named && openai.Is(t.name, name)
		dst = t.appendTo(dst, custom)
	})
	switch {
	case err != nil:
		return dst, err
	case named && !declared, shown == 0 && openai.Is(choice, "required"):
		return dst, refused("a tool_choice without its tool")
	case shown == 0:
		return dst[:start], nil
	}
	dst = append(dst, ']')
	switch {
	case named:
		dst = append(append(append(dst, `,"tool_choice":{"type":"function","function":{"name":`...), choice...), `}}`...)
	case !openai.Is(choice, "auto"):
		dst = openai.AppendMember(dst, "tool_choice", choice)
	}
	return dst, nil
}

// modeAuto is the tool_choice of bodies that name none. Never written to.
var modeAuto = []byte(`"auto"`)

// readChoice reads tool_choice: a mode, or the name of a tool. Other objects cannot be honored and
// mean "auto" (effective_tool_choice).
func readChoice(raw []byte) (choice []byte, named bool, err error) {
	switch {
	case raw == nil, openai.Is(raw, "auto"):
		return modeAuto, false, nil
	case openai.Is(raw, "required"), openai.Is(raw, "none"):
		return raw, false, nil
	case !openai.IsObject(raw):
		return nil, false, refused("an unknown tool_choice")
	}
	kind, name := openai.Member(raw, "type"), openai.Member(raw, "name")
	if !truthy(name) {
		name = openai.Member(openai.Member(raw, "function"), "name")
	}
	if (openai.Is(kind, "function") || openai.Is(kind, "custom")) && truthy(name) {
		if !openai.IsString(name) {
			return nil, false, refused("a tool_choice with a name that is no text")
		}
		return name, true, nil
	}
	return modeAuto, false, nil
}

func (t *tool) appendTo(dst []byte, custom bool) []byte {
	dst = openai.AppendMember(append(dst, `{"type":"function","function":{`...), "name", t.name)
	if custom {
		dst = t.appendCustomDescription(openai.AppendName(dst, "description"))
		dst = append(dst, `,"parameters":`+customParameters...)
	} else {
		dst = openai.AppendMember(dst, "description", openai.OrNull(t.description))
		dst = openai.AppendMember(dst, "parameters", openai.OrNull(t.parameters))
	}
	if len(t.strict) > 0 && t.strict[0] == 't' {
		return append(dst, `,"strict":true}}`...)
	}
	return append(dst, `,"strict":false}}`...)
}

// appendCustomDescription appends the description of a custom tool with its grammar.
func (t *tool) appendCustomDescription(dst []byte) []byte {
	grammar := openai.Is(openai.Member(t.format, "type"), "grammar")
	if !truthy(t.description) && !grammar {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	if truthy(t.description) {
		dst = append(dst, openai.Inside(t.description)...)
	}
	if !grammar {
		return append(dst, '"')
	}
	if truthy(t.description) {
		dst = append(dst, `\n\n`...)
	}
	dst = append(dst, "The payload must conform to this "...)
	if syntax := openai.Member(t.format, "syntax"); truthy(syntax) {
		dst = append(dst, openai.Inside(syntax)...)
	} else {
		dst = append(dst, "lark"...)
	}
	dst = append(dst, ` grammar:\n`...)
	if definition := openai.Member(t.format, "definition"); truthy(definition) {
		dst = append(dst, openai.Inside(definition)...)
	}
	return append(dst, '"')
}
