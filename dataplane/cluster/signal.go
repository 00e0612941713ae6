package cluster

// signal wakes a goroutine: a channel that holds one token.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

// raise wakes the receiver; a signal that is raised already stays so.
func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// signals are those between the goroutines of a Cluster.
type signals struct {
	gone   signal // the connection was lost
	mute   signal // the connection stands, and NATS does not answer
	deaf   signal // NATS dropped messages for this process
	resync signal // the buckets must be opened and read again
	doubt  signal // the streams must be compared with the watches
	wake   signal // a record of this process must be written
}

func newSignals() signals {
	return signals{
		gone: newSignal(), mute: newSignal(), deaf: newSignal(), resync: newSignal(), doubt: newSignal(), wake: newSignal(),
	}
}
