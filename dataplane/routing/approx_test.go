package routing_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

// unit is how many tokens the approximate tree counts as one, and four times as
// many bytes.
const unit = 32

// learns gives the fleet's router an approximate tree that knows every rank.
func (f *fleet) learns() *routing.ApproxIndex {
	f.router.Approx = routing.NewApproxIndex(0)
	for _, w := range f.registry.Snapshot().Workers {
		f.router.Approx.Up(w, w.Info())
	}
	return f.router.Approx
}

// ask sends a prompt to a rank, which had cached tokens of it, and returns the decision.
func (f *fleet) ask(rank int, p *routing.Prompt, cached int) routing.Decision {
	f.t.Helper()
	f.spy.pick = rank
	_, d := f.pick(p)
	f.router.Sent(&f.scratch, &d)
	f.router.Answered(&f.scratch, p, &d, max(p.Len(), 1), cached)
	return d
}

// text is a prompt without ids.
func text(words []byte) *routing.Prompt {
	return &routing.Prompt{Model: model, Text: words, Estimate: len(words) / 4, DP: -1}
}

func words(id, n int) []byte {
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, "%d:%d ", id, b.Len())
	}
	return b.Bytes()[:n]
}

func TestBelieved(t *testing.T) {
	f := newFleet(t, tiny(), tiny())
	f.learns()
	ids, chat := tokens(1, 10*unit+5), words(1, 10*4*unit+5)
	for _, p := range []*routing.Prompt{prompt(ids), text(chat)} {
		require.Equal(t, routing.Answers, f.ask(1, p, 0).Source)
		cached, d := f.pick(p)
		require.Equal(t, []int{0, 10 * unit}, cached)
		require.Equal(t, []int{10 * unit / page, p.Len() / page}, []int{d.Matched, d.Total}, "in the engine's own blocks")
		require.Equal(t, p.Len()-10*unit, d.Uncached())
	}
	longer := text(append(append([]byte{}, chat...), words(2, 500)...))
	cached, _ := f.pick(longer)
	require.Equal(t, []int{0, 10 * unit}, cached, "a prompt that goes on")
	cached, d := f.pick(text(chat[:4*unit]))
	require.Equal(t, []int{0, unit - 1}, cached, "one token is always computed")
	require.Equal(t, routing.Answers, d.Source)
	cached, _ = f.pick(text(chat[:4*unit-1]))
	require.Equal(t, []int{0, 0}, cached, "less than a unit")
}

// TestExactRanks: the overlap of ranks with live events is the one by events, independent of
// prompts sent there.
func TestExactRanks(t *testing.T) {
	f := newFleet(t, tiny(), tiny())
	f.learns()
	ids := tokens(1, 10*unit)
	f.ranks[0].SetExact(true)
	prove(f.ranks[0])
	f.holds(0, radix.DomainKey{}, ids, 3, radix.TierGPU)
	require.Equal(t, routing.Events, f.ask(0, prompt(ids), 0).Source)
	require.Zero(t, f.router.Approx.Held(f.ranks[0]), "nobody needs it")
	f.ask(1, prompt(ids), 0)
	cached, d := f.pick(prompt(ids))
	require.Equal(t, []int{3 * page, 10*unit - 1}, cached)
	require.Equal(t, routing.Answers, d.Source)

	f.ranks[0].SetExact(false) // its events died: requests from now on are known
	require.Equal(t, routing.Answers, f.ask(0, prompt(ids), 0).Source)
	cached, d = f.pick(prompt(ids))
	require.Equal(t, []int{10*unit - 1, 10*unit - 1}, cached)
	require.Equal(t, routing.Answers, d.Source)

	f.ranks[0].SetExact(true)
	cached, d = f.pick(prompt(ids))
	require.Equal(t, []int{3 * page, 10*unit - 1}, cached)
	require.Equal(t, routing.Events, d.Source)

	p := prompt(ids)
	p.Opaque = true
	cached, d = f.pick(p)
	require.Equal(t, []int{0, 0}, cached)
	require.Equal(t, routing.Unknown, d.Source)
	_, d = f.pick(text(nil))
	require.Equal(t, routing.Unknown, d.Source)
	require.Equal(t, "none exact approximate", fmt.Sprint(routing.Unknown, " ", routing.Events, " ", routing.Answers))
}

// prove has answers meet a rank's events.
func prove(rank *worker.Rank) {
	for range 64 {
		rank.CompareEvents(time.Now(), worker.EventClaim{Told: 160, Expect: 160, Cached: 160, Page: page})
	}
}

// TestNewEvents: events that no answer has met yet stand beside the tree, which knows the prompts
// that they should have told of; what they tell beyond counts.
func TestNewEvents(t *testing.T) {
	f := newFleet(t, tiny(), tiny())
	f.learns()
	sent, told := tokens(1, 10*unit), tokens(2, 10*unit)
	for _, rank := range f.ranks {
		rank.SetExact(true)
	}
	f.holds(0, radix.DomainKey{}, told, 3, radix.TierGPU)
	cached, d := f.pick(prompt(told))
	require.Equal(t, []int{3 * page, 0}, cached)
	require.Equal(t, routing.Events, d.Source)
	require.Equal(t, routing.Events, f.ask(1, prompt(sent), 0).Source, "no rank holds it")
	cached, d = f.pick(prompt(sent))
	require.Equal(t, []int{0, 10*unit - 1}, cached)
	require.Equal(t, routing.Answers, d.Source)
	prove(f.ranks[1])
	cached, d = f.pick(prompt(sent))
	require.Equal(t, []int{0, 0}, cached, "its events tell all")
	require.Equal(t, routing.Events, d.Source)
}

// TestExactRanksFeedNoTree: while the events of all ranks are followed and were met, no request costs the tree
// anything, and one that was sent before they failed leaves nothing behind.
func TestExactRanksFeedNoTree(t *testing.T) {
	f := newFleet(t, tiny(), tiny())
	a := f.learns()
	empty := a.Stats()
	for _, rank := range f.ranks {
		rank.SetExact(true)
		prove(rank)
	}
	f.holds(0, radix.DomainKey{}, tokens(3, 4*page), 4, radix.TierGPU) // events tell of a shape
	p := prompt(tokens(1, 10*unit))
	for _, fails := range []bool{false, true} {
		_, d := f.pick(p)
		require.Equal(t, routing.Events, d.Source)
		flight := f.router.Dispatch(&f.scratch, p, &d)
		require.NotNil(t, flight)
		f.router.Sent(&f.scratch, &d)
		if fails {
			d.Rank.SetExact(false)
		}
		f.router.Answered(&f.scratch, p, &d, p.Len(), 0)
		f.router.Withdraw(flight)
		require.Equal(t, empty, a.Stats())
	}
}

// TestWhatIsKeptApart: model, adapter, salt and extra key part caches; an extra
// key is in no event, so that not even exact ranks are exact.
func TestWhatIsKeptApart(t *testing.T) {
	f := newFleet(t, tiny(), tiny())
	f.learns()
	ids := tokens(1, 10*unit)
	f.ranks[0].SetExact(true)
	f.holds(0, radix.DomainKey{}, ids, 20, radix.TierGPU)
	variants := []func(*routing.Prompt){
		func(p *routing.Prompt) { p.ExtraKey = "a" },
		func(p *routing.Prompt) { p.ExtraKey = "b" },
		func(p *routing.Prompt) { p.Salt, p.ExtraKey = "a", "c" },
		func(p *routing.Prompt) { p.LoRA, p.ExtraKey = "a", "c" },
		func(p *routing.Prompt) { p.Model, p.ExtraKey = "tiny:sql", "c" },
	}
	for i, change := range variants {
		p := prompt(ids)
		change(p)
		require.Equal(t, routing.Answers, f.ask(0, p, 0).Source)
		cached, _ := f.pick(p)
		require.Equal(t, []int{10*unit - 1, 0}, cached, "variant %d", i)
		for _, other := range variants[i+1:] {
			q := prompt(ids)
			other(q)
			cached, _ = f.pick(q)
			require.Equal(t, []int{0, 0}, cached, "after variant %d", i)
		}
	}
}

// TestBurstFollowsTheFirst: a prompt is believed from dispatch on, and not after
// the rank failed it.
func TestBurstFollowsTheFirst(t *testing.T) {
	f := newFleet(t, tiny(), tiny())
	f.learns()
	p := text(words(1, 4000))
	_, d := f.pick(p)
	f.router.Sent(&f.scratch, &d)
	var other routing.Scratch
	_, err := f.router.Pick(&other, p, nil)
	require.NoError(t, err)
	require.Equal(t, 4000/(4*unit)*unit, f.spy.candidates[0].Cached, "tokens of a prompt on its way")
	f.router.Failed(&f.scratch, &d)
	cached, d := f.pick(p)
	require.Equal(t, []int{0, 0}, cached)

	f.router.Sent(&f.scratch, &d)
	f.router.Answered(&f.scratch, p, &d, 0, 0) // it does not say what was cached
	f.router.Failed(&f.scratch, &d)
	cached, _ = f.pick(p)
	require.Equal(t, 4000/(4*unit)*unit, cached[0], "after an answer there is nothing to take back")
}

// TestEvictionIsLearnt: an answer without cached tokens, where there must have
// been some, takes away all that is as old.
func TestEvictionIsLearnt(t *testing.T) {
	f := newFleet(t, tiny())
	a := f.learns()
	for i := range 20 {
		f.ask(0, text(words(i, 8000)), 0)
	}
	f.ask(0, text(words(9, 8000)), 0)
	for i := range 20 {
		cached, _ := f.pick(text(words(i, 8000)))
		if i < 9 {
			require.Equal(t, []int{0}, cached, "prompt %d, older than the one evicted", i)
		} else {
			require.NotEqual(t, []int{0}, cached, "prompt %d", i)
		}
	}
	require.EqualValues(t, 1, a.Stats().Contradicted)
	f.ask(0, text(words(9, 8000)), 1990)
	require.EqualValues(t, 1, a.Stats().Contradicted, "as expected")
}

func TestPoolBoundsWhatIsBelieved(t *testing.T) {
	f := newFleet(t, tiny())
	a := f.learns()
	w := f.ranks[0].Worker
	a.Up(w, &worker.Info{MaxTokens: 100 * unit})
	for i := range uint32(50) {
		f.ask(0, prompt(tokens(i, 10*unit)), 0)
	}
	require.EqualValues(t, 150*unit, a.Held(f.ranks[0]))
}

// TestNewLifeBeginsWithNothing: and an answer of the old one changes nothing.
func TestNewLifeBeginsWithNothing(t *testing.T) {
	f := newFleet(t, tiny(), &node{models: named(model), dp: 2})
	a := f.learns()
	p, w := prompt(tokens(1, 10*unit)), f.ranks[1].Worker
	for rank := range f.ranks {
		f.ask(rank, p, 0)
	}
	var old []routing.Decision
	scratches := make([]routing.Scratch, 2)
	for i := range scratches {
		f.spy.pick = 1
		d, err := f.router.Pick(&scratches[i], p, nil)
		require.NoError(t, err)
		f.router.Sent(&scratches[i], &d)
		old = append(old, d)
	}
	a.Down(w)
	require.Zero(t, a.Held(f.ranks[1]))
	cached, _ := f.pick(p)
	require.Equal(t, []int{10*unit - 1, 0, 0}, cached)
	a.Up(w, w.Info())
	cached, _ = f.pick(p)
	require.Equal(t, []int{10*unit - 1, 0, 0}, cached)
	f.router.Answered(&scratches[0], p, &old[0], 10*unit, 0)
	f.router.Failed(&scratches[1], &old[1])
	cached, _ = f.pick(p)
	require.Equal(t, []int{10*unit - 1, 0, 0}, cached)
	require.Equal(t, 3, a.Stats().Workers)

	a.Down(w)
	a.Down(f.ranks[0].Worker)
	a.Up(w, w.Info()) // with ids that were others' before
	f.ask(1, p, 0)
	f.ask(2, p, 0)
	cached, _ = f.pick(p)
	require.Equal(t, []int{0, 10*unit - 1, 10*unit - 1}, cached)
}

// TestConversationsStay: by approximate overlaps alone, the kv policy keeps a conversation on
// its rank and sends new ones to less loaded ranks.
func TestConversationsStay(t *testing.T) {
	f := newFleet(t, tiny(), tiny(), tiny(), tiny())
	f.learns()
	kv := f.with(policy.KV{Options: policy.Defaults})
	kv.Approx = f.router.Approx
	homes := map[*worker.Rank]int{}
	var leases []worker.Lease
	for c := range 40 {
		var home *worker.Rank
		history := words(0, 2000) // all begin alike
		for turn := range 4 {
			history = append(history, words(1+c*4+turn, 1500)...)
			p := text(history)
			d, err := kv.Pick(&f.scratch, p, nil)
			require.NoError(t, err)
			kv.Sent(&f.scratch, &d)
			if turn == 0 {
				home = d.Rank
				homes[home]++
			}
			require.Same(t, home, d.Rank, "conversation %d, turn %d", c, turn)
			kv.Answered(&f.scratch, p, &d, p.Len(), d.Cached)
		}
		leases = append(leases, home.Load.Begin(1000)) // it stays busy
	}
	for i := range leases {
		leases[i].End()
	}
	for _, rank := range f.ranks {
		require.InDelta(t, 10, homes[rank], 3, "conversations of %s", rank.ID())
	}
}

// TestLivesBesideRequests: workers come and go while requests are on their way.
// At the end nothing is left of anyone.
func TestLivesBesideRequests(t *testing.T) {
	f := newFleet(t, tiny(), tiny(), tiny())
	a := f.learns()
	kv := f.with(policy.KV{Options: policy.Defaults})
	kv.Approx = a
	var requests, lives sync.WaitGroup
	stop := make(chan struct{})
	for g := range 2 {
		requests.Go(func() {
			var s routing.Scratch
			var prompts []*routing.Prompt
			for i := range 50 {
				prompts = append(prompts, text(words(i, 3000+g)))
			}
			for i := range 2000 {
				p := prompts[i%50]
				d, err := kv.Pick(&s, p, nil)
				if err != nil {
					t.Error(err)
					return
				}
				kv.Sent(&s, &d)
				if i%5 == 0 {
					kv.Failed(&s, &d)
				} else {
					kv.Answered(&s, p, &d, p.Len(), i%p.Len())
				}
			}
		})
	}
	lives.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				w := f.ranks[i%3].Worker
				f.ranks[i%3].SetExact(i%2 == 0)
				a.Down(w)
				a.Up(w, w.Info())
			}
		}
	})
	requests.Wait()
	close(stop)
	lives.Wait()
	for _, rank := range f.ranks {
		a.Down(rank.Worker)
		require.Zero(t, a.Held(rank))
	}
	st := a.Stats()
	require.Zero(t, st.Holds+st.Nodes+st.Units+int64(st.Workers))
}
