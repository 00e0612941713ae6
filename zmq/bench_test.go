package zmq_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/zmq"
)

// BenchmarkReceiver measures the time from Publish to the callback's return, per message, with one busy stream among
// idle ones and a window of messages under way.
func BenchmarkReceiver(b *testing.B) {
	for _, streams := range []int{1, 100, 1000, 4000} {
		b.Run(fmt.Sprintf("payload=1024/streams=%d", streams), func(b *testing.B) {
			const window = 512
			p, _ := newPublisher(b, zmq.PublisherConfig{Endpoint: anyPort, Bind: true, Topic: "t", BufferSteps: 1})
			quiet, _ := newPublisher(b, zmq.PublisherConfig{Endpoint: anyPort, Bind: true})
			r := newReceiver(b)
			tickets := make(chan struct{}, window)
			var received atomic.Int64
			done := make(chan struct{})
			_, err := r.Subscribe(zmq.Subscription{Endpoint: p.Endpoint(), OnMessage: func(zmq.Message) {
				<-tickets
				if received.Add(1) == int64(b.N) {
					close(done)
				}
			}})
			require.NoError(b, err)
			for range streams - 1 {
				_, err := r.Subscribe(zmq.Subscription{Endpoint: quiet.Endpoint(), OnMessage: func(zmq.Message) {}})
				require.NoError(b, err)
			}
			require.NoError(b, p.WaitSubscriptions(waitCtx(b), 1))
			require.NoError(b, quiet.WaitSubscriptions(waitCtx(b), streams-1))
			payload := make([]byte, 1024)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				tickets <- struct{}{}
				p.Publish(payload)
			}
			<-done
		})
	}
}
