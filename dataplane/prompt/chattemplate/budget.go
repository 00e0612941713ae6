package chattemplate

import "fmt"

// budget counts the cost of a render against its limits and keeps its first error.
type budget struct {
	limit  Limits
	steps  int
	memory int // bytes of strings and values made
	err    error
}

// raise keeps the error that Python would raise, and returns a value to go on with.
func (b *budget) raise(line int, format string, args ...any) value {
	if b.err == nil {
		b.err = fmt.Errorf("%w: line %d: %s", ErrTemplate, line, fmt.Sprintf(format, args...))
	}
	return undefValue
}

// unsupported keeps an error for a result that may differ in Python.
func (b *budget) unsupported(what string) value {
	if b.err == nil {
		b.err = fmt.Errorf("%w: %s", ErrUnsupported, what)
	}
	return undefValue
}

// charge counts memory that is about to be used, and reports whether to go on.
func (b *budget) charge(n int) bool {
	b.memory += n
	if b.memory > b.limit.Memory && b.err == nil {
		b.err = fmt.Errorf("%w: %d bytes of memory", ErrLimit, b.limit.Memory)
	}
	return b.err == nil
}
