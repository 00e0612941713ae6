package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

func TestAccuracySetsHowOftenIsChecked(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	tests := []struct {
		name         string
		hits, misses int
		want         time.Duration
	}{
		{"nothing compared", 0, 0, 5 * time.Second},
		{"too little", 0, 7, 5 * time.Second},
		{"always right", 20, 0, 5 * time.Second},
		{"19 of 20 are 0.95", 19, 1, 2 * time.Second},
		{"18 of 21", 18, 3, 2 * time.Second},
		{"17 of 20 are 0.85", 17, 3, time.Second},
		{"7 of 10 are 0.70", 7, 3, 500 * time.Millisecond},
		{"8 of 11", 8, 3, time.Second},
		{"never", 0, 20, 500 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var trust worker.Trust
			for range tt.hits {
				trust.Observe(now, 1000, 800) // 0.8 is a hit
			}
			for range tt.misses {
				trust.Observe(now, 1000, 799)
			}
			require.Equal(t, tt.want, trust.CheckEvery(now))
			accuracy, n := trust.Accuracy(now)
			require.Equal(t, tt.hits+tt.misses, n)
			if n > 0 {
				require.InDelta(t, float64(tt.hits)/float64(n), accuracy, 1e-9)
			}
		})
	}
}

func TestTrustForgetsWhatIsOld(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var trust worker.Trust
	for range 64 {
		trust.Observe(now, 1000, 0)
	}
	require.Zero(t, trust.Credit(now, true), "an overlap that never was")
	for range 64 {
		trust.Observe(now, 1000, 1000)
	}
	require.InDelta(t, 1, trust.Credit(now, true), 1e-9, "the window is 64 answers")
	accuracy, n := trust.Accuracy(now)
	require.InDelta(t, 1, accuracy, 1e-9)
	require.Equal(t, 64, n)

	for range 64 {
		trust.Observe(now, 1000, 500)
	}
	require.InDelta(t, 0.5, trust.Credit(now, true), 1e-9)
	require.InDelta(t, 0.75, trust.Credit(now.Add(150*time.Second), true), 1e-9, "half of 5 minutes without an answer")
	require.InDelta(t, 1, trust.Credit(now.Add(time.Hour), true), 1e-9)
	_, n = trust.Accuracy(now.Add(5*time.Minute + 1))
	require.Zero(t, n)
	trust.Observe(now.Add(10*time.Minute), 1000, 900)
	_, n = trust.Accuracy(now.Add(10 * time.Minute))
	require.Equal(t, 1, n, "of the last 5 minutes")
	trust.Observe(now.Add(10*time.Minute), 0, 0)
	_, n = trust.Accuracy(now.Add(10 * time.Minute))
	require.Equal(t, 1, n, "nothing expected says nothing")

	trust.Forget()
	require.InDelta(t, 1, trust.Credit(now, true), 1e-9)
}

func TestTrustFallsWithSilence(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var trust worker.Trust
	require.Negative(t, trust.Silence(now))
	require.InDelta(t, 1, trust.Credit(now, true), 1e-9, "a rank that has told nothing yet holds nothing")
	trust.Confirmed(now)
	for _, tt := range []struct {
		after time.Duration
		want  float64
	}{{0, 1}, {15 * time.Second, 1}, {18750 * time.Millisecond, 0.75}, {22500 * time.Millisecond, 0.5}, {30 * time.Second, 0}, {time.Hour, 0}} {
		require.InDelta(t, tt.want, trust.Credit(now.Add(tt.after), true), 1e-9, "after %v", tt.after)
		require.InDelta(t, 1, trust.Credit(now.Add(tt.after), false), 1e-9, "what answers told does not age by events")
	}
}

func TestChangeOfSourceBeginsAnew(t *testing.T) {
	var rank worker.Rank
	now := time.Now()
	for range 64 {
		rank.Trust.Observe(now, 1000, 0)
	}
	rank.SetExact(false)
	_, n := rank.Trust.Accuracy(now)
	require.Equal(t, 64, n, "nothing changed")
	rank.SetExact(true)
	_, n = rank.Trust.Accuracy(now)
	require.Zero(t, n)
}
