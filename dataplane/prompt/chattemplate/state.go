package chattemplate

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// state is one render of a template: its variables, its output, and the memory behind its values.
// States are pooled, so that a render of an ordinary request allocates nothing.
type state struct {
	arena
	out   []byte
	base  int // length of out before the render
	t     *Template
	now   func() time.Time
	depth int // nesting of macro calls and of compared lists

	context []value // values of the names that the template reads of its input, by index in t.names
	frame   *frame
	stack   []value // arguments of the calls in progress
	parsed  []value // elements of JSON lists in progress, of the decoder
	prep    preparation
}

// frame holds the variables of a function that is being run.
type frame struct {
	vars  []value
	outer *frame
}

// step counts work that the input can multiply, and reports whether to go on.
func (s *state) step(n int) bool {
	s.steps += n
	if s.steps > s.limit.Steps && s.err == nil {
		s.err = fmt.Errorf("%w: %d steps", ErrLimit, s.limit.Steps)
	}
	return fits(s, 0)
}

// scanBytes are the bytes of a string that one step searches: the slowest search takes 50 ns for
// each.
const scanBytes = 16

// scan counts the steps of going over n bytes of a string.
func scan(s *state, n int) bool { return n < scanBytes || s.step(n/scanBytes) }

// fits reports whether n more bytes of text may be output.
func fits(s *state, n int) bool {
	if len(s.out)-s.base+n > s.limit.Output && s.err == nil {
		s.err = fmt.Errorf("%w: %d bytes of text", ErrLimit, s.limit.Output)
	}
	return s.err == nil
}

// lookup is a key of a dict. A dict without an index is searched.
func lookup(s *state, o *object, key string) (value, bool) {
	if o.index == nil {
		s.steps += len(o.keys) / scanBytes
	}
	return o.get(key)
}

func (s *state) enter(sc scope) {
	s.steps += len(sc) / 8
	for i := range sc {
		e := &sc[i]
		switch e.kind {
		case loadMissing:
			s.frame.vars[e.slot] = value{}
		default:
			s.frame.vars[e.slot] = s.load(e.from)
		}
	}
}

// load reads a variable, which may be missing.
func (s *state) load(r varRef) value {
	if r.context {
		return s.context[r.slot]
	}
	f := s.frame
	for n := r.hops; n > 0; n-- {
		f = f.outer
	}
	return f.vars[r.slot]
}

// cutOutput removes the text behind an offset from the output and returns it.
func (s *state) cutOutput(from int) string {
	text := s.text.concat(view(s.out[from:]), "")
	s.out = s.out[:from]
	return text
}

func (s *state) retry(dst []byte) {
	s.err, s.out, s.depth = nil, dst, 0
	clear(s.context)
}

func (s *state) write(v value) {
	switch v.k {
	case kString, kMarkup, kBig:
		if fits(s, len(v.s)) {
			s.out = append(s.out, v.s...)
		}
	case kInt:
		s.out = strconv.AppendInt(s.out, v.n, 10)
	case kUndefined, kMissing:
	case kNone, kBool:
		s.out = append(s.out, toStr(s, v)...)
	default:
		s.out = appendRepr(s, s.out, v, 0)
	}
}

// set gives a name of the context its value, if the template reads it.
func (s *state) set(name string, v value) {
	if i := slices.Index(s.t.names, name); i >= 0 {
		s.context[i] = v
	}
}

// render runs the template on the context and appends to s.out.
func (s *state) render() error {
	s.frame = &s.frames.take(1)[0]
	s.frame.vars = s.values.take(s.t.info.slots)
	s.enter(s.t.scope)
	s.run(s.t.body)
	return s.err
}
