package store

import (
	"encoding/hex"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/kvtier/hint"
	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// modelName names a namespace as the backend does.
func modelName(model string, rank int) string {
	return fmt.Sprintf(`{"model":%q,"rank":"%d/2","tokens":%d}`, model, rank, testTokens)
}

// prompted returns the tokens of the first n pages of chain(prompt, …).
func prompted(prompt uint32, n int) []uint32 {
	tokens := make([]uint32, n*testTokens)
	for i := range tokens {
		tokens[i] = prompt
	}
	return tokens
}

// told returns a router's message.
func told(t *testing.T, from string, p hint.Pages) []byte {
	t.Helper()
	data, n := hint.Append(nil, &p)
	if n == 0 {
		t.Fatalf("there is nothing to tell in %+v", p)
	}
	return hint.AppendFrom(data, from)
}

// Hashes of SGLang 0.5.23 (mem_cache/utils.py, get_storage_hash_str) for two pages of 4 tokens.
func TestPageHashesAreThoseOfSGLang(t *testing.T) {
	tokens := []uint32{5, 6, 7, 8, 9, 10, 11, 12, 13}
	for salt, want := range map[string][2]string{
		"":         {"f3e0813c89d0991f07fbb5027a68c0cb809e1effc0c1e8974664bd2e57b50024", "8b02ac8104b6f59e2539acb644a5c38b92dc1a03e026cd6f7242df857d8a6bd0"},
		"s1":       {"e1fcf09ec6e3b687fe9e01eb7fcdd12d6a06d5dfe0a933fd2c28b89af66c973d", "06614225bea1afdfba243c7debd4d3b86e5cb9ee417c1e69574cb6847dd93e28"},
		"tenant-ä": {"3297ba3f2590f0ed68741e839f8f7b4441697ac868a14a24cf0a4108fa807927", "d7f4677a59475f2349097931b067766f53cdd0e441fe79fed506f0cfacd4109c"},
	} {
		got := proto.PageHashes(tokens, 4, salt)
		if len(got) != 2 || hex.EncodeToString(got[0][:]) != want[0] || hex.EncodeToString(got[1][:]) != want[1] {
			t.Errorf("salt %q: %x, want %v", salt, got, want)
		}
	}
}

// A pull hint brings the pages of all ranks before an engine asks, except those in its prefix
// cache.
func TestRouterHintBringsPages(t *testing.T) {
	for name, fabric := range fabrics() {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, fabric())
			var here [2]*engine
			var hashes []proto.Hash
			for rank := range here {
				hashes = dialTier(t, a, modelName("tiny", rank)).store(7, 25)
				here[rank] = dialTier(t, b, modelName("tiny", rank))
			}
			dialTier(t, b, modelName("other", 0))
			b.TakeHint(told(t, "a", hint.Pages{PageSize: testTokens, Have: 5 * testTokens, Model: "tiny", Tokens: prompted(7, 25)}))
			eventually(t, "the pages are here before anybody asked for them", func() bool { return b.Stats().Hints.Pulled == 40 })
			for _, engine := range here {
				engine.reads("that the engine has itself", 0, 7, hashes[:5], 0)
				engine.finds("hinted", 20, hashes[5:], 0)
				for i, page := range engine.get(hashes[5:], 0) {
					if string(page) != string(pageBytes(7<<32+uint64(i+5))) {
						t.Errorf("page %d is another one", i+5)
					}
				}
				engine.release()
			}
			if s := b.Stats(); s.Pulled != 40 || s.Hints != (HintStats{Received: 1, Pulled: 40}) {
				t.Errorf("pulled %d, hints %+v", s.Pulled, s.Hints)
			}
		})
	}
}

// Pages of prompts with a cache salt are found by the salt.
func TestRouterHintWithSalt(t *testing.T) {
	a, b := pair(t, nil)
	on := dialTier(t, a, modelName("tiny", 0))
	dialTier(t, b, modelName("tiny", 0))
	tokens := prompted(7, 3)
	for i, h := range proto.PageHashes(tokens, testTokens, "pepper") {
		on.fill(0, uint64(i))
		on.set([]proto.Hash{h}, []uint64{0}, nil, true)
	}
	b.TakeHint(told(t, "", hint.Pages{Model: "tiny", Tokens: tokens}))
	eventually(t, "pages without the salt are not found", func() bool { return b.Stats().Hints.Vain == 1 })
	b.TakeHint(told(t, "", hint.Pages{Model: "tiny", Salt: "pepper", Tokens: tokens}))
	eventually(t, "the salted pages", func() bool { return b.Stats().Hints.Pulled == 3 })
}

// All other messages are counted, and cost nothing.
func TestHintsThatBringNothing(t *testing.T) {
	a, b := pair(t, nil)
	dialTier(t, a, modelName("tiny", 0)).store(7, 10)
	dialTier(t, b, modelName("tiny", 0)).store(8, 10)
	want := HintStats{}
	step := func(what string, message []byte, change func()) {
		t.Helper()
		want.Received++
		change()
		b.TakeHint(message)
		eventually(t, what, func() bool { return b.Stats().Hints == want })
	}
	tokens := prompted(7, 10)
	step("no message", nil, func() { want.Refused++ })
	step("noise", []byte("noise"), func() { want.Refused++ })
	step("cut off", told(t, "", hint.Pages{Model: "tiny", Tokens: tokens})[:100], func() { want.Refused++ })
	step("another version", append([]byte{2}, told(t, "", hint.Pages{Model: "tiny", Tokens: tokens})[1:]...), func() { want.Refused++ })
	step("a model that is not served here", told(t, "", hint.Pages{Model: "other", Tokens: tokens}), func() { want.UnknownModel++ })
	step("pages of another size", told(t, "", hint.Pages{PageSize: 5, Model: "tiny", Tokens: tokens}), func() { want.UnknownModel++ })
	step("pages that are here", told(t, "a", hint.Pages{Model: "tiny", Tokens: prompted(8, 10)}), func() { want.Needless++ })
	step("less than a page", told(t, "a", hint.Pages{Model: "tiny", Tokens: tokens[:3]}), func() { want.Needless++ })
	step("pages that nobody has", told(t, "a", hint.Pages{Model: "tiny", Tokens: prompted(9, 10)}), func() { want.Vain++ })
	step("pages that a peer has", told(t, "a", hint.Pages{Model: "tiny", Tokens: tokens}), func() { want.Pulled += 10 })
	step("the same again", told(t, "elsewhere", hint.Pages{Model: "tiny", Tokens: tokens}), func() { want.Duplicate++ })
	for range maxHints {
		b.prefetch.slots <- struct{}{}
	}
	step("too many at once", told(t, "", hint.Pages{Model: "tiny", Tokens: tokens[:8]}), func() { want.Dropped++ })
	for range maxHints {
		<-b.prefetch.slots
	}
	step("which may come again", told(t, "", hint.Pages{Model: "tiny", Tokens: tokens[:8]}), func() { want.Needless++ })
}

// The node named in a hint is asked first, and the others where it lacks a page.
func TestHintPrefersAPeer(t *testing.T) {
	tiers := map[string]*Store{}
	for _, name := range []string{"a", "b", "c"} {
		tiers[name] = serve(t, Config{Listen: "127.0.0.1:0", Node: name})
	}
	a, b, c := tiers["a"], tiers["b"], tiers["c"]
	meet(t, nil, a, b, c)
	onA, onB := dialTier(t, a, modelName("tiny", 0)), dialTier(t, b, modelName("tiny", 0))
	dialTier(t, c, modelName("tiny", 0))
	served := [2]int64{}
	for prompt := range uint32(6) {
		onA.store(prompt, 10)
		onB.store(prompt, 10)
		from := []string{"a", "b"}[prompt%2]
		c.TakeHint(told(t, from, hint.Pages{Model: "tiny", Tokens: prompted(prompt, 10)}))
		served[prompt%2] += 10
		eventually(t, "pages of "+from, func() bool { return a.Stats().Served == served[0] && b.Stats().Served == served[1] })
	}
	for i, from := range []string{"a", "nobody", ""} { // a has less than b
		onA.store(10+uint32(i), 5)
		onB.store(10+uint32(i), 10)
		c.TakeHint(told(t, from, hint.Pages{Model: "tiny", Tokens: prompted(10+uint32(i), 10)}))
		served[1] += 10
		eventually(t, "pages of b", func() bool { return a.Stats().Served == served[0] && b.Stats().Served == served[1] })
	}
}

// Useless hints, in any number, evict pages on probation only, and one hint a quarter of the
// store at most.
func TestUnusedHintsEvictNothingHot(t *testing.T) {
	var later atomic.Int64 // nanoseconds
	now := func() time.Time { return time.Unix(1_000_000, later.Load()) }
	a, b := serve(t, Config{Listen: "127.0.0.1:0", Node: "a", Bytes: 4 * minBytes}), serve(t, Config{Listen: "127.0.0.1:0", Node: "b", Now: now})
	meet(t, nil, a, b)
	on, here := dialTier(t, a, modelName("tiny", 0)), dialTier(t, b, modelName("tiny", 0))
	hot := here.store(1, 500)
	for range 2 {
		here.check(1, hot, 0)
	}
	room := int(b.Stats().Bytes / prefetchShare / testBytes)
	pages := room + 100
	for prompt := range uint32(6) {
		on.store(100+prompt, pages)
	}
	for round := range int64(2) {
		for prompt := range uint32(6) {
			n := (round*6 + int64(prompt) + 1) * int64(room)
			b.TakeHint(told(t, "a", hint.Pages{Model: "tiny", Tokens: prompted(100+prompt, pages)}))
			eventually(t, "a quarter of the tier", func() bool { return b.Stats().Hints.Pulled == n })
		}
		later.Add(int64(2 * hintInterval))
	}
	if s := b.Stats(); s.Evicted < int64(6*room) || s.Hints.Pulled != 12*int64(room) {
		t.Fatalf("%d evicted, %+v: nothing is shown", s.Evicted, s.Hints)
	}
	here.finds("hot", len(hot), hot, 0)
}

// Hints may come before, during and after Run.
func TestHintsAndTheEnd(t *testing.T) {
	b, stop := serveUntil(t, Config{Listen: "127.0.0.1:0", Node: "b"})
	dialTier(t, b, modelName("tiny", 0))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range uint32(2000) {
			b.TakeHint(told(t, "", hint.Pages{Model: "tiny", Tokens: prompted(i, 2)}))
		}
	}()
	stop()
	<-done
	b.TakeHint(told(t, "", hint.Pages{Model: "tiny", Tokens: prompted(1, 2)}))
	idle, err := New(Config{Bytes: minBytes})
	require.NoError(t, err)
	idle.TakeHint(told(t, "", hint.Pages{Model: "tiny", Tokens: prompted(1, 2)}))
	idle.prefetch.end()
	if err := idle.Close(); err != nil {
		t.Error(err)
	}
}
