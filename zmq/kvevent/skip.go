package kvevent

// skip skips one value of any type and returns its bytes. It counts open elements instead of
// recursing: a level of nesting costs a hostile sender one byte, and would cost a stack frame.
func (r *reader) skip() []byte {
	start := r.p
	for open := 1; open > 0; open-- {
		open += r.skipHead()
		// Each open element still takes a byte, so more of them than bytes cannot end well.
		if r.bad || open-1 > r.left() {
			r.fail()
			return nil
		}
	}
	return r.b[start:r.p:r.p]
}

// skipHead skips a value without its elements, and returns their number.
func (r *reader) skipHead() int {
	c := r.peek()
	switch {
	case r.bad:
		return 0
	case r.isMap():
		return 2 * r.dict()
	case r.isArray():
		return r.array()
	case c&0xe0 == fixStr, c >= str8 && c <= str32:
		r.str()
	case c >= bin8 && c <= bin32:
		r.bin()
	case c == codeNil, c == codeF, c == codeT:
		r.p++
	case c == f32, c == f64:
		r.float()
	case c >= ext8 && c <= ext32:
		r.p++
		n := r.size(1 << (c - ext8))
		r.take(1) // The extension's type.
		r.take(n)
	case c >= fixExt1 && c <= fixExtF:
		r.p++
		r.take(1 + 1<<(c-fixExt1))
	default:
		r.word() // Fails on 0xc1, the one code without a meaning.
	}
	return 0
}
