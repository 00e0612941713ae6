package worker

// State is a worker's state by its probes.
type State uint32

const (
	// Probing is a worker that is not ready.
	Probing State = iota
	// Ready answers its probes and may be chosen.
	Ready
	// Slow lets its probes time out: it may hang or be overloaded. It is chosen
	// only when no worker is ready, and its index is kept.
	Slow
	// Dead refuses connections or resets them. Its cache is gone with it.
	Dead
	// Draining finishes its requests and gets no new one.
	Draining
)

// String names the state as /status and /workers show it.
func (s State) String() string {
	switch s {
	case Ready:
		return "ready"
	case Slow:
		return "slow"
	case Dead:
		return "dead"
	case Draining:
		return "draining"
	default:
		return "probing"
	}
}
