package policy

// Terms is a set of terms of the kv policy's cost.
type Terms uint16

// The terms that can be left out, to see what each is worth.
const (
	TermQueue Terms = 1 << iota // the wait for prompts that were sent before
	TermBatch                   // the wait for decode steps
	TermTier                    // copies from slower tiers
	TermPool                    // the wait for KV pages
	TermLater                   // what the choice costs those who come after
	TermTies                    // near-ties at random
)

var termNames = [...]string{"queue", "batch", "tier", "pool", "later", "ties"}

// TermNames lists the names of the terms, in the order of their bits.
func TermNames() []string { return append([]string(nil), termNames[:]...) }

// TermNamed returns the term of that name, or none.
func TermNamed(name string) Terms {
	for i, n := range termNames {
		if n == name {
			return 1 << i
		}
	}
	return 0
}

// Cost is what the kv policy expects of one candidate, in seconds.
type Cost struct {
	Queue   float64 `json:"queue"`   // until the prompts sent there before are computed
	Compute float64 `json:"compute"` // of this prompt's uncached tokens
	Tier    float64 `json:"tier"`    // of copying cached tokens from host memory or disk
	Batch   float64 `json:"batch"`   // of decode steps between prefill batches
	Pool    float64 `json:"pool"`    // until running requests have given enough KV pages back
	Health  float64 `json:"health"`  // that all of these take longer because the rank has lost a part of its speed
	Later   float64 `json:"later"`   // not of this request: what it delays and displaces for those who come after
}

// Total is the sum that the choice is made by.
func (c Cost) Total() float64 {
	return c.Queue + c.Compute + c.Tier + c.Batch + c.Pool + c.Health + c.Later
}

// TTFT is the predicted time to the first token: all but what others pay.
func (c Cost) TTFT() float64 { return c.Total() - c.Later }
