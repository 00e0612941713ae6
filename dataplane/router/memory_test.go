package router

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDefaultIndexBytes(t *testing.T) {
	defaults, none, set := Config{}, Config{IndexMaxBytes: -1}, Config{IndexMaxBytes: 1 << 30}
	for _, c := range []*Config{&defaults, &none, &set} {
		c.setDefaults()
	}
	require.Equal(t, defaultIndexBytes(), defaults.IndexMaxBytes)
	require.Greater(t, defaults.IndexMaxBytes, int64(64<<20), "a machine that can run the tests has that much")
	require.Less(t, defaults.IndexMaxBytes, int64(1<<50))
	require.EqualValues(t, []int64{-1, 1 << 30}, []int64{none.IndexMaxBytes, set.IndexMaxBytes})
	saved := snapshots{maxBytes: set.IndexMaxBytes}
	saved.load()
	require.EqualValues(t, 1<<30, saved.index.Stats().MaxBytes)
}
