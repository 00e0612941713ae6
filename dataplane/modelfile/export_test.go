package modelfile

import (
	"os"
	"time"
)

// Hang makes files open only once until closes; each begin is sent before.
func (r *Reader) Hang(until <-chan struct{}) (opened <-chan struct{}) {
	begun := make(chan struct{}, 100)
	r.open = func(name string, by Origin) (*os.File, error) {
		begun <- struct{}{}
		<-until
		return r.openRegular(name, by)
	}
	return begun
}

// SetDeadline replaces the deadline of a read; 0 restores it.
func (r *Reader) SetDeadline(d time.Duration) {
	if r.deadline = d; d == 0 {
		r.deadline = defaultDeadline
	}
}
