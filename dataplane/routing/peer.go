package routing

// Peers are the other routers of the cluster. They are told of each prompt that this router sends,
// and tell of theirs (SharedPredictions).
type Peers interface {
	// Sending notes that a request is about to be sent, and reports whether there are other
	// routers. It costs two atomic loads.
	Sending() bool
	// Routers returns the number of routers, this one included.
	Routers() int
	// Tell tells the others of a prompt that goes to the rank with that hash, and returns a number
	// for Done. It copies fingerprints.
	Tell(rank uint64, fingerprints []uint32) uint64
	// Done tells that the prompt with that number is computed or given up.
	Done(number uint64)
}

// share tells the other routers of a prompt that is sent, and returns its number there.
func (r *Router) share(s *Scratch, p *Prompt, d *Decision) uint64 {
	return r.Peers.Tell(d.Rank.IDHash(), s.shared.of(d.Rank.Worker.Info().Model(), p))
}

// endShared tells the other routers of the end of a prediction.
func (f *Prediction) endShared() {
	if f.told != 0 {
		f.router.Peers.Done(f.told)
		f.told = 0
	}
}
