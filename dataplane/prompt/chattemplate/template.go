package chattemplate

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Template is a compiled chat template.
type Template struct {
	body    []stmt
	scope   scope
	info    funcInfo
	names   []string // names that the template reads of the request
	filters map[string]filterFunc
	tests   map[string]testFunc
	pool    sync.Pool // of *state
}

// Limits bound one render, so that a hostile template or request costs no more than a large one.
// Zero values are the defaults, which depend on the bytes of the request. Templates of real models
// take half a step and 40 bytes of memory for each.
type Limits struct {
	Output int // bytes of text; 1 MiB and 8 a byte, up to 64 MiB
	Memory int // bytes of values and strings made on the way; 8 MiB and 128 a byte, up to 256 MiB
	// Turns of loops, calls, elements visited, strings searched by scanBytes; a million and 8 a
	// byte, up to 5 million, about half a second.
	Steps int
}

// withDefaults sets defaults for zero limits and a request of n bytes.
func (l Limits) withDefaults(n int) Limits {
	if l.Output == 0 {
		l.Output = min(1<<20+8*n, 64<<20)
	}
	if l.Memory == 0 {
		l.Memory = min(8<<20+128*n, 256<<20)
	}
	if l.Steps == 0 {
		l.Steps = min(1_000_000+8*n, 5_000_000)
	}
	return l
}

// maxSource bounds a template; real ones of 2026 have up to 60 KB. A chain of operators nests one
// level for every two bytes.
const maxSource = 256 << 10

// Compile reads a template. It returns a *[SyntaxError] for invalid Jinja, [ErrLimit] for a
// template that is too large, and an *[UnsupportedError] that names every construct that is not
// rendered here.
func Compile(source string) (*Template, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("%w: a template of %d bytes", ErrLimit, len(source))
	}
	body, gaps, err := parse(source)
	if err != nil {
		return nil, err
	}
	t := &Template{body: body, filters: filters, tests: tests}
	b := &binder{gaps: gaps}
	sy := newSymbols(nil, &t.info)
	sy.stmts(body)
	t.scope = b.scope(sy)
	b.stmts(body, sy)
	t.names = b.names
	b.check(body)
	if len(b.gaps) > 0 {
		slices.SortStableFunc(b.gaps, func(x, y Gap) int { return x.Line - y.Line })
		return nil, &UnsupportedError{Gaps: slices.Compact(b.gaps)}
	}
	t.pool.New = func() any { return &state{t: t, context: make([]value, len(t.names))} }
	return t, nil
}

// check notes functions and methods that are not rendered here.
func (b *binder) check(body []stmt) {
	walkStmts(body, func(e expr) {
		switch e := e.(type) {
		case *nameExpr:
			if e.ref.context && slices.Contains(missingGlobals, e.name) {
				b.gaps = append(b.gaps, Gap{e.line, "function " + e.name})
			}
		case *callExpr:
			if at, ok := e.fn.(*attrExpr); ok && !at.plain && !knownMethod(at.name) && !hidden(at.name) {
				b.gaps = append(b.gaps, Gap{at.line, "method " + at.name})
			}
		}
	})
}

// hidden reports whether a method is hidden by the sandbox: calling it raises, here as well.
func hidden(name string) bool {
	for _, list := range unsafeAttrs {
		if slices.Contains(list, name) {
			return true
		}
	}
	return strings.HasPrefix(name, "_")
}

// begin takes a state for one render of a request of so many bytes.
func (t *Template) begin(dst []byte, limits Limits, size int, now func() time.Time) *state {
	s, _ := t.pool.Get().(*state)
	s.out, s.base, s.limit, s.now = dst, len(dst), limits.withDefaults(size), now
	return s
}

// end gives a state back, without anything of the request in it. A panic of this package would be a
// bug; it ends as an error that leaves the request to the worker, since the router must not die of
// one prompt.
func (t *Template) end(s *state, dst []byte, out *[]byte, err *error) {
	if what := recover(); what != nil {
		*out, *err = dst, fmt.Errorf("%w: %w: %v", ErrUnsupported, errBug, what)
		return // the state is left to the garbage collector
	}
	s.reset()
	clear(s.context)
	*s = state{
		t: t, context: s.context, arena: s.arena,
		stack: emptied(s.stack), parsed: emptied(s.parsed), prep: preparation{vars: s.prep.vars.emptied()},
	}
	t.pool.Put(s)
}

// emptied clears a stack, and drops it if it has grown large.
func emptied(stack []value) []value {
	if cap(stack) > keepValues {
		return nil
	}
	clear(stack[:cap(stack)])
	return stack[:0]
}
