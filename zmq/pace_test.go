package zmq_test

import (
	"context"
	"testing"
	"time"

	"github.com/warmpath/warmpath/zmq"
)

// TestPace: Pace returns the time until each tick after the first one, and Every is ignored.
func TestPace(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ticks, asked := 0, 0
	err := zmq.Subscribe(ctx, zmq.Subscription{
		Endpoint:  "tcp://127.0.0.1:1", // nobody is there
		OnMessage: func(zmq.Message) {},
		OnTick: func() {
			if ticks++; ticks == 5 {
				cancel()
			}
		},
		Every: time.Millisecond,
		Pace:  func() time.Duration { asked++; return 2 * time.Millisecond },
	})
	if err != nil || ticks != 5 || asked < 4 {
		t.Errorf("Subscribe = %v after %d ticks, Pace asked %d times, want 5 and at least 4", err, ticks, asked)
	}
}
