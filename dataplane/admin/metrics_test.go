package admin_test

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/request/requesttest"
)

var labelOf = regexp.MustCompile(`(?m)^(\w+)\{.*?\b(worker|rank)="([^"]*)"`)

// TestOneLabelForOneThing: worker is a worker's URL wherever it stands, and rank one of its ranks.
func TestOneLabelForOneThing(t *testing.T) {
	w := newFakeWorker(t, info(2))
	w.Answers("/generate", `{"text":"x","meta_info":{"id":"1","prompt_tokens":9,"completion_tokens":2,"cached_tokens":8,"finish_reason":{"type":"stop"}}}`)
	h := start(t, []*fakeWorker{w})
	h.Post("/generate", `{"input_ids":[1,2,3,4,5,6,7,8,9]}`)
	h.AwaitIdle()
	text := h.Metrics()
	require.Contains(t, text, "warmpath_requests_total{")
	require.Contains(t, text, `warmpath_build_info{goversion="`+runtime.Version()+`",version="test"} 1`)
	for _, found := range labelOf.FindAllStringSubmatch(text, -1) {
		if found[2] == "worker" {
			assert.Equal(t, w.URL, found[3], found[0])
		} else {
			assert.Contains(t, []string{"0", "1"}, found[3], found[0])
			assert.Regexp(t, `(?m)^`+found[1]+`\{.*rank="`+found[3]+`".*worker="`+regexp.QuoteMeta(w.URL)+`"`, text)
		}
	}
}

// TestScrapeOfManyWorkers: a plain scrape of 1,000 workers that have all answered, with events, load
// reports and GPU facts, is below 1 MB: what there is once, and 20 times the lines of 50. The rest is left
// for digits, since counts of months are longer, and for faults of some.
func TestScrapeOfManyWorkers(t *testing.T) {
	const workers = 50
	w := requesttest.NewWorkerAt(t, "0.0.0.0:"+requesttest.Port(natstest.Address(t)), `{"version":"0.5.23","served_model_name":"tiny","page_size":4,"dp_size":1,
		"kv_events_config":"{\"publisher\":\"zmq\",\"endpoint\":\"tcp://*:5557\",\"replay_endpoint\":\"tcp://*:5558\"}"}`)
	w.Answers("/generate", idsReply)
	var fleet []*fakeWorker
	for i := range workers { // all of 127.0.0.0/8 is this machine
		fleet = append(fleet, &fakeWorker{URL: fmt.Sprintf("http://127.20.%d.%d:%s", 100+i%5, 101+i, requesttest.Port(w.URL))})
	}
	h := start(t, fleet, withPolicy("round-robin"), requesttest.WithWorkers(func(c *worker.Config) { c.Interval = time.Hour }))
	for range workers {
		h.Post("/generate", idsBody)
	}
	h.AwaitIdle()
	now := time.Now()
	for _, r := range h.Registry.Snapshot().Ranks {
		r.Load.Report(now, worker.Report{Running: 12, Used: 123456, Pool: 400000, Prefilled: 8192, Busy: time.Second})
		r.Worker.SetHealth(worker.Health{State: worker.GPUHealthy, Weight: 1})
		for i := range 10 {
			r.Trust.Observe(now, 100, 100*(i%3))
		}
	}
	text := h.Metrics()
	for _, name := range []string{"requests_total", "hit_tokens_total", "rank_backlog_tokens", "rank_pool_usage", "rank_accuracy", "event_lag_seconds"} {
		require.Equal(t, workers, strings.Count(text, "\nwarmpath_"+name+"{"), name)
	}
	require.Equal(t, workers, strings.Count(text, "\nwarmpath_worker_health{state=\"healthy\""))
	lines := 0
	for line := range strings.Lines(text) {
		if strings.Contains(line, `worker="`) {
			lines += len(line)
		}
	}
	assert.Less(t, len(text)+(1000/workers-1)*lines, 930_000)
}
