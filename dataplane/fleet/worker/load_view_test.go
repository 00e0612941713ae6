package worker_test

import (
	"encoding/json"
	"math"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// learnt is a report of a rank that has prefilled 100,000 tokens, 10,000 a second.
func learnt(r worker.Report) worker.Report {
	r.Prefilled, r.Busy = 100_000, 10*time.Second
	return r
}

func TestSeenOfOwnRequests(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var l worker.Load
		a, b := l.Begin(4000), l.Begin(1000)
		require.Equal(t, worker.LoadView{InFlight: 2, Waiting: 2, Pending: 5000, Used: 5000, Age: -1}, l.View(time.Now()))
		time.Sleep(time.Second)
		require.EqualValues(t, 5000, l.View(time.Now()).Pending, "an unknown rate takes off nothing")
		a.FirstByte()
		require.Equal(t, worker.LoadView{InFlight: 2, Waiting: 1, Pending: 1000, Used: 5000, Age: -1}, l.View(time.Now()))
		a.End()
		b.End()
		require.Equal(t, worker.LoadView{Age: -1}, l.View(time.Now()))
	})
}

func TestSeenWithReports(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var l worker.Load
		own := l.Begin(2000)
		l.Report(time.Now(), learnt(worker.Report{Running: 3, Waiting: 2, Queued: 6000, Used: 9000, Pool: 50_000, Most: 8}))
		// Of the five requests there one may be ours.
		require.Equal(t, worker.LoadView{
			InFlight: 5, Waiting: 2, Pending: 6000, Used: 9000, Pool: 50_000, Most: 8, Rate: 10_000,
		}, l.View(time.Now()))
		more := l.Begin(1000)
		seen := l.View(time.Now())
		require.InDelta(t, 0.14, seen.Batch.Left, 0.001)
		seen.Batch = worker.Batch{}
		require.Equal(t, worker.LoadView{
			InFlight: 6, Waiting: 3, Pending: 7000, Used: 10_000, Pool: 50_000, Most: 8, Rate: 10_000,
		}, seen, "what was sent since is added")
		time.Sleep(250 * time.Millisecond)
		seen = l.View(time.Now())
		require.InDelta(t, 4500, seen.Pending, 2, "the rank computes meanwhile")
		require.InDelta(t, 0.25, seen.Age, 1e-3)
		own.End()
		more.End()
		require.EqualValues(t, 4, l.View(time.Now()).InFlight)

		time.Sleep(5 * time.Second)
		seen = l.View(time.Now())
		require.True(t, seen.Stale())
		require.Zero(t, seen.InFlight, "others' requests of an old report")
		require.Zero(t, seen.Pending)
		require.EqualValues(t, 10_000, seen.Rate, "but speed and sizes stay")
		require.EqualValues(t, 50_000, seen.Pool)

		l.Forget()
		require.Equal(t, worker.LoadView{Age: -1}, l.View(time.Now()))
	})
}

func TestReportOfNonsense(t *testing.T) {
	var l worker.Load
	l.Report(time.Now(), worker.Report{Running: -1, Waiting: math.MinInt64, Queued: -5, Used: -1, Pool: -1, Most: -1, Prefilled: -9, Busy: -time.Second})
	seen := l.View(time.Now())
	seen.Age = 0
	require.Equal(t, worker.LoadView{}, seen)
}

// TestSeenWhileItChanges: readers never see more or fewer requests than there were, and none at
// the end.
func TestSeenWhileItChanges(t *testing.T) {
	const writers, each = 4, 2000
	var l worker.Load
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for i := range each {
				lease := l.Begin(100)
				if i%2 == 0 {
					lease.FirstByte()
				}
				lease.End()
			}
		})
	}
	wg.Go(func() {
		for range each {
			l.Report(time.Now(), worker.Report{})
		}
	})
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				seen := l.View(time.Now())
				if seen.InFlight < 0 || seen.InFlight > writers || seen.Pending < 0 || seen.Pending > writers*100 {
					t.Errorf("seen %+v of at most %d requests", seen, writers)
				}
			}
		})
	}
	wg.Wait()
	close(done)
	readers.Wait()
	l.Forget()
	require.Equal(t, worker.LoadView{Age: -1}, l.View(time.Now()))
}

func TestParseLoads(t *testing.T) {
	body, err := os.ReadFile("testdata/v1_loads_0.5.23.json")
	require.NoError(t, err)
	got, err := worker.ParseLoads(body)
	require.NoError(t, err)
	require.Equal(t, []worker.Reported{{Rank: 0, Report: worker.Report{
		Pool: 4096, Most: 8, Prefilled: 28, Busy: 23508 * time.Microsecond, Polled: true,
	}}}, got)
	got, err = worker.ParseLoads([]byte(`{"loads":[{"dp_rank":1,"num_running_reqs":2,"num_waiting_reqs":3,"num_waiting_uncached_tokens":4,"num_used_tokens":5}]}`))
	require.NoError(t, err)
	require.Equal(t, []worker.Reported{{Rank: 1, Report: worker.Report{Running: 2, Waiting: 3, Queued: 4, Used: 5, Polled: true}}}, got)
}

// FuzzParseLoads compares the reader with encoding/json, on documents that both can read.
func FuzzParseLoads(f *testing.F) {
	body, err := os.ReadFile("testdata/v1_loads_0.5.23.json")
	require.NoError(f, err)
	f.Add(body)
	f.Add([]byte(`{"loads":[{"dp_rank":-1,"num_running_reqs":9e99},{}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = worker.ParseLoads(body) // for any body
		var want struct {
			Loads []struct {
				Running int64 `json:"num_running_reqs"`
				Used    int64 `json:"num_used_tokens"`
			} `json:"loads"`
		}
		if json.Unmarshal(body, &want) != nil {
			return
		}
		// Written anew, each key stands once and in one spelling.
		clean, merr := json.Marshal(&want)
		require.NoError(t, merr)
		got, err := worker.ParseLoads(clean)
		require.NoError(t, err)
		require.Len(t, got, len(want.Loads))
		for i, l := range want.Loads {
			require.Equal(t, l.Running, got[i].Running)
			require.Equal(t, l.Used, got[i].Used)
		}
	})
}

func TestLoadEndpoints(t *testing.T) {
	parse := func(kv string) *worker.Loads {
		info, err := worker.ParseInfo([]byte(`{"dp_size":2,"kv_events":`+kv+`}`), host)
		require.NoError(t, err)
		return info.Loads
	}
	require.Equal(t, &worker.Loads{Endpoints: []string{"tcp://10.0.0.5:41", "tcp://10.0.0.5:42"}, Topic: "load"},
		parse(`{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":31,"load_endpoint_port_base":41,"load_topic":"load"}`))
	require.Nil(t, parse(`{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":31}`))
	require.Nil(t, parse(`{"publisher":"zmq","endpoint_port_base":31,"load_endpoint_port_base":65535}`), "the second rank's port is none")
	require.Nil(t, parse(`null`))
}
