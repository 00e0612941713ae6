package admin

import (
	"github.com/warmpath/warmpath/dataplane/routing/queue"
)

// QueueStatus is the state of the queue in front of full workers.
type QueueStatus struct {
	Waiting       int     `json:"waiting"`
	Clients       int     `json:"clients"` // of the waiting requests
	OldestSeconds float64 `json:"oldest_seconds"`
	FullModels    int     `json:"full_models"` // models with all ranks full, now or a moment ago
	// Requests a second that leave the queue for a worker.
	Rate     float64 `json:"rate"`
	Passed   uint64  `json:"passed"` // requests that waited and were sent
	MeanWait float64 `json:"mean_wait_seconds"`
	Refused  uint64  `json:"refused"` // with 429
	Gone     uint64  `json:"gone"`    // requests that their client left
}

// queueStatus returns the state of a queue; nil where there is none.
func queueStatus(gate *queue.Gate) *QueueStatus {
	if gate == nil {
		return nil
	}
	st := gate.Stats()
	out := &QueueStatus{
		Waiting: st.Waiting, Clients: st.Clients, OldestSeconds: st.Oldest.Seconds(),
		FullModels: st.Models, Rate: st.Rate,
		Passed: st.Passed, Refused: st.RefusedFull + st.RefusedDisplaced + st.RefusedLate + st.RefusedPredicted,
		Gone: st.Gone,
	}
	if st.Passed > 0 {
		out.MeanWait = st.Waited.Seconds() / float64(st.Passed)
	}
	return out
}

var (
	descQueueDepth = desc("queue_depth",
		"Requests that wait at the router because every rank that could take them is full.")
	descQueueClients = desc("queue_clients", "Clients of the waiting requests.")
	descQueueOldest  = desc("queue_oldest_seconds", "Wait of the request that has waited longest.")
	descQueueRate    = desc("queue_drain_rate",
		"Requests a second that leave the queue for a worker, of late.")
	descQueueRefused = desc("queue_refused_total",
		"Requests answered with 429: full (the queue was), displaced (by a request of higher "+
			"rank), predicted (no rank would have had room before the deadline) "+
			"or deadline (none had).", "reason")
	descQueueGone = desc("queue_gone_total", "Requests whose client left while they waited.")
)

func (out sink) queue(st queue.Stats) {
	out.gauge(descQueueDepth, float64(st.Waiting))
	out.gauge(descQueueClients, float64(st.Clients))
	out.gauge(descQueueOldest, st.Oldest.Seconds())
	out.gauge(descQueueRate, st.Rate)
	out.counter(descQueueRefused, float64(st.RefusedFull), string(queue.ReasonFull))
	out.counter(descQueueRefused, float64(st.RefusedDisplaced), string(queue.ReasonDisplaced))
	out.counter(descQueueRefused, float64(st.RefusedLate), string(queue.ReasonDeadline))
	out.counter(descQueueRefused, float64(st.RefusedPredicted), string(queue.ReasonPredicted))
	out.counter(descQueueGone, float64(st.Gone))
}
