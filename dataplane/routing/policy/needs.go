package policy

// Needs says what a policy looks at, so that a router need not find out more.
type Needs uint8

// What a policy may look at beside load.
const (
	// NeedsOverlap is Cached, Predicted and what is of Cached: what ranks hold of the prompt.
	NeedsOverlap Needs = 1 << iota
	// NeedsTokens asks for the overlap as exact as it can be had: the prompt's token ids are worth a question, and KV
	// events are believed before anything else. Without it, what answers told is enough.
	NeedsTokens
)

// Has reports whether all of other is needed.
func (n Needs) Has(other Needs) bool { return n&other == other }

// Needs implements Policy.
func (KV) Needs() Needs { return NeedsOverlap | NeedsTokens }

// Needs implements Policy: its source keeps an approximate tree of text, and so does it.
func (Approx) Needs() Needs { return NeedsOverlap }

// Needs implements Policy.
func (Dynamo) Needs() Needs { return NeedsOverlap | NeedsTokens }

// Needs implements Policy.
func (Staleness) Needs() Needs { return NeedsOverlap | NeedsTokens }

// Needs implements Policy.
func (LMetric) Needs() Needs { return NeedsOverlap | NeedsTokens }

// Needs implements Policy.
func (RoundRobin) Needs() Needs { return 0 }

// Needs implements Policy.
func (Random) Needs() Needs { return 0 }

// Needs implements Policy.
func (LeastLoad) Needs() Needs { return 0 }

// Needs implements Policy.
func (PowerOfTwo) Needs() Needs { return 0 }
