package worker

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Trust is how far the knowledge of a rank's cache is believed: by the age of its last
// confirmation, and by how its answers met the predicted overlaps.
//
// The window has the last 64 answers with a predicted overlap, of the last 5 minutes. An answer
// whose actual overlap was at least 0.8 of the prediction is a hit; the share of hits is the
// rank's routing accuracy, which sets the interval of checks. The sum of the actual over the sum
// of the predicted tokens is the trust.
//
// Writers take a lock for some 100 ns after an answer; a choice reads without one.
type Trust struct {
	confirmed atomic.Int64 // unix nanoseconds of the last confirmation of the rank's content

	mu       sync.Mutex
	outcomes [trustWindow]outcome // a ring; guarded by mu
	next     int                  // guarded by mu

	accuracy, worth atomic.Uint64 // float64 bits; meaningful where compared is not 0
	compared        atomic.Int64  // answers in the window
	last            atomic.Int64  // unix nanoseconds of the last one
}

// outcome is an answer with a predicted overlap.
type outcome struct {
	at               int64 // unix nanoseconds
	expected, actual int32 // tokens
}

const (
	trustWindow = 64
	// trustFor is how long an outcome counts: the engine may have been restarted or reconfigured
	// since.
	trustFor = 5 * time.Minute
	// hitShare is the share of the expected overlap from which an answer counts as a hit.
	hitShare = 0.8
	// minOutcomes are needed: with fewer, one lost page group would halve the credit of a rank.
	minOutcomes = 8
	// goodWorth counts as 1. Smaller differences would send every prompt that two ranks hold to
	// the same one.
	goodWorth = 0.95
	// A rank without a confirmation for freshFor is believed less and less, until nothing is
	// left at staleAfter. A quiet stream is checked every 5 s, the first time 5 s after its last
	// batch.
	freshFor   = 15 * time.Second
	staleAfter = 30 * time.Second
)

// Confirmed notes that the rank's events, or a check of them, have confirmed its content.
func (t *Trust) Confirmed(now time.Time) { t.confirmed.Store(now.UnixNano()) }

// Silence returns the time since Confirmed, or below 0 where it was never called.
func (t *Trust) Silence(now time.Time) time.Duration {
	told := t.confirmed.Load()
	if told == 0 {
		return -1
	}
	return max(now.Sub(time.Unix(0, told)), 0)
}

// SilenceAt is Silence in seconds, at a time in unix nanoseconds.
func (t *Trust) SilenceAt(now int64) float64 {
	told := t.confirmed.Load()
	if told == 0 {
		return -1
	}
	return max(float64(now-told)*1e-9, 0)
}

// Forget starts over: the rank's process is another one.
func (t *Trust) Forget() {
	t.confirmed.Store(0)
	t.forgetOutcomes()
}

// forgetOutcomes is for overlaps that are known from something else from now on.
func (t *Trust) forgetOutcomes() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outcomes, t.next = [trustWindow]outcome{}, 0
	t.compared.Store(0)
}

// Observe takes an answer of which expected prompt tokens were to be cached and
// actual were. Nothing expected cannot disappoint, and is left out.
func (t *Trust) Observe(now time.Time, expected, actual int) {
	if expected <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outcomes[t.next%trustWindow] = outcome{at: now.UnixNano(), expected: int32(min(expected, math.MaxInt32)), actual: int32(min(actual, math.MaxInt32))}
	t.next++
	var n, hits int64
	var expectedSum, actualSum float64
	for _, o := range t.outcomes {
		if o.expected == 0 || now.UnixNano()-o.at > int64(trustFor) {
			continue
		}
		n++
		if float64(o.actual) >= hitShare*float64(o.expected) {
			hits++
		}
		expectedSum += float64(o.expected)
		actualSum += float64(min(o.actual, o.expected))
	}
	t.accuracy.Store(math.Float64bits(float64(hits) / float64(n)))
	t.worth.Store(math.Float64bits(actualSum / expectedSum))
	t.last.Store(now.UnixNano())
	t.compared.Store(n)
}

// Accuracy returns the share of hits among the compared answers of the window.
// Of a rank that has answered nothing for 5 minutes there are none.
func (t *Trust) Accuracy(now time.Time) (accuracy float64, compared int) {
	n := t.compared.Load()
	if n == 0 || now.UnixNano()-t.last.Load() > int64(trustFor) {
		return 0, 0
	}
	return math.Float64frombits(t.accuracy.Load()), int(n)
}

// Credit returns the share of a known overlap that is believed, from 0 to 1:
//
//	worth × fresh
//	worth = actual / predicted tokens of the window; 1 above 0.95 or with fewer than 8 answers. It
//	        returns to 1 within 5 minutes without an answer, so that the rank is tried again
//	fresh = 1 up to 15 s of silence, falling to 0 at 30 s; 1 where overlaps do not come from events
func (t *Trust) Credit(now time.Time, events bool) float64 { return t.CreditAt(now.UnixNano(), events) }

// CreditAt is Credit at a time in unix nanoseconds.
func (t *Trust) CreditAt(now int64, events bool) float64 {
	credit := 1.0
	if t.compared.Load() >= minOutcomes {
		if worth := math.Float64frombits(t.worth.Load()); worth < goodWorth {
			idle := min(max(float64(now-t.last.Load())/float64(trustFor), 0), 1)
			credit = worth + (1-worth)*idle
		}
	}
	if told := t.confirmed.Load(); events && told != 0 && now-told > int64(freshFor) {
		silence := time.Duration(now - told)
		credit *= max(1-float64(silence-freshFor)/float64(staleAfter-freshFor), 0)
	}
	return credit
}

// CheckEvery returns the interval at which the rank's content should be compared with its
// events, by its accuracy: above 0.95 every 5 s, above 0.85 2 s, above 0.70 1 s, else 0.5 s.
// With few answers it is 5 s.
func (t *Trust) CheckEvery(now time.Time) time.Duration {
	accuracy, compared := t.Accuracy(now)
	switch {
	case compared < minOutcomes || accuracy > 0.95:
		return 5 * time.Second
	case accuracy > 0.85:
		return 2 * time.Second
	case accuracy > 0.70:
		return time.Second
	default:
		return 500 * time.Millisecond
	}
}
