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

// fail is a syntax error.
func (p *tokenStream) fail(line int, msg string) error { return &SyntaxError{Line: line, Msg: msg} }

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
func (p *tokenStream) unexpected(want string) error {
	t := p.cur()
	return p.fail(t.line, "expected "+want+", got "+t.describe())
}

// skipOp consumes an operator if it is next.
func (p *tokenStream) skipOp(op string) bool {
	if p.cur().is(op) {
		p.pos++
		return true
	}
	return false
}

// skipName consumes a word if it is next. Jinja has no reserved words: if is a name like others
// where an expression is due.
func (p *tokenStream) skipName(word string) bool {
	if p.cur().isName(word) {
		p.pos++
		return true
	}
	return false
}

// expectOp consumes an operator that must be next.
func (p *tokenStream) expectOp(op string) error {
	if !p.skipOp(op) {
		return p.unexpected(op)
	}
	return nil
}

// expectName consumes a name that must be next.
func (p *tokenStream) expectName() (token, error) {
	if p.cur().kind != tokName {
		return token{}, p.unexpected("a name")
	}
	return p.next(), nil
}

// expectEnd consumes the end of a tag.
func (p *tokenStream) expectEnd(kind tokenKind) error {
	if p.cur().kind != kind {
		return p.unexpected("the end of the tag")
	}
	p.pos++
	return nil
}

// enter counts a level of nesting.
func (p *tokenStream) enter() error {
	if p.depth++; p.depth > maxNesting {
		return p.fail(p.cur().line, "nested too deep")
	}
	return nil
}
