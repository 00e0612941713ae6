package policy

// Needs are the facts that a policy uses, so that a router need not find others.
type Needs uint8

// The facts beside load.
const (
	// NeedsOverlap is Cached, Host, Disk and Predicted: the part of the prompt that ranks hold.
	NeedsOverlap Needs = 1 << iota
	// NeedsTokens asks for exact overlap: the prompt's token ids are worth a request to a
	// tokenizer, and KV events precede other sources. Without it, overlap by answers is enough.
	NeedsTokens
)

// Has reports whether all of other is needed.
func (n Needs) Has(other Needs) bool { return n&other == other }

// Needs implements Policy.
func (KV) Needs() Needs { return NeedsOverlap | NeedsTokens }

// Needs implements Policy: its source keeps an approximate tree of text.
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
