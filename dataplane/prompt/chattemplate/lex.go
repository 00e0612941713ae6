package chattemplate

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind is the kind of a token. The names follow Jinja's lexer; this file implements its rules
// (jinja2/lexer.py, 3.1).
type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokData
	tokBlockBegin
	tokBlockEnd
	tokVarBegin
	tokVarEnd
	tokName
	tokString
	tokInt
	tokFloat
	tokOp // text is the operator
)

// token is one lexical element. For tokString text is unescaped; for tokInt and tokFloat it is
// without underscores.
type token struct {
	kind tokenKind
	line int
	text string
}

func (t token) is(op string) bool { return t.kind == tokOp && t.text == op }

func (t token) isName(word string) bool { return t.kind == tokName && t.text == word }

func (t token) describe() string {
	switch t.kind {
	case tokEOF:
		return "end of template"
	case tokBlockEnd:
		return "end of statement block"
	case tokVarEnd:
		return "end of print statement"
	default:
		return t.text
	}
}

// lexer splits a template with the settings that transformers uses: trim_blocks, lstrip_blocks, one
// trailing newline dropped.
type lexer struct {
	src    string
	pos    int
	line   int
	starts bool // the text before pos ends a line, or is nothing
	tokens []token
	gaps   []Gap
	err    error // the first, which ends the lexing
}

// lex returns the tokens of a template, ended by tokEOF.
func lex(src string) ([]token, []Gap, error) {
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	src = strings.TrimSuffix(src, "\n")
	l := &lexer{src: src, line: 1, starts: true}
	for l.pos < len(l.src) && l.err == nil {
		l.root()
	}
	l.emit(tokEOF, "")
	return l.tokens, l.gaps, l.err
}

// fail notes a syntax error on the line in hand.
func (l *lexer) fail(msg string) {
	if l.err == nil {
		l.err = &SyntaxError{Line: l.line, Msg: msg}
	}
}

func (l *lexer) emit(kind tokenKind, text string) {
	l.tokens = append(l.tokens, token{kind, l.line, text})
}

// take consumes n bytes and counts their lines.
func (l *lexer) take(n int) {
	if n == 0 {
		return
	}
	l.line += strings.Count(l.src[l.pos:l.pos+n], "\n")
	l.pos += n
	l.starts = l.src[l.pos-1] == '\n'
}

// root consumes text up to the next tag, and the tag.
func (l *lexer) root() {
	rest := l.src[l.pos:]
	open := nextTag(rest)
	if open < 0 {
		l.emit(tokData, rest)
		l.take(len(rest))
		return
	}
	tag := rest[open : open+2]
	text := rest[:open]
	sign := byte(0)
	width := open + 2
	if width < len(rest) && (rest[width] == '-' || rest[width] == '+') {
		sign = rest[width]
		width++
	}
	text = l.stripped(text, sign, tag == "{{")
	if text != "" {
		l.emit(tokData, text)
	}
	l.take(width)
	switch tag {
	case "{#":
		l.comment()
	case "{{":
		l.emit(tokVarBegin, tag)
		l.inside(tokVarEnd)
	default:
		if n := rawBegin(l.src[l.pos:]); n > 0 {
			l.take(n)
			l.raw()
			return
		}
		l.emit(tokBlockBegin, tag)
		l.inside(tokBlockEnd)
	}
}

// nextTag returns where the next of {{, {% and {# stands, or -1.
func nextTag(s string) int {
	for i := 0; ; i++ {
		n := strings.IndexByte(s[i:], '{')
		if n < 0 || i+n+1 >= len(s) {
			return -1
		}
		i += n
		if c := s[i+1]; c == '{' || c == '%' || c == '#' {
			return i
		}
	}
}

// stripped applies the whitespace control of a tag to the text before it.
func (l *lexer) stripped(text string, sign byte, isVar bool) string {
	switch {
	case sign == '-':
		return strings.TrimRightFunc(text, isPySpace)
	case sign == '+' || isVar:
		return text
	}
	// lstrip_blocks: space between the start of the line and the tag is dropped.
	from := strings.LastIndexByte(text, '\n') + 1
	if (from > 0 || l.starts) && strings.TrimLeftFunc(text[from:], isPySpace) == "" {
		return text[:from]
	}
	return text
}

func (l *lexer) comment() {
	n := strings.Index(l.src[l.pos:], "#}")
	if n < 0 {
		l.fail("Missing end of comment tag")
		return
	}
	sign := byte(0)
	if n > 0 {
		sign = l.src[l.pos+n-1]
	}
	l.take(n + 2)
	l.closed(sign, true)
}

// closed consumes the white space that whitespace control drops behind a tag, which ended with the
// given sign.
func (l *lexer) closed(sign byte, trimNewline bool) {
	rest := l.src[l.pos:]
	switch {
	case sign == '-':
		l.take(len(rest) - len(strings.TrimLeftFunc(rest, isPySpace)))
	case sign != '+' && trimNewline && strings.HasPrefix(rest, "\n"):
		l.take(1)
	}
}

// rawBegin returns the length of the rest of a raw tag behind its {% and sign, or 0.
func rawBegin(s string) int {
	rest := strings.TrimLeftFunc(s, isPySpace)
	rest, ok := strings.CutPrefix(rest, "raw")
	if !ok {
		return 0
	}
	rest = strings.TrimLeftFunc(rest, isPySpace)
	if after, ok := strings.CutPrefix(rest, "-%}"); ok {
		return len(s) - len(strings.TrimLeftFunc(after, isPySpace))
	}
	if after, ok := strings.CutPrefix(rest, "%}"); ok {
		return len(s) - len(after)
	}
	return 0
}

func (l *lexer) raw() {
	rest := l.src[l.pos:]
	for from := 0; ; {
		n := strings.Index(rest[from:], "{%")
		if n < 0 {
			l.fail("Missing end of raw directive")
			return
		}
		open := from + n
		from = open + 2
		tail := rest[from:]
		sign := byte(0)
		if tail != "" && (tail[0] == '-' || tail[0] == '+') {
			sign, tail = tail[0], tail[1:]
		}
		tail, ok := strings.CutPrefix(strings.TrimLeftFunc(tail, isPySpace), "endraw")
		if !ok {
			continue
		}
		tail = strings.TrimLeftFunc(tail, isPySpace)
		end := byte(0)
		if tail != "" && (tail[0] == '-' || tail[0] == '+') {
			end, tail = tail[0], tail[1:]
		}
		if !strings.HasPrefix(tail, "%}") {
			continue
		}
		if text := l.stripped(rest[:open], sign, false); text != "" {
			l.emit(tokData, text)
		}
		l.take(len(rest) - len(tail) + 2)
		l.closed(end, true)
		return
	}
}

func (l *lexer) inside(end tokenKind) {
	var open []byte // closing brackets that are awaited
	for l.pos < len(l.src) && l.err == nil {
		rest := l.src[l.pos:]
		if len(open) == 0 && l.tagEnd(rest, end) {
			return
		}
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case isPySpace(r):
			l.take(size)
		case r >= '0' && r <= '9':
			l.number(rest)
		case isWord(r):
			l.word(rest)
		case r == '\'' || r == '"':
			l.quoted(rest)
		default:
			op := operatorOf(rest)
			if op == "" {
				l.fail("unexpected char " + strconv.Quote(string(r)))
				return
			}
			open = l.balance(open, op)
			l.emit(tokOp, op)
			l.take(len(op))
		}
	}
	l.emit(tokEOF, "")
}

func (l *lexer) tagEnd(rest string, end tokenKind) bool {
	closing, signs := "%}", "-+"
	if end == tokVarEnd {
		closing, signs = "}}", "-"
	}
	sign := byte(0)
	if strings.IndexByte(signs, rest[0]) >= 0 {
		sign, rest = rest[0], rest[1:]
	}
	if !strings.HasPrefix(rest, closing) {
		return false
	}
	l.emit(end, closing)
	if sign != 0 {
		l.take(1)
	}
	l.take(2)
	l.closed(sign, end == tokBlockEnd)
	return true
}

// balance keeps track of brackets, so that }} inside of a dict does not end a tag.
func (l *lexer) balance(open []byte, op string) []byte {
	switch at := strings.Index("{}()[]", op); {
	case at < 0:
	case at%2 == 0:
		return append(open, "{}()[]"[at+1])
	case len(open) == 0 || open[len(open)-1] != op[0]:
		l.fail("unexpected " + op)
	default:
		return open[:len(open)-1]
	}
	return open
}

// operatorOf returns the operator that s begins with, the longest first, or "".
func operatorOf(s string) string {
	if len(s) >= 2 {
		switch s[:2] {
		case "//", "**", "==", "!=", ">=", "<=":
			return s[:2]
		}
	}
	if strings.IndexByte("+-/*%~[](){}><=.:|,;", s[0]) >= 0 {
		return s[:1]
	}
	return ""
}

// isWord reports whether a rune is matched by \w of Python's re.
func isWord(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r)
}

func (l *lexer) word(rest string) {
	n := len(rest) - len(strings.TrimLeftFunc(rest, isWord))
	name := rest[:n]
	for _, r := range name {
		// Python folds such names to NFKC; no template was seen to use them.
		if r >= utf8.RuneSelf {
			l.gaps = append(l.gaps, Gap{l.line, "name " + name})
			break
		}
	}
	l.emit(tokName, name)
	l.take(n)
}
