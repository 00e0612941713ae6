package peers_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/routing/peers"
)

// bus is a network in memory: late, lossy and out of order as it is told.
type bus struct {
	mu    sync.Mutex
	subs  map[string][]*subscription
	rng   *rand.Rand
	delay func(*rand.Rand) time.Duration
	loss  float64
	down  bool            // nothing is delivered, and publishing fails
	deaf  map[string]bool // names of members that hear and say nothing
	sent  int
}

type subscription struct{ f func([]byte) }

// member is the bus as one router uses it.
type member struct {
	*bus
	name string
}

var _ peers.Bus = member{}

var errDown = errors.New("bus: down")

func newBus(delay time.Duration) *bus {
	return &bus{
		subs: make(map[string][]*subscription), rng: rand.New(rand.NewPCG(1, 2)), deaf: make(map[string]bool),
		delay: func(*rand.Rand) time.Duration { return delay },
	}
}

func (b *bus) with(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// count is how many messages were published.
func (b *bus) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent
}

// PublishOwn implements peers.Bus.
func (m member) PublishOwn(subject string, data []byte) error {
	b := m.bus
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent++
	switch {
	case b.down:
		return errDown
	case b.deaf[m.name]:
		return nil
	}
	for _, s := range b.subs[subject] {
		if b.rng.Float64() < b.loss {
			continue
		}
		data := slices.Clone(data)
		time.AfterFunc(b.delay(b.rng), func() {
			b.mu.Lock()
			f, lost := s.f, b.down
			b.mu.Unlock()
			if f != nil && !lost {
				f(data)
			}
		})
	}
	return nil
}

// SubscribeOwn implements peers.Bus.
func (m member) SubscribeOwn(subject string, f func(string, []byte)) (func(), error) {
	b := m.bus
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return nil, errDown
	}
	s := &subscription{}
	s.f = func(data []byte) {
		b.mu.Lock()
		deaf := b.deaf[m.name]
		b.mu.Unlock()
		if !deaf {
			f("", data)
		}
	}
	b.subs[subject] = append(b.subs[subject], s)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		s.f = nil
	}, nil
}
