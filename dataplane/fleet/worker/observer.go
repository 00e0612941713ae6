package worker

// Observer hears of workers that come and go. Calls for one worker come in order from one
// goroutine; they must not block for long.
type Observer interface {
	// Up is called when a worker becomes ready with a cache of its own: at first sight and after
	// each Down.
	Up(w *Worker, info *Info)
	// Down is called when a worker's process is gone, and its cache with it.
	Down(w *Worker)
}

// Observers passes each call on to its elements in order.
type Observers []Observer

var _ Observer = Observers{}

// Up implements Observer.
func (o Observers) Up(w *Worker, info *Info) {
	for _, one := range o {
		one.Up(w, info)
	}
}

// Down implements Observer.
func (o Observers) Down(w *Worker) {
	for _, one := range o {
		one.Down(w)
	}
}
