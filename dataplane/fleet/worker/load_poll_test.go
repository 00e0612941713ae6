package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

const loads = `{"loads":[{"dp_rank":0,"num_running_reqs":7,"num_waiting_reqs":3,"max_total_num_tokens":9000,"max_running_requests":8}]}`

func seen(b *bench) worker.LoadView { return b.worker.Ranks()[0].Load.View(time.Now()) }

func TestLoadIsAskedFor(t *testing.T) {
	answer := func(f *fake) { f.answers["/v1/loads?include=core"] = loads }
	watch(t, answer, func(b *bench) {
		b.after(10 * time.Millisecond)
		b.want(worker.Ready, "up")
		require.Less(t, seen(b).Age, 0.0)
		b.after(time.Second)
		v := seen(b)
		require.Equal(t, []int64{10, 3, 9000, 8}, []int64{v.InFlight, v.Waiting, v.Pool, v.Most})
		require.True(t, v.Polled)
		b.after(10 * time.Second)
		require.InDelta(t, 11, b.fake.got("/v1/loads?include=core"), 1, "once a second")

		// A rank that publishes its load is not polled.
		asked := b.fake.got("/v1/loads?include=core")
		for range 10 {
			b.worker.Ranks()[0].Load.Report(time.Now(), worker.Report{Running: 1})
			b.after(time.Second)
		}
		require.Equal(t, asked, b.fake.got("/v1/loads?include=core"))
		require.EqualValues(t, 1, seen(b).InFlight)
		b.after(5 * time.Second)
		require.EqualValues(t, 10, seen(b).InFlight, "publishing has stopped")

		b.fake.set(refusing)
		b.after(time.Second)
		b.want(worker.Dead, "up", "down")
		require.Less(t, seen(b).Age, 0.0, "its process is gone")
		asked = b.fake.got("/v1/loads?include=core")
		b.after(10 * time.Second)
		require.Equal(t, asked, b.fake.got("/v1/loads?include=core"))
		b.fake.set(up)
		b.after(2 * time.Second)
		require.EqualValues(t, 10, seen(b).InFlight, "and another one asked")
	})
}

func TestWorkersWithoutLoad(t *testing.T) {
	watch(t, nil, func(b *bench) {
		b.after(30 * time.Second)
		b.want(worker.Ready, "up")
		require.Equal(t, 1, b.fake.got("/v1/loads?include=core"), "404 is for good")
	})
}

// TestLoadThatIsLateHoldsUpNothing: a scheduler that is busy for long answers /v1/loads late,
// and probes at once.
func TestLoadThatIsLateHoldsUpNothing(t *testing.T) {
	hang := func(f *fake) { f.hang["/v1/loads?include=core"] = true }
	watch(t, hang, func(b *bench) {
		b.after(30 * time.Second)
		b.want(worker.Ready, "up")
		require.Greater(t, b.fake.got("/ready"), 100)
		b.fake.with(func() { b.fake.hang["/v1/loads?include=core"] = false })
	})
}

func TestAdaptersAreLearntAgain(t *testing.T) {
	watch(t, nil, func(b *bench) {
		b.after(time.Second)
		b.fake.with(func() { b.fake.answers["/v1/models"] = `{"data":[{"id":"tiny"},{"id":"sql"}]}` })
		b.after(11 * time.Second)
		require.Equal(t, []string{"tiny", "sql"}, b.worker.Info().Models)
		b.want(worker.Ready, "up") // nothing was forgotten for it
		b.fake.with(func() { b.fake.statuses["/v1/models"] = fasthttp.StatusInternalServerError })
		b.after(11 * time.Second)
		require.Equal(t, []string{"tiny", "sql"}, b.worker.Info().Models)
	})
}

// TestLoadIsAskedForAtTheEnginesPace: a rank that publishes no load is asked when a request begins to
// answer or ends, at most 50 times a second, and once a second without requests.
func TestLoadIsAskedForAtTheEnginesPace(t *testing.T) {
	answer := func(f *fake) { f.answers["/v1/loads?include=core"] = loads }
	watch(t, answer, func(b *bench) {
		asked := func() int { return b.fake.got("/v1/loads?include=core") }
		b.after(1100 * time.Millisecond)
		require.Equal(t, 1, asked())
		load := &b.worker.Ranks()[0].Load
		lease := load.Begin(100)
		b.after(200 * time.Millisecond)
		require.Equal(t, 1, asked(), "nothing has changed at the rank")
		lease.FirstByte()
		b.after(20 * time.Millisecond)
		require.Equal(t, 2, asked(), "a prefill batch has ended")
		b.after(200 * time.Millisecond)
		lease.End()
		b.after(20 * time.Millisecond)
		require.Equal(t, 3, asked(), "pages are free")
		for range 1000 {
			lease := load.Begin(100)
			lease.End()
			b.after(time.Millisecond)
		}
		require.InDelta(t, 3+50, asked(), 3)
		was := asked()
		for range 1000 {
			load.Report(time.Now(), worker.Report{Running: 1})
			lease := load.Begin(100)
			lease.End()
			b.after(time.Millisecond)
		}
		require.InDelta(t, was, asked(), 1, "it publishes")
	})
}
