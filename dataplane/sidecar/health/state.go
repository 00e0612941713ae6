package health

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// State is what a GPU is fit for. A higher one is worse.
type State int

// The states.
const (
	Healthy  State = iota
	Degraded       // takes requests, as many as its weight is worth
	Draining       // finishes what it has and takes nothing new
	Dead           // answers nothing
)

var stateNames = []string{"healthy", "degraded", "draining", "dead"}

// String is the state's name.
func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("state %d", int(s))
	}
	return stateNames[s]
}

// MarshalText writes the name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name.
func (s *State) UnmarshalText(text []byte) error {
	i := slices.Index(stateNames, string(text))
	if i < 0 {
		return fmt.Errorf("health: unknown state %q", text)
	}
	*s = State(i)
	return nil
}

// Action is what an operator must do for the GPU to be well again. A higher one is more work.
type Action int

// The actions.
const (
	Nothing       Action = iota
	Look                 // find out more: nvidia-smi -q, nvidia-smi nvlink -e, dmesg
	ResetWhenIdle        // nvidia-smi --gpu-reset when nobody is on it
	Reset                // drain it, then nvidia-smi --gpu-reset
	Reboot               // the machine
	Replace              // the GPU
)

var actionNames = []string{"", "look", "reset when idle", "reset", "reboot", "replace"}

// String is the action's name, "" for Nothing.
func (a Action) String() string {
	if a < 0 || int(a) >= len(actionNames) {
		return fmt.Sprintf("action %d", int(a))
	}
	return actionNames[a]
}

// MarshalText writes the name.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads a name.
func (a *Action) UnmarshalText(text []byte) error {
	i := slices.Index(actionNames, string(text))
	if i < 0 {
		return fmt.Errorf("health: unknown action %q", text)
	}
	*a = Action(i)
	return nil
}

// Reason is one thing that is wrong with a GPU.
type Reason struct {
	Rule   string    `json:"rule"` // which rule says so; the same as long as it is the same trouble
	State  State     `json:"state"`
	Weight float64   `json:"weight"` // share of the GPU's speed that is left
	TP     bool      `json:"tp"`     // whether it can still compute together with other GPUs
	Action Action    `json:"action"`
	Detail string    `json:"detail"` // for people
	Since  time.Time `json:"since"`  // when it began to count; zero from Judge
}

// worse reports whether r limits the GPU more than other does in any way.
func (r *Reason) worse(other *Reason) bool {
	return r.State > other.State || r.Weight < other.Weight || (!r.TP && other.TP)
}

// with is r, in no way milder than other.
func (r *Reason) with(other *Reason) Reason {
	sum := *r
	sum.State, sum.Weight = max(r.State, other.State), min(r.Weight, other.Weight)
	sum.TP, sum.Action = r.TP && other.TP, max(r.Action, other.Action)
	return sum
}

// Result is the judgement of one GPU.
type Result struct {
	GPU     string    `json:"gpu"` // UUID, or "index N" where that was never known
	Index   int       `json:"index"`
	State   State     `json:"state"`
	Weight  float64   `json:"weight"` // in (0, 1]
	TP      bool      `json:"tp"`
	Action  Action    `json:"action"`
	Since   time.Time `json:"since"`   // when State last changed
	Reasons []Reason  `json:"reasons"` // the worst first; none when healthy
}

// minWeight keeps a weight above 0: how little a GPU may be given without being Draining is for State to say.
const minWeight = 0.05

// combine makes one judgement of all reasons. Weights are not multiplied: the narrowest bottleneck is the speed, and two
// rules often see the same trouble.
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
