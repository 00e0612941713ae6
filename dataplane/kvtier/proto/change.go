package proto

// Kind describes pages that engines can exchange: one model, parallelism, memory layout and data
// type. An engine's page is one page of each of its ranks and KV pools, each in a namespace of its
// own. A tier holds a page of a kind once all these namespaces hold it.
type Kind struct {
	ID       uint64 // hash of the properties above: equal on all nodes
	Model    string // as engines name it
	PageSize int    // tokens of a page
	Open     bool   // an engine of the node reads this kind now
}

// Change is a page that became readable or was removed.
type Change struct {
	Page    uint64 // Hash.Name of the page
	Kind    uint32 // index in the tier's list of kinds, which only grows within an epoch
	Removed bool
}

// Position is a point in the sequence of a tier's changes.
type Position struct {
	Epoch  uint64 // with a new epoch, readers drop all they know and read the contents again
	Number uint64 // changes since the epoch began
}
