package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDefaultIndexBytes(t *testing.T) {
	defaults, none, set := Config{}, Config{Memory: Memory{Index: -1}}, Config{Memory: Memory{Index: 1 << 30}}
	for _, c := range []*Config{&defaults, &none, &set} {
		c.SetDefaults()
	}
	require.Equal(t, defaultIndexBytes(), defaults.Memory.Index)
	require.Greater(t, defaults.Memory.Index, int64(64<<20), "a machine that can run the tests has that much")
	require.Less(t, defaults.Memory.Index, int64(1<<50))
	require.EqualValues(t, []int64{-1, 1 << 30}, []int64{none.Memory.Index, set.Memory.Index})
}

func TestMemoryBound(t *testing.T) {
	caches := int64(defaultApproxBytes + defaultPromptCacheBytes)
	require.Equal(t, defaultIndexBytes()+caches, Memory{}.Bound())
	require.Equal(t, machineMemory()+caches, Memory{Index: -1}.Bound())
	require.EqualValues(t, 111, Memory{Index: 100, Approx: 10, PromptCache: 1}.Bound())
}
