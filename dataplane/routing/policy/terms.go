package policy

// Terms is a set of terms of the kv policy's cost.
type Terms uint16

// The terms that can be left out, to measure the worth of each.
const (
	TermQueue    Terms = 1 << iota // the wait for prompts that were sent before
	TermTier                       // copies from slower tiers
	TermPool                       // the wait for KV pages
	TermLater                      // the cost of the choice to later requests
	TermStreams                    // the delay of answers under way
	TermSessions                   // the pages of sessions that the choice displaces
)

var termNames = [...]string{"queue", "tier", "pool", "later", "streams", "sessions"}

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

// Cost is the cost of one candidate by the kv policy, in seconds.
type Cost struct {
	Queue   float64 `json:"queue"`   // until the prompts sent there before are computed
	Compute float64 `json:"compute"` // of this prompt's uncached tokens
	Tier    float64 `json:"tier"`    // of copies from host or disk, and of fetches
	Pool    float64 `json:"pool"`    // until running requests have given enough KV pages back
	Health  float64 `json:"health"`  // delay of these because the rank has lost a part of its speed
	Later   float64 `json:"later"`   // not of this request: delay of later ones
	// Streams and Sessions are not of this request either.
	Streams  float64 `json:"streams"`  // the share of answers that wait while it is computed
	Sessions float64 `json:"sessions"` // prompts computed again because it displaced their pages
}

// Total is the sum that the choice is made by.
func (c Cost) Total() float64 {
	return c.Queue + c.Compute + c.Tier + c.Pool + c.Health + c.Others()
}

// TTFT is the predicted time to first token: all but the delay of other requests.
func (c Cost) TTFT() float64 { return c.Total() - c.Others() }

// Others is the cost of the choice to other requests.
func (c Cost) Others() float64 { return c.Later + c.Streams + c.Sessions }
