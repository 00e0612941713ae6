package peers_test

import (
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/peers"
)

// book records the calls of a group.
type book struct {
	mu  sync.Mutex
	all map[routing.PromptID]string // chosen, sent or done; guarded id mu, as is own
	own []uint64                    // numbers of prompts that this router has sent
}

var _ peers.Predictions = (*book)(nil)

func (b *book) set(id routing.PromptID, is string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = map[routing.PromptID]string{}
	}
	if is != "chosen" && b.all[id] == "" {
		return
	}
	b.all[id] = is
}

func (b *book) Add(_ time.Time, id routing.PromptID, _ uint64, _ int, fingerprints []uint32, sent bool) {
	switch {
	case len(fingerprints) == 0:
	case sent:
		b.set(id, "chosen")
		b.set(id, "sent")
	default:
		b.set(id, "chosen")
	}
}

func (b *book) Sent(_ time.Time, id routing.PromptID) { b.set(id, "sent") }

func (b *book) Done(_ time.Time, id routing.PromptID) { b.set(id, "done") }

func (b *book) Forget(router uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.all, func(id routing.PromptID, _ string) bool { return id.Router == router })
}

func (b *book) Own(_ time.Time, f func(number, rank uint64, tokens int, fingerprints []uint32)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.own {
		f(n, 1, 300, []uint32{1, 2})
	}
}

// count returns how many prompts are chosen for, sent and done.
func (b *book) count() (n [3]int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, is := range b.all {
		n[map[string]int{"chosen": 0, "sent": 1, "done": 2}[is]]++
	}
	return n
}

// TestPromptsAreTold: the router that chooses hears of each prompt from its choice to its end,
// of those that were sent without it, and after a change of all that are in flight.
func TestPromptsAreTold(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		b := newBus(200 * time.Microsecond)
		routers := cluster(t, b, 3, 2)
		defer func() { stopAll(routers) }()
		chief, one, two := routers[0], routers[1], routers[2]
		ask := &routing.PeerRequest{Model: "m", Tokens: 300, Exact: true, Fingerprints: []uint32{1, 2, 3}}
		rest := func() { time.Sleep(30 * time.Millisecond) }
		require.True(t, chief.Present())

		a, ok := one.Choose(ask)
		require.True(t, ok)
		require.Equal(t, [3]int{1, 0, 0}, chief.book.count(), "known from the choice on")
		one.Sent(a.Number)
		rest()
		require.Equal(t, [3]int{0, 1, 0}, chief.book.count())
		one.Done(a.Number)
		rest()
		require.Equal(t, [3]int{0, 0, 1}, chief.book.count())

		number := two.Tell(1, 300, []uint32{1, 2})
		rest()
		require.Equal(t, [3]int{0, 1, 1}, chief.book.count(), "sent without a choice")
		two.Done(number)
		rest()
		require.Equal(t, [3]int{0, 0, 2}, chief.book.count())
		require.NotEqual(t, number, two.Tell(1, 300, nil))

		b.with(func() { b.delay = func(*rand.Rand) time.Duration { return 30 * time.Millisecond } })
		_, ok = one.Choose(ask)
		require.False(t, ok)
		time.Sleep(200 * time.Millisecond)
		require.Equal(t, [3]int{0, 0, 3}, chief.book.count(), "who was answered too late says that nothing comes of it")
		b.with(func() { b.delay = func(*rand.Rand) time.Duration { return 200 * time.Microsecond } })

		one.book.own, two.book.own = []uint64{101, 102}, []uint64{103}
		chief.stop()
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, "router-2", two.Status().Leader)
		require.Equal(t, [3]int{0, 1, 0}, one.book.count(), "the next one is told id others what they have sent")
		two.Done(103)
		rest()
		require.Equal(t, [3]int{0, 0, 1}, one.book.count())
		two.stop()
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, [3]int{}, one.book.count(), "a router that ends leaves nothing")
		require.False(t, one.Present())
	})
}
