package replay

import (
	"io"

	"github.com/warmpath/warmpath/bench/trace"
)

// Source yields a trace's requests in the order of their arrival, and io.EOF after the last.
type Source interface {
	Next() (trace.Request, error)
}

// Recorded is a trace that was read.
type Recorded struct {
	left []trace.Request
}

var _ Source = (*Recorded)(nil)

// NewRecorded replays requests, which are in the order of their arrival.
func NewRecorded(requests []trace.Request) *Recorded { return &Recorded{requests} }

// Next returns the next request.
func (r *Recorded) Next() (trace.Request, error) {
	if len(r.left) == 0 {
		return trace.Request{}, io.EOF
	}
	next := r.left[0]
	r.left = r.left[1:]
	return next, nil
}
