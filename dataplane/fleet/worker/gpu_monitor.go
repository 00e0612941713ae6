package worker

import (
	"log/slog"
	"slices"
	"time"
)

// gpuMonitor acts on the facts about a worker's GPUs. It belongs to the worker's monitor.
type gpuMonitor struct {
	gaveUp int64 // the death after which requests were given up
	stale  bool  // stale facts were logged
}

// check logs stale facts. Once the facts have called a worker dead for deathSettles, requests
// without a first byte go elsewhere: once for each death, and only while another worker can take
// them.
func (g *gpuMonitor) check(now time.Time, w *Worker, all func() []*Worker, log *slog.Logger) {
	told := w.told.Load()
	if told == nil {
		return
	}
	if stale := told.stale(now); stale != g.stale {
		g.stale = stale
		if stale && told.State != GPUUnknown {
			log.Warn("no facts about a worker's GPUs any more; its probes decide alone", "worker", w.URL, "last", told.State.String(), "at", told.At)
		}
	}
	died := w.died.Load()
	if died == 0 || died == g.gaveUp || g.stale || w.Doubted() || now.UnixNano()-died < int64(deathSettles) || !replaceable(w, all(), now) {
		return
	}
	g.gaveUp = died
	log.Warn("worker's GPUs are dead; its waiting requests go elsewhere", "worker", w.URL, "reasons", told.Reasons)
	w.giveUp(false)
}

// replaceable reports whether another worker could take the requests of w.
func replaceable(w *Worker, all []*Worker, now time.Time) bool {
	mine := w.Info()
	if mine == nil {
		return false
	}
	return slices.ContainsFunc(all, func(o *Worker) bool {
		info := o.Info()
		return o != w && info != nil && o.State() == Ready && o.Verdict(now.UnixNano()).State() < GPUDraining &&
			info.Role() == mine.Role() && info.Model() == mine.Model()
	})
}
