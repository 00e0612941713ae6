package health

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// State is the health state of a GPU. A higher one is worse.
type State int

// The states.
const (
	Healthy  State = iota
	Degraded       // takes requests in proportion to its weight
	Draining       // finishes its requests and takes no new ones
	Dead           // takes no requests
)

var stateNames = []string{"healthy", "degraded", "draining", "dead"}

// String returns the name.
func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("state %d", int(s))
	}
	return stateNames[s]
}

// MarshalText writes the name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Action is the repair by an operator. A higher one is more work.
type Action int

// The actions.
const (
	Nothing       Action = iota
	Look                 // find out more: nvidia-smi -q, nvidia-smi nvlink -e, dmesg
	ResetWhenIdle        // nvidia-smi --gpu-reset while it is idle
	Reset                // drain it, then nvidia-smi --gpu-reset
	Reboot               // the machine
	Replace              // the GPU
)

var actionNames = []string{"", "look", "reset when idle", "reset", "reboot", "replace"}

// String returns the name, "" for Nothing.
func (a Action) String() string {
	if a < 0 || int(a) >= len(actionNames) {
		return fmt.Sprintf("action %d", int(a))
	}
	return actionNames[a]
}

// MarshalText writes the name.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// Reason is one fault of a GPU.
type Reason struct {
	Rule   string    `json:"rule"` // that found it; stable while the fault lasts
	State  State     `json:"state"`
	Weight float64   `json:"weight"` // share of the GPU's speed
	TP     bool      `json:"tp"`     // fit for tensor-parallel work
	Action Action    `json:"action"`
	Detail string    `json:"detail"` // for operators
	Since  time.Time `json:"since"`  // start of its effect; zero from Evaluate
}

// worse reports whether r limits the GPU more than other does in any way.
func (r *Reason) worse(other *Reason) bool {
	return r.State > other.State || r.Weight < other.Weight || (!r.TP && other.TP)
}

// atLeast returns r, with the worse of both in each respect.
func (r *Reason) atLeast(other *Reason) Reason {
	sum := *r
	sum.State, sum.Weight = max(r.State, other.State), min(r.Weight, other.Weight)
	sum.TP, sum.Action = r.TP && other.TP, max(r.Action, other.Action)
	return sum
}

// Result is the health of one GPU.
type Result struct {
	GPU     string    `json:"gpu"` // UUID, or "index N" without one
	Index   int       `json:"index"`
	State   State     `json:"state"`
	Weight  float64   `json:"weight"` // in (0, 1]
	TP      bool      `json:"tp"`
	Action  Action    `json:"action"`
	Since   time.Time `json:"since"`   // last change of State
	Reasons []Reason  `json:"reasons"` // worst first; none while healthy
}

// minWeight keeps weights above 0: State tells GPUs that take no requests.
const minWeight = 0.05

// combine returns the result of all reasons. It takes the lowest weight, not the product: the
// narrowest bottleneck is the speed, and two rules often find the same fault.
func combine(reasons []Reason) Result {
	slices.SortFunc(reasons, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.State, a.State), cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.Rule, b.Rule))
	})
	res := Result{Weight: 1, TP: true, Reasons: reasons}
	for _, r := range reasons {
		res.State = max(res.State, r.State)
		res.Weight = min(res.Weight, max(r.Weight, minWeight))
		res.TP = res.TP && r.TP
		res.Action = max(res.Action, r.Action)
	}
	return res
}
