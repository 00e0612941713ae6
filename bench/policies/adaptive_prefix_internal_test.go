package policies

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

// beginnings names three beginnings of a prompt: all prompts share the first, those of a group
// the second, none the third.
func beginnings(group, prompt uint64) []uint64 { return []uint64{1, 100 + group, 1e6 + prompt} }

func TestAdaptivePrefixIsAsLongAsItMustBe(t *testing.T) {
	var a adaptivePrefix
	rng := rand.New(rand.NewPCG(1, 2))
	assert.Equal(t, uint64(1), a.hash(8, beginnings(0, 0)), "no count says yet that all begin so")
	for i := range uint64(20_000) { // beyond the window
		a.hash(8, beginnings(rng.Uint64N(20), i))
	}
	for group := range uint64(20) {
		assert.Equal(t, 100+group, a.hash(8, beginnings(group, 1e5+group)), "each of 20 groups is less than an eighth")
	}
	assert.Equal(t, uint64(1), a.hash(1, beginnings(3, 3e5)), "one rank carries all")
	for i := range uint64(20_000) {
		a.hash(8, beginnings(7, 1e7+i))
	}
	assert.Equal(t, uint64(1e6+5e8), a.hash(8, beginnings(7, 5e8)), "a group that all prompts belong to is parted")
}
