package chattemplate

// arena is the memory of a render's values. A render takes pieces of it; the end of the render
// returns all of them at once.
type arena struct {
	budget
	values slab[value]
	objs   slab[object]
	frames slab[frame]
	states slab[loopState]
	text   bytesSlab
}

// join puts parts, n bytes together, into one string.
func (a *arena) join(parts []string, n int) string {
	if !a.charge(n) {
		return ""
	}
	a.text.room(n)
	from := len(a.text.buf)
	for _, part := range parts {
		a.text.buf = append(a.text.buf, part...)
	}
	return view(a.text.buf[from:])
}

// concat returns a followed by b.
func (a *arena) concat(left, right string) string {
	switch {
	case left == "":
		return right
	case right == "":
		return left
	case !a.charge(len(left) + len(right)):
		return ""
	}
	return a.text.concat(left, right)
}

// valueBytes is the size of a value, for the limit of memory.
const valueBytes = 40

// list makes n values that belong to the render.
func (a *arena) list(n int) []value {
	if !a.charge(n * valueBytes) {
		return nil
	}
	return a.values.take(n)
}

// object makes an object that belongs to the render.
func (a *arena) object() *object {
	a.memory += 2 * valueBytes
	return &a.objs.take(1)[0]
}

// listValue makes a list, tuple or generator of items, which it keeps.
func (a *arena) listValue(k kind, items []value) value {
	o := a.object()
	o.items = items
	return value{k: k, o: o}
}

// pair makes a tuple of two.
func (a *arena) pair(first, second value) value {
	items := a.list(2)
	if items == nil {
		return undefValue
	}
	items[0], items[1] = first, second
	return a.listValue(kTuple, items)
}

// reset takes all memory back, and keeps at most keepValues values and keepText bytes.
func (a *arena) reset() {
	a.budget = budget{}
	a.values.reset(keepValues)
	a.objs.reset(keepValues)
	a.frames.reset(keepValues / 16)
	a.states.reset(keepValues / 16)
	a.text.reset(keepText)
}

// keep makes a string of bytes that were appended to the end of the slab, or elsewhere if they did
// not fit.
func (a *arena) keep(out []byte) string {
	if from := len(a.text.buf); len(out) <= cap(a.text.buf)-from && len(out) > 0 && &out[0] == &a.text.buf[:from+1][from] {
		a.text.buf = a.text.buf[:from+len(out)]
	}
	return view(out)
}

// A pooled state keeps at most so many values and bytes of text between renders.
const (
	keepValues = 1 << 14
	keepText   = 1 << 20
)
