package tokens_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/radix"
)

// TestReleasedMemoryIsNobodys has prompts come and go through a small cache, some with many callers
// at once, some released and some not: none may change before its release.
func TestReleasedMemoryIsNobodys(t *testing.T) {
	x := radix.New(radix.Config{Seed: 1})
	s := newSource(t, tokens.Config{Fetch: &worker{}, Index: x, BlockSize: func() int { return 16 }, MaxBytes: 16 * 40_000})
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			type kept struct {
				p    tokens.Prompt
				want string
			}
			var held []kept
			check := func(k kept) {
				body := fmt.Sprintf(`{"model":"m","prompt":%q}`, k.want)
				if want := idsOf(body); !slices.Equal(k.p.IDs, want) || !slices.Equal(k.p.Hashes, x.AppendHashes(nil, want, 16)) {
					t.Errorf("prompt %.20q… changed", k.want)
				}
			}
			for i := range 400 {
				// Of two goroutines the same.
				text := strings.Repeat(string(rune('a'+(g/2+i)%26)), 1000+(i*37)%3000)
				p, err := s.Prompt(nil, "http://a", prompt(t, text))
				if err != nil {
					t.Error(err)
					return
				}
				held = append(held, kept{p, text})
				if len(held) > 5 {
					check(held[0])
					if i%7 != 0 {
						held[0].p.Release()
					}
					held = held[1:]
				}
			}
			for _, k := range held {
				check(k)
			}
		})
	}
	all.Wait()
}

// TestReleaseOfWhatIsCached: the cache keeps prompts that its callers have released.
func TestReleaseOfWhatIsCached(t *testing.T) {
	w := &worker{}
	s := newSource(t, tokens.Config{Fetch: w})
	req := prompt(t, strings.Repeat("a", 100))
	var want []uint32
	for i := range 4 {
		p, err := s.Prompt(nil, "http://a", req)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			want = slices.Clone(p.IDs)
		} else if !slices.Equal(p.IDs, want) {
			t.Fatalf("turn %d: other ids", i)
		}
		p.Release()
		if q, err := s.Prompt(nil, "http://a", prompt(t, strings.Repeat("b", 101+i))); err == nil {
			q.Release()
		}
	}
	if w.calls() != 6 { // a prompt that came once is not kept
		t.Errorf("asked %d times, want 6", w.calls())
	}
}

// TestReleaseOfWaiters: each caller that waited for one fetch has a reference of its own.
func TestReleaseOfWaiters(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		w := &worker{answer: func(_ context.Context, body string) (int, string, error) {
			if strings.Contains(body, "first") {
				<-hold
			}
			return 200, idsAnswer(body), nil
		}}
		s := newSource(t, tokens.Config{Fetch: w, MaxBytes: -1})
		req, got := prompt(t, "first"), make(chan tokens.Prompt, 3)
		for range 3 {
			go func() {
				p, err := s.Prompt(nil, "http://a", req)
				if err != nil {
					t.Error(err)
				}
				got <- p
			}()
		}
		synctest.Wait()
		close(hold)
		a, b, c := <-got, <-got, <-got
		want := slices.Clone(a.IDs)
		a.Release()
		b.Release()
		other, err := s.Prompt(nil, "http://a", prompt(t, "secnd"))
		if err != nil || slices.Equal(other.IDs, want) {
			t.Fatal(err, other.IDs)
		}
		if !slices.Equal(c.IDs, want) {
			t.Error("the third of three had not given its prompt back")
		}
	})
}

// TestMemorySizes holds that each number of ids has the least size with room for it, and no size
// wastes more than a fifth.
func TestMemorySizes(t *testing.T) {
	last, lastRoom := 0, 0
	for n := 1; n < 1<<16; n++ {
		size, room := tokens.SizeFor(n)
		switch {
		case room < n, size < last, size > last+1, n > 16 && room*4 >= n*5:
			t.Fatalf("%d ids: size %d with room for %d, behind %d", n, size, room, last)
		case size == last && room != lastRoom, size > last && lastRoom != n-1:
			t.Fatalf("%d ids: size %d has room for %d, before %d", n, size, room, lastRoom)
		}
		last, lastRoom = size, room
	}
}
