//go:build gpu && cgo && linux

package nvml_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/nvml"
)

// TestRealGPU reads the driver of this machine (make test-gpu). It logs all facts, and requires
// those of every data center GPU.
func TestRealGPU(t *testing.T) {
	s, err := nvml.Read(t.Context(), nvml.Config{})
	require.NoError(t, err)
	require.Equal(t, nvml.StateReady, s.State, s.Detail)
	require.NotEmpty(t, s.GPUs)
	text, err := json.MarshalIndent(s, "", "  ")
	require.NoError(t, err)
	t.Logf("%s", text)
	for _, g := range s.GPUs {
		require.Nil(t, g.Err)
		assert.True(t, g.UUID.OK && g.Name.OK && g.Bus.OK)
		assert.Positive(t, g.Memory.Total.Value)
		assert.LessOrEqual(t, g.Memory.Used.Value+g.Memory.Free.Value, g.Memory.Total.Value)
		assert.Positive(t, g.Temperature.GPU.Value)
		assert.Positive(t, g.Clocks.SMMax.Value)
		assert.True(t, g.Throttle.OK)
		assert.True(t, g.Processes.OK)
	}
}

// BenchmarkReadRealGPU measures one full read (make test-gpu).
func BenchmarkReadRealGPU(b *testing.B) {
	r := nvml.OpenReads("libnvidia-ml.so.1")
	defer r.Close()
	if s := r.Read(); s.State != nvml.StateReady {
		b.Skip(s.Detail)
	}
	b.ReportAllocs()
	for b.Loop() {
		r.Read()
	}
}
