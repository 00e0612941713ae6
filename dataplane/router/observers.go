package router

import "github.com/warmpath/warmpath/dataplane/fleet/worker"

// observers are told of workers one after the other.
type observers []worker.Observer

var _ worker.Observer = observers{}

// Up implements worker.Observer.
func (o observers) Up(w *worker.Worker, info *worker.Info) {
	for _, one := range o {
		one.Up(w, info)
	}
}

// Down implements worker.Observer.
func (o observers) Down(w *worker.Worker) {
	for _, one := range o {
		one.Down(w)
	}
}

// deaths tells the server of processes that are gone.
type deaths struct{ d *Router }

// Up implements worker.Observer.
func (deaths) Up(*worker.Worker, *worker.Info) {}

// Down implements worker.Observer.
func (o deaths) Down(w *worker.Worker) { o.d.requests.WorkerDied(w.URL) }
