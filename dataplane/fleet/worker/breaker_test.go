package worker_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// TestBreaker: f is a fault, b one of a worker that is full, a a good answer, o one that was
// sent for at the beginning, t a request that is tried and T one that is not let through;
// digits let so many seconds pass, and - a tenth of one.
func TestBreaker(t *testing.T) {
	tests := []struct {
		name, steps string
		want        worker.BreakerState
		opened      uint64
	}{
		{"closed", "ttt", worker.BreakerClosed, 0},
		{"two faults", "fft", worker.BreakerClosed, 0},
		{"three faults", "fffT", worker.BreakerOpen, 1},
		{"an answer between them", "ffaffat", worker.BreakerClosed, 0},
		{"faults that were under way", "fffffT", worker.BreakerOpen, 1},
		{"an answer that was under way", "fffooT", worker.BreakerOpen, 1},
		{"an answer that was under way, at a trial", "fff1toT", worker.BreakerHalfOpen, 1},
		{"a trial that shows nothing", "fff1tTut", worker.BreakerHalfOpen, 1},
		{"every third", "faafaafaafaaf", worker.BreakerOpen, 1},
		{"every third, in pairs", "ffaaaaffaaaaf", worker.BreakerOpen, 1},
		{"every sixth", "faaaaafaaaaafaaaaafaaaaafaaaaaf", worker.BreakerClosed, 0},
		{"over minutes", "ffa9999999ffa9999999ffa9999999ff", worker.BreakerClosed, 0},
		{"full", "bbb1t", worker.BreakerHalfOpen, 1},
		{"full for long: 2 s at most", "bbb1tb2tb2tb2tb2t", worker.BreakerHalfOpen, 5},
		{"half open", "fff1", worker.BreakerHalfOpen, 1},
		{"one at a time", "fff1tTT", worker.BreakerHalfOpen, 1},
		{"the trial succeeds", "fff1tattf", worker.BreakerClosed, 1},
		{"on probation", "fff1taff", worker.BreakerOpen, 2},
		{"the trial fails", "fff1tfT", worker.BreakerOpen, 2},
		{"and again after twice as long", "fff1tf1T---------T", worker.BreakerOpen, 2},
		{"and again half open", "fff1tf2t", worker.BreakerHalfOpen, 2},
		{"longer each time", "fff1tf2tf4tf7T1tf", worker.BreakerOpen, 5},
		{"30 s at most", "fff1tf2tf4tf8tf99tf9999tf9999tf999T", worker.BreakerOpen, 8},
		{"a trial that never reports back", "fff1t9T1t", worker.BreakerHalfOpen, 1},
		{"a trial that shows nothing", "fff1tf2txT1t", worker.BreakerHalfOpen, 2},
		{"failures that show nothing", "xxxxxxff", worker.BreakerClosed, 0},
		{"a fault a minute", "f9999999f9999999f9999999f", worker.BreakerClosed, 0},
		{"after an answer it goes on", "fff1tf2tafff1T", worker.BreakerOpen, 3},
		{"after many answers it begins anew", "fff1tf2t" + strings.Repeat("a", 66) + "fff1t", worker.BreakerHalfOpen, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, err := unwatched(t).Add("http://a:1")
			require.NoError(t, err)
			now := time.Unix(1_000_000, 0)
			for i, step := range tt.steps {
				switch step {
				case 'f':
					w.Fault(now)
				case 'b':
					w.Busy(now)
				case 'a':
					w.Succeeded(now)
				case 'o':
					w.Succeeded(time.Unix(999_999, 0))
				case 'x':
					w.Unexplained(now)
				case 'u':
					w.Inconclusive()
				case 't', 'T':
					assert.Equal(t, step == 't', w.Breaker.Lets(now.UnixNano()), "step %d of %s", i, tt.steps)
					assert.Equal(t, step == 't', w.Breaker.Try(now.UnixNano()), "step %d of %s", i, tt.steps)
				case '-':
					now = now.Add(100 * time.Millisecond)
				default:
					now = now.Add(time.Duration(step-'0') * time.Second)
				}
			}
			assert.Equal(t, tt.want.String(), w.Breaker.State(now).String())
			assert.Equal(t, tt.want == worker.BreakerClosed, w.Breaker.Closed())
			assert.Equal(t, tt.opened, w.Breaker.Opened())
		})
	}
}

// TestBreakerTriesOne: of many that would try at once, one does.
func TestBreakerTriesOne(t *testing.T) {
	w, err := unwatched(t).Add("http://a:1")
	require.NoError(t, err)
	now := time.Unix(1_000_000, 0)
	for range 3 {
		w.Fault(now)
	}
	require.Equal(t, 3, w.Breaker.Faults())
	now = now.Add(time.Second)
	var tried atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if w.Breaker.Try(now.UnixNano()) {
				tried.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, tried.Load())
}

// TestBreakerOfAReturningWorker: a process that comes back is not blamed for the last one's
// faults; one that only was slow is.
func TestBreakerOfAReturningWorker(t *testing.T) {
	for _, tt := range []struct {
		mode mode
		want worker.BreakerState
	}{{refusing, worker.BreakerClosed}, {starting, worker.BreakerClosed}, {hanging, worker.BreakerOpen}} {
		watch(t, nil, func(b *bench) {
			b.after(0)
			b.fake.set(tt.mode)
			b.after(timedOut)
			for range 3 {
				b.worker.Fault(time.Now())
			}
			b.fake.set(up)
			b.after(probed)
			require.Equal(t, worker.Ready, b.worker.State())
			require.Equal(t, tt.want.String(), b.worker.Breaker.State(time.Now()).String(), "mode %d", tt.mode)
		})
	}
}

// TestBreakerWhenTheClockGoesBack: a clock that is set back keeps no worker out for longer than a breaker
// may, and no trial's place taken.
func TestBreakerWhenTheClockGoesBack(t *testing.T) {
	var w worker.Worker
	now := time.Now()
	for range 3 {
		w.Fault(now)
	}
	require.Equal(t, worker.BreakerOpen, w.Breaker.State(now))
	back := now.Add(-time.Hour)
	require.Equal(t, worker.BreakerHalfOpen, w.Breaker.State(back))
	require.True(t, w.Breaker.Lets(back.UnixNano()))

	later := now.Add(2 * time.Second).UnixNano()
	require.True(t, w.Breaker.Try(later))
	require.False(t, w.Breaker.Lets(later))
	require.True(t, w.Breaker.Try(back.UnixNano()), "the trial before is of a time to come")
	w.Succeeded(back)
	require.True(t, w.Breaker.Closed(), "it was sent after the breaker opened")
}
