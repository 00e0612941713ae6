package accesslog

// Pending is how many entries may wait.
const Pending = maxPending

// AppendTo is the line of an entry.
func (e *Entry) AppendTo(dst []byte) []byte { return e.appendTo(dst) }

// WriteOne writes one committed entry, as Run does.
func (l *Log) WriteOne() { l.write(<-l.full) }
