package chattemplate

import (
	"slices"
	"strings"
)

// contentFormat is how SGLang hands a message's content to a template.
type contentFormat uint8

const (
	formatString contentFormat = iota // lists of parts become one string
	formatOpenAI                      // lists of parts stay lists
)

// detectFormat is detect_jinja_template_content_format of SGLang
// (srt/parser/jinja_template_utils.py, the same from 0.5.8 to 0.5.23): a template that names media,
// or that loops over the content of a message, gets lists.
func detectFormat(source string) contentFormat {
	for _, word := range []string{"image", "audio", "video", "vision"} {
		if strings.Contains(source, word) {
			return formatOpenAI
		}
	}
	body, _, err := parse(source)
	if err != nil {
		return formatString
	}
	if loopsOverContent(body) {
		return formatOpenAI
	}
	return formatString
}

// loopsOverContent checks every loop, also inside of macros, as find_all does.
func loopsOverContent(list []stmt) bool {
	for _, st := range list {
		if f, ok := st.(*forStmt); ok && isContent(f.iter) {
			return true
		}
		_, bodies := parts(st)
		if slices.ContainsFunc(bodies, loopsOverContent) {
			return true
		}
	}
	return false
}

// isContent reports whether an expression is message.content or the like, perhaps filtered or
// sliced.
func isContent(e expr) bool {
	of := func(obj expr) bool {
		n, ok := obj.(*nameExpr)
		return ok && (n.name == "message" || n.name == "msg" || n.name == "m")
	}
	switch e := e.(type) {
	case *filterExpr:
		return e.x != nil && isContent(e.x)
	case *testExpr:
		return isContent(e.x)
	case *sliceExpr:
		return isContent(e.obj)
	case *attrExpr:
		return e.name == "content" && of(e.obj)
	case *itemExpr:
		c, ok := e.arg.(*constExpr)
		return ok && c.v.k == kString && c.v.s == "content" && of(e.obj)
	}
	return false
}
