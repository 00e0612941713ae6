package chattemplate

import (
	"fmt"
	"time"
)

// state is one render. States are pooled: their slabs are what makes a render cheap.
type state struct {
	t     *Template
	out   []byte
	base  int // what was in out before
	err   error
	limit Limits
	now   func() time.Time

	context []value // by the template's names
	frame   *frame
	steps   int
	depth   int // of macro calls
	capture int // of texts that are not output yet
	loops   int // that are being gone through
	memory  int // bytes of strings made
	marks   []Mark

	values slab[value]
	objs   slab[object]
	frames slab[frame]
	states slab[loopState]
	text   bytesSlab
	prep   prep
	stack  []value // arguments of calls
	parsed []value // what the decoder has read of lists that are not ended
}

// frame holds the variables of a function that is being run.
type frame struct {
	vars  []value
	outer *frame
}

// raise keeps what Python would raise, and returns a value to go on with.
func (s *state) raise(line int, format string, args ...any) value {
	if s.err == nil {
		s.err = fmt.Errorf("%w: line %d: %s", ErrTemplate, line, fmt.Sprintf(format, args...))
	}
	return undefValue
}

// unsure keeps that this package does not know what Python would do.
func (s *state) unsure(what string) value {
	if s.err == nil {
		s.err = fmt.Errorf("%w: %s", ErrUnsupported, what)
	}
	return undefValue
}

// step counts work that the input can multiply, and reports whether to go on.
func (s *state) step(n int) bool {
	s.steps += n
	if s.steps > s.limit.Steps && s.err == nil {
		s.err = fmt.Errorf("%w: %d steps", ErrLimit, s.limit.Steps)
	}
	if len(s.out)-s.base > s.limit.Output && s.err == nil {
		s.err = fmt.Errorf("%w: %d bytes of text", ErrLimit, s.limit.Output)
	}
	return s.err == nil
}

// charge counts memory that is about to be used, and reports whether to go on.
func (s *state) charge(n int) bool {
	s.memory += n
	if s.memory > s.limit.Memory && s.err == nil {
		s.err = fmt.Errorf("%w: %d bytes of memory", ErrLimit, s.limit.Memory)
	}
	return s.err == nil
}

// valueBytes is the size of a value, for the limit of memory.
const valueBytes = 40

// list makes n values that belong to the render.
func (s *state) list(n int) []value {
	if !s.charge(n * valueBytes) {
		return nil
	}
	return s.values.take(n)
}

// object makes an object that belongs to the render.
func (s *state) object() *object {
	s.memory += 2 * valueBytes
	return &s.objs.take(1)[0]
}

// listValue makes a list, tuple or generator of items, which it keeps.
func (s *state) listValue(k kind, items []value) value {
	o := s.object()
	o.items = items
	return value{k: k, o: o}
}

// pair makes a tuple of two.
func (s *state) pair(a, b value) value {
	items := s.list(2)
	if items == nil {
		return undefValue
	}
	items[0], items[1] = a, b
	return s.listValue(kTuple, items)
}

// enter sets the variables of a scope.
func (s *state) enter(sc scope) {
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

// slab hands out pieces of large slices, and takes all of them back at once.
type slab[T any] struct {
	chunks [][]T
	at     int // the chunk in use
	used   int // of it
}

// slabChunk is the least number of elements in a chunk.
const slabChunk = 256

// take returns n zero elements.
func (b *slab[T]) take(n int) []T {
	if n == 0 {
		return []T{}
	}
	for b.at < len(b.chunks) {
		if c := b.chunks[b.at]; b.used+n <= len(c) {
			b.used += n
			return c[b.used-n : b.used : b.used]
		}
		b.at, b.used = b.at+1, 0
	}
	b.chunks = append(b.chunks, make([]T, max(n, slabChunk<<min(b.at, 6))))
	b.used = n
	return b.chunks[b.at][:n:n]
}

// reset takes everything back and forgets what it held, so that nothing of a request is kept. Chunks beyond keep elements go.
func (b *slab[T]) reset(keep int) {
	total := 0
	for i, c := range b.chunks {
		if i < b.at {
			clear(c)
		} else if i == b.at {
			clear(c[:b.used])
		}
		if total += len(c); total > keep {
			clear(b.chunks[i:])
			b.chunks = b.chunks[:i]
			break
		}
	}
	b.at, b.used = 0, 0
}
