package sim

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFaultKinds: every kind of the list is one.
func TestFaultKinds(t *testing.T) {
	w := startWorker(t, Config{})
	for _, kind := range FaultKinds() {
		require.NotEmpty(t, kind.Does)
		require.NoError(t, w.Faults().Apply(Fault{Kind: kind.Name, Seconds: 0.001}), kind.Name)
	}
	require.ErrorIs(t, w.Faults().Apply(Fault{Kind: "crsh"}), ErrFault)
}
