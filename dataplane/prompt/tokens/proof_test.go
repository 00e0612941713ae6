package tokens_test

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
)

// TestProof: three equal lengths in a row prove a conversion, one difference ends that, and then it
// takes two hundred.
func TestProof(t *testing.T) {
	p := tokens.NewProof("m messages", slog.New(slog.DiscardHandler))
	for _, own := range []int{10, 20, 21} {
		assert.False(t, p.Proved())
		p.Compare(own, own)
	}
	assert.True(t, p.Proved())
	p.Compare(30, 31)
	assert.False(t, p.Proved())
	for n := range 200 {
		assert.False(t, p.Proved())
		p.Compare(n, n)
	}
	assert.True(t, p.Proved())
	matches, mismatches := p.Counts()
	assert.EqualValues(t, 203, matches)
	assert.EqualValues(t, 1, mismatches)
}
