package peers_test

import (
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/peers"
)

// book records the prompts that a group hears of.
type book struct {
	mu  sync.Mutex
	all map[routing.PromptID]bool // done; guarded by mu
}

var _ peers.Predictions = (*book)(nil)

func (b *book) Add(_ time.Time, id routing.PromptID, rank *worker.Rank, fingerprints []uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = map[routing.PromptID]bool{}
	}
	if rank.ID() == "http://w0" && len(fingerprints) == 2 && fingerprints[1] == uint32(id.Number) {
		b.all[id] = false
	}
}

func (b *book) Done(_ time.Time, id routing.PromptID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.all[id]; ok {
		b.all[id] = true
	}
}

func (b *book) Forget(router uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.all, func(id routing.PromptID, _ bool) bool { return id.Router == router })
}

// count returns how many prompts are under way, and done.
func (b *book) count() (n [2]int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, done := range b.all {
		if done {
			n[1]++
		} else {
			n[0]++
		}
	}
	return n
}

// tell sends a prompt, as a dispatch does.
func (r *router) tell(t *testing.T) uint64 {
	t.Helper()
	require.True(t, r.Sending())
	r.told++
	require.Equal(t, r.told, r.Tell(r.rank(0).IDHash(), []uint32{7, uint32(r.told)}))
	return r.told
}

// TestPromptsAreTold: all hear of each prompt of another router soon, and of its end, and forget
// those of a router that ends.
func TestPromptsAreTold(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		b := newBus(200 * time.Microsecond)
		routers := cluster(t, b, 3, 2)
		defer func() { stopAll(routers) }()
		counts := func(what string, want ...[2]int) {
			t.Helper()
			time.Sleep(6 * time.Millisecond)
			for i, r := range routers {
				require.Equal(t, want[i], r.book.count(), "%s: router %d", what, i)
			}
		}
		require.Equal(t, 3, routers[0].Routers())
		a, c := routers[0].tell(t), routers[1].tell(t)
		counts("sent", [2]int{1, 0}, [2]int{1, 0}, [2]int{2, 0})
		routers[0].Done(a)
		counts("one is done", [2]int{1, 0}, [2]int{0, 1}, [2]int{1, 1})
		routers[1].Done(c)
		time.Sleep(time.Second) // Run sleeps
		for range 100 {
			n := routers[2].tell(t)
			if n%2 == 0 {
				routers[2].Done(n)
			}
		}
		counts("many at once", [2]int{50, 51}, [2]int{50, 51}, [2]int{0, 2})
		routers[2].stop()
		counts("one has ended", [2]int{0, 1}, [2]int{0, 1}, [2]int{})
		require.Equal(t, 2, routers[0].Routers())
		routers[1].stop()
		time.Sleep(time.Second)
		require.False(t, routers[0].Sending(), "alone")
		require.Equal(t, 1, routers[0].Routers())
	})
}

// TestPromptsWithoutBusAreBounded: while nothing can be published, a router keeps a bounded part of
// its prompts, and none of them is told later as if it were new.
func TestPromptsWithoutBusAreBounded(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		b := newBus(200 * time.Microsecond)
		routers := cluster(t, b, 2, 1)
		defer stopAll(routers)
		synctest.Wait()  // no message is due at this instant
		for range 2000 { // more than a message has
			routers[0].tell(t)
		}
		time.Sleep(20 * time.Millisecond)
		require.Equal(t, [2]int{512, 0}, routers[1].book.count())
		b.with(func() { b.down = true })
		routers[0].tell(t)
		time.Sleep(100 * time.Millisecond)
		b.with(func() { b.down = false; b.delay = func(*rand.Rand) time.Duration { return time.Millisecond } })
		time.Sleep(time.Second)
		require.Equal(t, [2]int{512, 0}, routers[1].book.count())
	})
}
