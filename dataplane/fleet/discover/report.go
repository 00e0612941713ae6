package discover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"
)

// report logs trouble, once for each kind: sources retry every few seconds.
type report struct {
	name string
	log  *slog.Logger
	last atomic.Pointer[error] // nil: all is well
}

// Trouble implements Troubled.
func (r *report) Trouble() error {
	if p := r.last.Load(); p != nil {
		return *p
	}
	return nil
}

// Name implements Source.
func (r *report) Name() string { return r.name }

// fail takes in trouble; nil is its end.
func (r *report) fail(err error) {
	if err == nil {
		if r.last.Swap(nil) != nil {
			r.log.Info("workers are discovered again", "source", r.name)
		}
		return
	}
	if old := r.last.Swap(&err); old != nil && (*old).Error() == err.Error() {
		return
	}
	if _, ok := errors.AsType[entriesError](err); ok {
		r.log.Warn("entries of a source of workers cannot be used", "source", r.name, "error", err)
	} else {
		r.log.Warn("cannot discover workers; known ones stay", "source", r.name, "error", err)
	}
}

// faults collects what is wrong with the entries of one answer.
type faults struct {
	named []error
	more  int
}

// maxFaults bounds what one log line names.
const maxFaults = 8

func (f *faults) add(err error) {
	if len(f.named) == maxFaults {
		f.more++
		return
	}
	f.named = append(f.named, err)
}

// entriesError is the error of a list of which other entries count.
type entriesError struct{ error }

// Unwrap returns the faults.
func (b entriesError) Unwrap() error { return b.error }

// err names the faults; nil: there are none.
func (f *faults) err() error {
	if len(f.named) == 0 {
		return nil
	}
	if f.more > 0 {
		return entriesError{errors.Join(append(f.named, fmt.Errorf("and %d more", f.more))...)}
	}
	return entriesError{errors.Join(f.named...)}
}

// tooMany refuses the set of a source that has more workers than any cluster: each gets a monitor.
func tooMany(n int) error {
	if n <= maxEntries {
		return nil
	}
	return fmt.Errorf("%w: %d of them: want at most %d", ErrEntry, n, maxEntries)
}

// messages are JSON values that come one after the other, of at most so many bytes each.
type messages struct {
	*json.Decoder
	from       io.Reader
	most, left int
}

func newMessages(from io.Reader, most int) *messages {
	m := &messages{from: from, most: most}
	m.Decoder = json.NewDecoder(m)
	return m
}

// next decodes the next value.
func (m *messages) next(v any) error {
	m.left = m.most
	return m.Decode(v)
}

// Read implements io.Reader for the decoder.
func (m *messages) Read(p []byte) (int, error) {
	if m.left == 0 {
		return 0, fmt.Errorf("a message has more than %d bytes", m.most)
	}
	n, err := m.from.Read(p[:min(len(p), m.left)])
	m.left -= n
	return n, err
}

// patience is how long a source waits before it tries again: longer with each try in a row.
type patience struct{ next time.Duration }

const (
	patienceLeast = 500 * time.Millisecond
	patienceMost  = 15 * time.Second // a server that is back is found within that
)

// wait waits after a try that lasted so long, at least for as long as the server has asked for. It
// returns false when done is closed. A try that outlived the longest wait was a good one, and so
// was one after which too much had changed.
func (p *patience) wait(done <-chan struct{}, lasted, asked time.Duration, err error) bool {
	if lasted > patienceMost || errors.Is(err, errGone) {
		p.next = 0
	}
	p.next = min(max(2*p.next, patienceLeast), patienceMost)
	t := time.NewTimer(min(max(p.next, asked), patienceMost))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-done:
		return false
	}
}
