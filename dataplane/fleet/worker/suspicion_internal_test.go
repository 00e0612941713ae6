package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDoubtWhenTheClockGoesBack: a doubt has to wait for a check that was just made, and not for one
// of a time to come.
func TestDoubtWhenTheClockGoesBack(t *testing.T) {
	for from, want := range map[time.Duration]State{-time.Second: Slow, time.Second: Ready, time.Hour: Slow} {
		w, err := newWorker(Spec{URL: "http://a:1"}, nil, new(numbers))
		require.NoError(t, err)
		w.setState(Ready)
		w.probe.suspectFrom.Store(time.Now().Add(from).UnixNano())
		w.Doubt()
		require.Equal(t, want, w.State(), from)
		require.Equal(t, want == Ready, (&monitor{w: w, known: true}).suspicionTimer(time.Now()) != nil, from)
	}
}
