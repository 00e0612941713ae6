package sim

import (
	"time"

	"github.com/warmpath/warmpath/zmq"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

// publisher is where a rank's messages go.
type publisher interface {
	Publish(payload []byte) (seq uint64)
	PublishDropped(payload []byte) (seq uint64)
	Skip() (seq uint64)
}

var _ publisher = (*zmq.Publisher)(nil)

// publish sends what the cache has recorded since the last time as one batch.
func (k *rank) publish() {
	events := k.cache.changes.take()
	if len(events) == 0 {
		return
	}
	b := kvevent.Batch{Time: unixSeconds(time.Now()), Rank: k.id, HasRank: true, Events: events}
	payload := kvevent.Append(nil, &b, k.cfg.Encoding)
	k.batches++
	switch k.faults.eventFate() {
	case eventSent:
		k.events.Publish(payload)
	case eventUnsent:
		k.events.PublishDropped(payload)
	case eventLost:
		k.events.Skip()
	}
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
