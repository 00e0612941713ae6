package worker

import (
	"net"
	"net/netip"
)

// address is where a worker's process listens; the zero value is unknown.
type address struct {
	at   netip.Addr
	port string
}

func (w *Worker) address() (a address) {
	at := w.probe.at.Load()
	_, port, err := net.SplitHostPort(w.Addr)
	if at == nil || err != nil {
		return a
	}
	return address{*at, port}
}

// Double returns the URL of a worker that is the same process by its own description; "" is none.
func (w *Worker) Double() string {
	if other := w.double.Load(); other != nil {
		return other.URL
	}
	return ""
}

// findDoubles finds workers that are one process under several names: a host's name and its
// address, two names, a balancer before one engine. Each is told of the first, which is none that
// leaves while another stays: a source may rename a worker. Where they listen at one address too,
// that is certain, and only the first is used: the others would count its room twice. Processes
// that are copied from memory, start time and all, have addresses of their own.
func (r *Registry) findDoubles() {
	first, all := make(map[uint64]*Worker), r.Snapshot().Workers
	answers := func(w *Worker) bool {
		info := w.Info()
		return info != nil && info.Process != 0 && (w.Probed() == Ready || w.Probed() == Slow)
	}
	stays := func(w *Worker) bool { return !w.Drains(DrainLeaving) }
	was := func(w *Worker) bool { return r.firsts[w.Info().Process] == w }
	for _, fits := range []func(*Worker) bool{
		func(w *Worker) bool { return stays(w) && was(w) }, // the first one stays so
		stays, was,
		func(*Worker) bool { return true },
	} {
		for _, w := range all {
			if answers(w) && first[w.Info().Process] == nil && fits(w) {
				first[w.Info().Process] = w
			}
		}
	}
	r.firsts = first
	for _, w := range all {
		var other *Worker
		if answers(w) {
			other = first[w.Info().Process]
		}
		if other == w || other != nil && !w.Info().sameShape(other.Info()) {
			other = nil
		}
		certain := other != nil && w.address() != address{} && w.address() == other.address()
		if w.double.Swap(other) == nil && other != nil {
			r.cfg.Load().Log.Warn("two workers are one process by its description: name it once", "worker", w.URL, "is", other.URL, "used_apart", !certain)
		}
		w.DrainFor(DrainDouble, certain)
	}
}
