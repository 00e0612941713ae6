//go:build !race

package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLookupDoesNotAllocate(t *testing.T) {
	tier, ns, hashes := filled(t, minBytes, 128)
	if n := testing.AllocsPerRun(100, func() { tier.engines.find(ns, hashes, 0) }); n != 0 {
		t.Errorf("a question of an engine allocates %v times, want 0", n)
	}
}

func TestGatherDoesNotAllocate(t *testing.T) {
	r := &region{data: make([]byte, 2*testLayers*poolTokens*rowBytes)}
	f := layout{regions: []*region{r}, pieces: layerFirst(), bytes: testBytes}
	dst := make([]byte, testBytes)
	if n := testing.AllocsPerRun(100, func() {
		require.NoError(t, f.gather(dst, 8))
	}); n != 0 {
		t.Errorf("copying a page allocates %v times, want 0", n)
	}
}
