package mock

import (
	"net"
	"time"

	"github.com/warmpath/warmpath/zmq"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

const (
	topic = "kv-events"
	// bufferSteps batches are kept for replay. SGLang keeps 10,000, which of prompts of 64 KB would
	// be half a gigabyte a worker.
	bufferSteps = 1000
)

// events tells of a worker's cache as SGLang 0.5.23 does.
type events struct {
	zmq     *zmq.Publisher
	batch   kvevent.Batch
	payload []byte
}

func newEvents(host string) (*events, error) {
	free := "tcp://" + net.JoinHostPort(host, "*")
	p, err := zmq.NewPublisher(zmq.PublisherConfig{
		Endpoint: free, ReplayEndpoint: free, Topic: topic, BufferSteps: bufferSteps,
	})
	return &events{zmq: p, batch: kvevent.Batch{HasRank: true}}, err
}

// publish sends the changes of the last use of c: removals first, which made room. ids follow the
// page parent, if they are linked.
func (e *events) publish(c *cache, ids []uint32, linked bool, parent uint64) {
	e.batch.Events = e.batch.Events[:0]
	if len(c.removed) > 0 {
		e.batch.Events = append(e.batch.Events, kvevent.Event{Kind: kvevent.Removed, Medium: kvevent.MediumGPU, Hashes: c.removed})
	}
	if len(c.stored) > 0 {
		e.batch.Events = append(e.batch.Events, kvevent.Event{
			Kind: kvevent.Stored, Medium: kvevent.MediumGPU, HasParent: linked, Parent: parent, Hashes: c.stored,
			Tokens: ids[:len(c.stored)*c.page], BlockSize: c.page,
		})
	}
	e.send()
}

// cleared tells that the cache is empty.
func (e *events) cleared() {
	e.batch.Events = append(e.batch.Events[:0], kvevent.Event{Kind: kvevent.Cleared})
	e.send()
}

func (e *events) send() {
	if len(e.batch.Events) == 0 {
		return
	}
	e.batch.Time = float64(time.Now().UnixMicro()) / 1e6
	e.payload = kvevent.Append(e.payload[:0], &e.batch, kvevent.SGLang0523)
	e.zmq.Publish(e.payload)
}
