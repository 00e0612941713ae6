package history_test

import (
	"context"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/admin/history"
	"github.com/warmpath/warmpath/dataplane/bubbletest"
)

// recording is a recorder under the fake clock of a bubble, over counts that a test sets.
type recording struct {
	*history.Recorder
	mu     sync.Mutex
	counts history.Counts
}

func record(t *testing.T) *recording {
	t.Helper()
	r := &recording{}
	r.Recorder = history.New(func() history.Counts {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.counts
	})
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { assert.NoError(t, r.Run(ctx)) })
	t.Cleanup(func() { stop(); wg.Wait() })
	synctest.Wait() // the first reading is done
	return r
}

// step changes the counts and lets a row end.
func (r *recording) step(change func(*history.Counts)) {
	r.mu.Lock()
	change(&r.counts)
	r.mu.Unlock()
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

func buckets(n ...uint64) history.Histogram {
	return history.Histogram{Bounds: []float64{1, 2, 4}, Buckets: n}
}

func TestRowsAreDifferences(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := record(t)
		r.step(func(c *history.Counts) {
			c.Requests, c.PromptTokens, c.HitTokens, c.ExpectedTokens = 10, 1000, 600, 800
			c.Errors[history.Busy], c.Errors[history.Cut] = 2, 1
			c.SavedSeconds, c.TTFT, c.ITL, c.GeneratedTokens = 3, buckets(0, 10, 0, 0), buckets(0, 0, 10, 0), 50
			c.Waiting, c.Workers, c.ReadyOnes = 7, 4, 3
		})
		r.step(func(c *history.Counts) { c.Requests, c.Waiting, c.TTFT = 15, 0, buckets(0, 10, 0, 5) })
		got := r.Report().Recent
		require.Len(t, got.At, 2)
		assert.InDelta(t, 5, got.At[1]-got.At[0], 1e-9)
		assert.Equal(t, []history.Value{2, 1}, got.Requests, "a second")
		assert.Equal(t, []history.Value{200, 0}, got.PromptTokens)
		assert.Equal(t, []history.Value{10, 0}, got.GeneratedTokens)
		assert.Equal(t, history.Value(3), got.ITL50[0])
		assert.Equal(t, history.Value(.6), got.HitRate[0])
		assert.Equal(t, history.Value(.8), got.ExpectedRate[0])
		assert.True(t, math.IsNaN(float64(got.HitRate[1])), "no tokens have no share")
		assert.Equal(t, []history.Value{2, 0}, got.Busy)
		assert.Equal(t, []history.Value{1, 0}, got.Cut)
		assert.Equal(t, []history.Value{3, 0}, got.SavedSeconds)
		assert.Equal(t, []history.Value{7, 0}, got.Waiting)
		assert.Equal(t, []history.Value{3, 3}, got.Ready)
		assert.Equal(t, history.Value(1.5), got.TTFT50[0], "half of the bucket from 1 to 2")
		assert.InDelta(t, 1.95, float64(got.TTFT95[0]), 1e-9)
		assert.Equal(t, history.Value(4), got.TTFT50[1], "beyond the last bound")
	})
}

// TestQuantilesOfADay: a row of the day has the quantiles of all its requests, which no mean of
// quantiles gives: a burst of one slow request among 99 fast ones does not move its median.
func TestQuantilesOfADay(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := record(t)
		r.step(func(c *history.Counts) { c.TTFT = buckets(99, 0, 0, 0) })
		r.step(func(c *history.Counts) { c.TTFT = buckets(99, 0, 1, 0) })
		for range 22 {
			r.step(func(*history.Counts) {})
		}
		day := r.Report().Day
		require.Len(t, day.At, 1)
		assert.Less(t, float64(day.TTFT50[0]), 1.0)
		assert.Greater(t, float64(day.TTFT99[0]), .9)
	})
}

func TestRowsAreBounded(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := record(t)
		n := uint64(0)
		for range 2000 {
			r.step(func(c *history.Counts) { n += 5; c.Requests = n })
		}
		got := r.Report()
		assert.Len(t, got.Recent.At, 180)
		assert.Len(t, got.Day.At, 2000*5/120)
		assert.IsIncreasing(t, got.Recent.At, "oldest first")
		assert.Equal(t, float64(time.Now().UnixMilli())/1000, got.Recent.At[179], "the newest is there")
		for _, rate := range got.Day.Requests {
			assert.Equal(t, history.Value(1), rate)
		}
	})
}

// TestCountsThatFall: the sum over workers falls when one is removed, and no rate is negative.
func TestCountsThatFall(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := record(t)
		r.step(func(c *history.Counts) { c.Requests, c.SavedSeconds, c.TTFT = 50, 5, buckets(9, 0, 0, 0) })
		r.step(func(c *history.Counts) { c.Requests, c.SavedSeconds, c.TTFT = 10, 1, buckets(2, 3, 0, 0) })
		got := r.Report().Recent
		assert.Equal(t, history.Value(0), got.Requests[1])
		assert.Equal(t, history.Value(0), got.SavedSeconds[1])
		assert.InDelta(t, 1.5, float64(got.TTFT50[1]), 1e-9, "the bucket that fell counts nothing")
	})
}

// TestUnknownIsNull: each column is in the JSON, as long as the others, and NaN is null.
func TestUnknownIsNull(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := record(t)
		r.step(func(*history.Counts) {})
		text, err := json.Marshal(r.Report())
		require.NoError(t, err)
		var got map[string]map[string]any
		require.NoError(t, json.Unmarshal(text, &got))
		for field := range reflect.TypeFor[history.Series]().Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name != "step_seconds" {
				assert.Len(t, got["recent"][name], 1, name)
				assert.Equal(t, []any{}, got["day"][name], name)
			}
		}
		assert.Equal(t, []any{nil}, got["recent"]["ttft_p95"])
		assert.Equal(t, []any{nil}, got["recent"]["hit_rate"])
		assert.Equal(t, []any{0.0}, got["recent"]["requests"])
	})
}

// TestNow: the values of now are those of a minute, with the quantiles of its requests together, and
// the errors of five.
func TestNow(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := record(t)
		assert.True(t, math.IsNaN(float64(r.Report().Now.Requests)), "no row is no zero")
		assert.Equal(t, history.Errors{}, r.Errors())
		r.step(func(c *history.Counts) {
			c.Requests, c.SavedSeconds = 1000, 3
			c.Errors[history.Worker], c.Errors[history.Cut], c.Errors[history.Busy] = 2, 3, 50
		})
		for range 11 {
			r.step(func(c *history.Counts) { c.Requests += 5; c.PromptTokens += 100; c.HitTokens += 50 })
		}
		assert.Equal(t, history.Value(1055)/60, r.Report().Now.Requests)
		r.step(func(c *history.Counts) { c.Requests += 5; c.TTFT = buckets(90, 0, 0, 0) })
		r.step(func(c *history.Counts) { c.Requests += 5; c.TTFT = buckets(90, 0, 10, 0) })
		got := r.Report().Now
		assert.Equal(t, history.Value(1), got.Requests, "a second, and of this minute alone")
		assert.Less(t, float64(got.TTFT50), 1.0, "of 100 requests, though the last row has slow ones alone")
		assert.InDelta(t, 3, float64(got.TTFT95), 1e-9)
		assert.Equal(t, history.Value(.5), got.HitRate)
		assert.Equal(t, history.Value(5), got.Errors, "refusals are none")
		assert.Equal(t, history.Value(3), got.SavedSeconds)
		assert.Equal(t, history.Errors{history.Worker: 2, history.Cut: 3, history.Busy: 50}, r.Errors())
		for range 46 {
			r.step(func(*history.Counts) {})
		}
		assert.Equal(t, uint64(2), r.Errors()[history.Worker], "in the last of five minutes")
		r.step(func(*history.Counts) {})
		assert.Equal(t, history.Errors{}, r.Errors())
		assert.Equal(t, history.Value(0), r.Report().Now.Errors)
		assert.Equal(t, history.Value(3), r.Report().Now.SavedSeconds, "of a quarter of an hour")
	})
}
