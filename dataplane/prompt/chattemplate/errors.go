package chattemplate

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrTemplate is an error that Python raises too: raise_exception, an operation on an undefined
	// value, a wrong type. The worker answers such a request, usually with 400; the router leaves
	// the answer to it.
	ErrTemplate = errors.New("chattemplate: the template raises")
	// ErrUnsupported means that the worker may render another text than this package. The router
	// then lets the worker tokenize.
	ErrUnsupported = errors.New("chattemplate: not rendered here")
	// ErrLimit means that a render would exceed its [Limits].
	ErrLimit = errors.New("chattemplate: limit exceeded")
	// ErrSyntax means that a template is not valid Jinja; errors of this kind are *[SyntaxError].
	ErrSyntax = errors.New("chattemplate: invalid template")
)

// errBug marks an error that this package owes to a mistake of its own.
var errBug = errors.New("a bug")

// SyntaxError is a place where a template is not valid Jinja.
type SyntaxError struct {
	Line int // from 1
	Msg  string
}

// Error returns the line and the message.
func (e *SyntaxError) Error() string { return fmt.Sprintf("chattemplate: line %d: %s", e.Line, e.Msg) }

// Is makes errors.Is(err, ErrSyntax) hold.
func (e *SyntaxError) Is(target error) bool { return target == ErrSyntax }

// Gap is one construct of a template that this package does not render.
type Gap struct {
	Line int    // from 1
	What string // for instance "filter urlize"
}

// UnsupportedError lists everything in a template that this package does not render, found when it
// is compiled.
type UnsupportedError struct{ Gaps []Gap }

// Error names each construct and its line.
func (e *UnsupportedError) Error() string {
	var b strings.Builder
	b.WriteString("chattemplate: the template uses constructs that are not rendered here:")
	for i, g := range e.Gaps {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %s (line %d)", g.What, g.Line)
	}
	return b.String()
}

// Is makes errors.Is(err, ErrUnsupported) hold.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }
