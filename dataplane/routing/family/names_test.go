package family_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/dataplane/routing/family"
)

// begins names three beginnings of a prompt: all prompts share the first, those of a group the second, none the third.
func begins(group, prompt uint64) func(int) (uint64, bool) {
	return func(n int) (uint64, bool) { return [...]uint64{1, 100 + group, 1e6 + prompt}[n], n < 2 }
}

func TestNamesAreAsLongAsTheyMustBe(t *testing.T) {
	var f family.Names
	rng := rand.New(rand.NewPCG(1, 2))
	assert.Equal(t, uint64(1), f.Name(8, begins(0, 0)), "nothing says yet that all begin so")
	for i := range uint64(20_000) { // beyond the window
		f.Name(8, begins(rng.Uint64N(20), i))
	}
	for group := range uint64(20) {
		assert.Equal(t, 100+group, f.Name(8, begins(group, 1e5+group)), "each of 20 groups is less than an eighth")
	}
	assert.Equal(t, uint64(1), f.Name(1, begins(3, 3e5)), "one rank carries all")
	for i := range uint64(20_000) {
		f.Name(8, begins(7, 1e7+i))
	}
	assert.Equal(t, uint64(1e6+5e8), f.Name(8, begins(7, 5e8)), "a group that all now ask for is parted")
}

func TestNamesFromManyGoroutines(t *testing.T) {
	var (
		f  family.Names
		wg sync.WaitGroup
	)
	for g := range uint64(4) {
		wg.Go(func() {
			for i := range uint64(5000) {
				f.Name(8, begins(i%20, g*5000+i))
			}
		})
	}
	wg.Wait()
	assert.NotEqual(t, uint64(1), f.Name(8, begins(1, 1e8)))
}

func TestNamesAllocateNothing(t *testing.T) {
	var f family.Names
	first := begins(1, 1)
	assert.Zero(t, testing.AllocsPerRun(1000, func() { f.Name(8, first) }))
}

func BenchmarkName(b *testing.B) {
	var f family.Names
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i++ {
		f.Name(8, begins(i%20, i))
	}
}
