package routing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/radix"
)

// TestKnownHashes: a prompt with any number of known leading hashes is routed like any other,
// for all sizes and kinds of blocks.
func TestKnownHashes(t *testing.T) {
	shapes := map[string]ingest.Shape{
		"same blocks":  {Model: model, BlockSize: page},
		"other blocks": {Model: model, BlockSize: 2 * page},
		"bigrams":      {Model: model, BlockSize: page, Bigram: true},
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, tiny())
			f.shapes = []ingest.Shape{shape}
			ids := tokens(1, 43)
			f.holds(0, radix.DomainKey{BlockSize: shape.BlockSize, Bigram: shape.Bigram}, ids, 4, radix.TierGPU)
			want, plain := f.pick(prompt(ids))
			require.Equal(t, []int{4 * shape.BlockSize}, want)
			for known := range len(ids)/page + 1 {
				p := prompt(ids)
				p.Hashes, p.Block = f.index.AppendHashes(nil, ids[:known*page], page), page
				got, d := f.pick(p)
				require.Equal(t, want, got, "%d blocks known", known)
				require.Equal(t, []int{plain.Matched, plain.Total, plain.Cached}, []int{d.Matched, d.Total, d.Cached})
			}
		})
	}
}

// TestKnownHashesAreNotMadeAgain gives a prompt the hashes of another one: only they count.
func TestKnownHashesAreNotMadeAgain(t *testing.T) {
	f := newFleet(t, tiny())
	ids := tokens(1, 41)
	f.holds(0, radix.DomainKey{}, ids, 10, radix.TierGPU)
	p := prompt(tokens(2, 41))
	p.Hashes, p.Block = f.index.AppendHashes(nil, ids, page), page
	got, _ := f.pick(p)
	require.Equal(t, []int{40}, got)
}
