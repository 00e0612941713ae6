package worker

// What the tests reach into: the readers of a worker's description, which
// have no other door than the network, and the end of a hang.
var (
	ParseInfo   = parseInfo
	ParseModels = parseModels
	Classify    = classify
)

// GiveUp does what a monitor does when its worker hangs.
func (w *Worker) GiveUp() { w.giveUp() }
