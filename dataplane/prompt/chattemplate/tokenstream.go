package chattemplate

import (
	"slices"
	"strings"
)

// tokenStream is the tokens of a template, read by the parsers of expressions and statements.
type tokenStream struct {
	tokens []token
	pos    int
	depth  int   // of nested tags and expressions
	gaps   []Gap // constructs that are not rendered here
	err    error // the first; the template then reads as if it ended there
}

// maxNesting bounds how deep tags and expressions may nest: parsing is recursive.
const maxNesting = 200

// cur returns the current token; at the end it stays tokEOF.
func (p *tokenStream) cur() token { return p.tokens[p.pos] }

// peek returns the token behind the current one.
func (p *tokenStream) peek() token { return p.tokens[min(p.pos+1, len(p.tokens)-1)] }

// next returns the current token and goes on to the next.
func (p *tokenStream) next() token {
	t := p.tokens[p.pos]
	if p.pos < len(p.tokens)-1 {
		p.pos++
	}
	return t
}

func (p *tokenStream) fail(line int, msg string) {
	if p.err == nil {
		p.err = &SyntaxError{Line: line, Msg: msg}
	}
	p.tokens, p.pos = []token{{kind: tokEOF, line: line}}, 0
}

// gap notes a valid construct that is not rendered here. Parsing goes on, so that all gaps are
// found at once.
func (p *tokenStream) gap(line int, what string) { p.gaps = append(p.gaps, Gap{line, what}) }

// branches drops the gaps since a mark that Jinja leaves to the run, where the code since is a
// conditional: filters and tests that it does not know.
func (p *tokenStream) branches(mark int) {
	kept := slices.DeleteFunc(p.gaps[mark:], func(g Gap) bool {
		return strings.HasPrefix(g.What, gapFilter) || strings.HasPrefix(g.What, gapTest)
	})
	p.gaps = p.gaps[:mark+len(kept)]
}

// Beginnings of gaps that may lie in a branch that never runs.
const gapFilter, gapTest = "filter ", "test "

// unexpected is a syntax error at a token other than the expected one.
func (p *tokenStream) unexpected(want string) {
	t := p.cur()
	p.fail(t.line, "expected "+want+", got "+t.describe())
}

func (p *tokenStream) skipOp(op string) bool {
	found := p.cur().is(op)
	if found {
		p.pos++
	}
	return found
}

// skipName consumes a word if it is next. Jinja has no reserved words: if is a name like others
// where an expression is due.
func (p *tokenStream) skipName(word string) bool {
	found := p.cur().isName(word)
	if found {
		p.pos++
	}
	return found
}

func (p *tokenStream) expectOp(op string) {
	if !p.skipOp(op) {
		p.unexpected(op)
	}
}

func (p *tokenStream) expectName() token {
	if p.cur().kind != tokName {
		p.unexpected("a name")
		return token{}
	}
	return p.next()
}

func (p *tokenStream) expectEnd(kind tokenKind) {
	if p.cur().kind != kind {
		p.unexpected("the end of the tag")
		return
	}
	p.pos++
}

// list parses items parted by commas up to the closing bracket, which it consumes. With trailing, a
// comma may stand behind the last one.
func (p *tokenStream) list(closing string, trailing bool, item func()) {
	for first := true; p.err == nil && !p.skipOp(closing); first = false {
		if !first {
			if p.expectOp(","); trailing && p.skipOp(closing) {
				return
			}
		}
		item()
	}
}

// enter counts a level of nesting, which ends with leave.
func (p *tokenStream) enter() {
	if p.depth++; p.depth > maxNesting {
		p.fail(p.cur().line, "nested too deep")
	}
}

func (p *tokenStream) leave() { p.depth-- }
