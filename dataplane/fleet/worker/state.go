package worker

// State says whether a worker may be chosen.
type State uint32

const (
	// Probing is a worker that was not ready yet, or says that it is not.
	Probing State = iota
	// Ready answers its probes and may be chosen.
	Ready
	// Slow lets its probes time out: it may hang or be overloaded. It is chosen
	// only when no worker is ready, and its index is kept.
	Slow
	// Dead refuses connections or resets them. Its cache is gone with it.
	Dead
	// Draining finishes what it has and gets nothing new.
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
