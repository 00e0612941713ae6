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

// signals connect the goroutines of a Cluster.
type signals struct {
	disconnected signal // the connection was lost
	unresponsive signal // the connection stands, and NATS does not answer
	overflowed   signal // NATS dropped messages for this process
	resync       signal // the buckets must be opened and read again
	compare      signal // the streams must be compared with the watches
	write        signal // a record of this process must be written
}

func newSignals() signals {
	return signals{
		disconnected: newSignal(), unresponsive: newSignal(), overflowed: newSignal(), resync: newSignal(), compare: newSignal(), write: newSignal(),
	}
}
