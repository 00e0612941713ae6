package worker

// SetPlace publishes which node of the cluster the worker is on, by a number from 1 that measured links go by; 0 is unknown. Node numbers
// hosts instead, which several nodes may share and one may have more than one name for.
func (w *Worker) SetPlace(n uint32) { w.place.Store(n) }

// Place returns what SetPlace published.
func (w *Worker) Place() uint32 { return w.place.Load() }
