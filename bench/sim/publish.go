package sim

import (
	"time"

	"github.com/warmpath/warmpath/zmq"
)

// publisher is where a rank's messages go.
type publisher interface {
	Publish(payload []byte) (seq uint64)
	PublishDropped(payload []byte) (seq uint64)
	Skip() (seq uint64)
}

var _ publisher = (*zmq.Publisher)(nil)

func unixSeconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
