package dataplane

import "github.com/warmpath/warmpath/dataplane/worker"

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
