package ingest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/ingest"
)

// TestAccuracySetsThePace: the less a rank's overlaps turn out to be there, the more often its replay is asked, busy or not.
func TestAccuracySetsThePace(t *testing.T) {
	for _, tt := range []struct {
		name   string
		misses int // of 20 answers
		want   int // checks a minute
	}{{"0 of 20", 0, 12}, {"2 of 20", 2, 30}, {"4 of 20", 4, 60}, {"10 of 20", 10, 120}} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, ingest.Config{}, 1, func(w *world) {
				w.up()
				w.pubs[0].publish(true, store(a, 0, 4))
				w.after(11 * time.Second) // the first check finds a batch since the one before
				trust := &w.worker.Ranks()[0].Trust
				for i := range 20 {
					actual := 100
					if i < tt.misses {
						actual = 0
					}
					trust.Observe(time.Now(), 100, actual)
				}
				w.after(5 * time.Second) // until the next tick, which sets the pace
				before := w.pubs[0].asked()
				w.after(time.Minute)
				require.InDelta(t, tt.want, w.pubs[0].asked()-before, 1)
				w.wantHeld(4, a, "nothing was forgotten for it")
				require.Equal(t, ingest.Live, w.stats().State())

				before = w.pubs[0].asked()
				for range 120 { // busy
					w.pubs[0].publish(true, store(b, 0, 4))
					w.after(250 * time.Millisecond)
				}
				if tt.misses == 0 {
					require.Equal(t, before, w.pubs[0].asked(), "a busy rank that is right shows its gaps by itself")
				} else {
					require.Greater(t, w.pubs[0].asked()-before, tt.want/4)
				}
			})
		})
	}
}

// TestSilenceIsToldFromQuiet: a quiet rank shows by each check that it is still known; one whose replay fails falls silent.
func TestSilenceIsToldFromQuiet(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		p, trust := w.pubs[0], &w.worker.Ranks()[0].Trust
		w.up()
		p.publish(true, store(a, 0, 4))
		for range 60 {
			w.after(time.Second)
			require.LessOrEqual(t, trust.Silence(time.Now()), 10*time.Second)
			require.InDelta(t, 1, trust.Credit(time.Now(), true), 1e-9)
		}
		p.with(func() { p.broken = true })
		w.after(22 * time.Second)
		require.Equal(t, ingest.Unverified, w.stats().State())
		require.Less(t, trust.Credit(time.Now(), true), 0.9)
		w.after(20 * time.Second)
		require.Zero(t, trust.Credit(time.Now(), true))
		p.with(func() { p.broken = false })
		w.after(21 * time.Second)
		require.InDelta(t, 1, trust.Credit(time.Now(), true), 1e-9, "a check that answers")
		require.Equal(t, ingest.Live, w.stats().State())
		p.with(func() { p.broken = true })
		w.after(time.Minute)
		p.publish(true, store(b, 0, 4))
		w.after(0)
		require.InDelta(t, 1, trust.Credit(time.Now(), true), 1e-9, "a batch")
	})
}
