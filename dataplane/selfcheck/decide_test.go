package selfcheck

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

var (
	plain   = Choice{Policy: kv}
	noQueue = Choice{Policy: kv, Without: policy.TermQueue}
	lmetric = Choice{Policy: "lmetric"}
)

// forecastOf has the same mean in every slice.
func forecastOf(c Choice, ttft float64) Forecast {
	f := Forecast{Choice: c, TTFT: ttft, P99: 5 * ttft, Latency: 10}
	for range slicesOfWindow {
		f.slices = append(f.slices, ttft)
	}
	return f
}

func evaluationOf(present Forecast, others ...Forecast) *evaluation {
	return &evaluation{requests: 500, observed: observed{Streamed: 500, TTFT: present.TTFT}, factor: 1, present: present, others: others}
}

func deciding(configured Choice) (*decider, time.Time) {
	l := Limits{}
	l.setDefaults()
	return newDecider(l, configured, start), start
}

// TestOneCheckIsNoProof: a policy must be better in two checks in a row, by a tenth, in nearly all
// slices, and without harm.
func TestOneCheckIsNoProof(t *testing.T) {
	better := evaluationOf(forecastOf(plain, 1), forecastOf(noQueue, 0.8))
	little := evaluationOf(forecastOf(plain, 1), forecastOf(noQueue, 0.92))
	tail := forecastOf(noQueue, 0.8)
	tail.P99 = 6
	slow := forecastOf(noQueue, 0.8)
	slow.Latency = 11
	seldom := forecastOf(noQueue, 0.5)
	seldom.slices[0], seldom.slices[1] = 1.1, 1.2
	burst := forecastOf(noQueue, 0.7)
	burst.slices[0], burst.slices[1], burst.slices[2] = 1, 1.01, 0.99
	wrong := evaluationOf(forecastOf(plain, 1), forecastOf(noQueue, 0.8))
	wrong.why = "it does not match"
	other := evaluationOf(forecastOf(plain, 1), forecastOf(lmetric, 0.8))
	rough := evaluationOf(forecastOf(plain, 1.6), forecastOf(noQueue, 0.5))
	rough.observed.TTFT, rough.factor = 1, 1.6

	for name, tc := range map[string]struct {
		checks []*evaluation
		change bool
	}{
		"twice":                 {[]*evaluation{better, better}, true},
		"once":                  {[]*evaluation{better}, false},
		"interrupted":           {[]*evaluation{better, little, better}, false},
		"mismatch between":      {[]*evaluation{better, wrong, better}, false},
		"another one":           {[]*evaluation{better, other, better, other}, false},
		"too little":            {[]*evaluation{little, little, little}, false},
		"in six slices":         {[]*evaluation{evaluationOf(forecastOf(plain, 1), seldom), evaluationOf(forecastOf(plain, 1), seldom)}, false},
		"in a long burst":       {[]*evaluation{evaluationOf(forecastOf(plain, 1), burst), evaluationOf(forecastOf(plain, 1), burst)}, true},
		"with a worse tail":     {[]*evaluation{evaluationOf(forecastOf(plain, 1), tail), evaluationOf(forecastOf(plain, 1), tail)}, false},
		"with slower answers":   {[]*evaluation{evaluationOf(forecastOf(plain, 1), slow), evaluationOf(forecastOf(plain, 1), slow)}, false},
		"within a large error":  {[]*evaluation{rough, rough, rough}, false},
		"of equals the first":   {[]*evaluation{better, evaluationOf(forecastOf(plain, 1), forecastOf(noQueue, 0.8), forecastOf(lmetric, 0.75))}, true},
		"the best by far":       {[]*evaluation{better, evaluationOf(forecastOf(plain, 1), forecastOf(noQueue, 0.8), forecastOf(lmetric, 0.5))}, false},
		"nothing is much worse": {[]*evaluation{evaluationOf(forecastOf(plain, 1), forecastOf(noQueue, 3))}, false},
	} {
		d, now := deciding(plain)
		var last action
		for _, e := range tc.checks {
			now = now.Add(5 * time.Minute)
			last = d.decide(now, e, true)
		}
		require.Equal(t, tc.change, last.change, name)
		require.Equal(t, tc.change, d.current != plain, name)
		require.Equal(t, tc.change, d.trial != nil, name)
		if tc.change {
			require.Equal(t, noQueue, last.to, name)
		}
	}
}

// TestAdviceIsSaidOnce: a router that may not change says what would be better, once for each policy.
func TestAdviceIsSaidOnce(t *testing.T) {
	d, now := deciding(lmetric)
	advised := 0
	for range 10 {
		now = now.Add(5 * time.Minute)
		a := d.decide(now, evaluationOf(forecastOf(lmetric, 1), forecastOf(plain, 0.5)), false)
		require.False(t, a.change)
		if a.advise {
			require.Equal(t, plain, a.to)
			advised++
		}
	}
	require.Equal(t, 1, advised)
	require.Equal(t, lmetric, d.current)
	require.Equal(t, plain, d.advised)
}

// tried lets a policy win twice and returns the decider in its trial.
func tried(t *testing.T) (*decider, time.Time) {
	t.Helper()
	d, now := deciding(plain)
	now = now.Add(20 * time.Minute)
	for range checksInARow {
		now = now.Add(5 * time.Minute)
		d.decide(now, evaluationOf(forecastOf(plain, 1), forecastOf(noQueue, 0.5)), true)
	}
	require.NotNil(t, d.trial)
	return d, now
}

// seen is an evaluation in a trial: the observed mean TTFT beside the forecasts of both policies.
func seen(observedTTFT, is, old float64, streamed int) *evaluation {
	e := evaluationOf(forecastOf(noQueue, is), forecastOf(plain, old))
	e.observed = observed{Streamed: streamed, TTFT: observedTTFT}
	return e
}

// TestTrial: a change stays where half of its gain has come, on enough requests and in enough time,
// and else goes.
func TestTrial(t *testing.T) {
	for name, tc := range map[string]struct {
		e          *evaluation
		after      time.Duration
		stays, end bool
	}{
		"as forecast":         {seen(0.5, 0.5, 1, 500), 5 * time.Minute, true, true},
		"half of it":          {seen(0.74, 0.5, 1, 500), 5 * time.Minute, true, true},
		"less than half":      {seen(0.8, 0.5, 1, 500), 5 * time.Minute, false, true},
		"too early":           {seen(0.9, 0.5, 1, 500), time.Minute, true, false},
		"too few":             {seen(0.9, 0.5, 1, 80), 5 * time.Minute, true, false},
		"alarm":               {seen(1.6, 0.5, 1, 80), time.Minute, false, true},
		"other traffic":       {seen(2.9, 3, 6, 500), 5 * time.Minute, true, true},
		"no gain any more":    {seen(1.1, 1.2, 1, 500), 5 * time.Minute, false, true},
		"equal and not worse": {seen(0.98, 1, 1, 500), 5 * time.Minute, true, true},
	} {
		d, now := tried(t)
		a := d.judge(now.Add(tc.after), tc.e)
		require.Equal(t, tc.stays, d.current == noQueue, name)
		require.Equal(t, tc.end, d.trial == nil, name)
		require.Equal(t, !tc.stays, a.change && a.warn, name)
	}
}

// TestNoThrashing: whatever the forecasts promise, changes of a policy that fails in its trials come
// ever more rarely.
func TestNoThrashing(t *testing.T) {
	d, now := deciding(plain)
	begin, changes := now, 0
	for now.Sub(begin) < 24*time.Hour {
		now = now.Add(2 * time.Minute)
		if d.trial != nil {
			d.judge(now, seen(2, 0.5, 1, 500))
			continue
		}
		if d.decide(now, evaluationOf(forecastOf(plain, 1), forecastOf(noQueue, 0.5)), true).change {
			changes++
		}
	}
	require.LessOrEqual(t, changes, 8)
	require.GreaterOrEqual(t, changes, 3, "it is tried again after a time")
	require.Equal(t, plain, d.current)
}

// TestHome: the configured policy comes back for less than another one would.
func TestHome(t *testing.T) {
	d, now := tried(t)
	now = now.Add(5 * time.Minute)
	d.judge(now, seen(0.5, 0.5, 1, 500))
	require.Equal(t, noQueue, d.current)
	back := evaluationOf(forecastOf(noQueue, 1), forecastOf(plain, 0.96), forecastOf(lmetric, 0.96))
	for range checksInARow {
		require.Equal(t, noQueue, d.current)
		d.decide(now.Add(time.Minute), back, true)
	}
	require.Equal(t, noQueue, d.current, "changes are apart")
	d.decide(now.Add(time.Hour), back, true)
	require.Equal(t, plain, d.current)
}

// TestOperatorBeginsAnew: a policy that an operator configures ends trials and bars.
func TestOperatorBeginsAnew(t *testing.T) {
	d, now := tried(t)
	a := d.takeBack(now, "an operator took it back", d.configured)
	require.True(t, a.change)
	require.Equal(t, plain, d.current)
	for range 3 {
		require.False(t, d.decide(now.Add(20*time.Minute), evaluationOf(forecastOf(plain, 1), forecastOf(noQueue, 0.5)), true).change, "barred")
	}
	d.configure(lmetric, now)
	require.Equal(t, lmetric, d.current)
	require.Zero(t, d.bar)
}
