package zmq_test

import (
	"context"
	"fmt"

	"github.com/warmpath/warmpath/zmq"
)

// A worker's stream: subscribe first, then replay earlier messages, and drop duplicates.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	worker, err := zmq.NewPublisher(zmq.PublisherConfig{
		Endpoint: "tcp://127.0.0.1:*", ReplayEndpoint: "tcp://127.0.0.1:*", Topic: "kv-events",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	live := make(chan zmq.Message, 16)
	done := make(chan error, 2)
	go func() { done <- worker.Run(ctx) }()
	worker.Publish([]byte("before"))
	go func() {
		done <- zmq.Subscribe(ctx, zmq.Subscription{
			Endpoint: worker.Endpoint(), Topic: "kv-events", OnMessage: func(m zmq.Message) { live <- m.Clone() },
		})
	}()
	_ = worker.WaitSubscriptions(ctx, 1)
	next := uint64(0)
	_, err = zmq.Replay(ctx, worker.ReplayEndpoint(), 0, func(m zmq.Message) error {
		fmt.Printf("replayed %d %s\n", m.Seq, m.Payload)
		next = m.Seq + 1
		return nil
	})
	fmt.Println(err)
	worker.Publish([]byte("after"))
	m := <-live
	for m.Seq < next { // it was replayed
		m = <-live
	}
	fmt.Printf("live %d %s\n", m.Seq, m.Payload)
	cancel()
	fmt.Println(<-done, <-done)
	// Output:
	// replayed 0 before
	// <nil>
	// live 1 after
	// <nil> <nil>
}
