package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/dataplane/router"
)

// queueFlags are the flags of the queue, and of the sampling of prompts.
func queueFlags(f *pflag.FlagSet, cfg *router.Config) {
	f.IntVar(&cfg.Queue.Max, "queue-max", 8192,
		"longest queue of a model while all of its workers are full; beyond it the answer is 429; -1: no queue")
	f.DurationVar(&cfg.Queue.Timeout, "queue-timeout", 10*time.Second,
		"longest wait in the queue, unless a request has the header X-Warmpath-Deadline (seconds until the first token, at most an hour); "+
			"a request that cannot be sent in time gets 429")
	f.BoolVar(&cfg.Queue.FIFO, "queue-fifo", false,
		"serve the queue first come, first served (default: by priority, then turns of clients, then the branch that a worker computes)")
	f.Float64Var(&cfg.Logs.LintSample, "lint-sample", 0,
		"share of prompts, from 0 to 1, to check for changing parts before stable ones; /status and /metrics have the results")
	f.IntVar(&cfg.Requests.MaxInFlight, "max-in-flight-per-worker", 0,
		"requests in flight at which a rank of a worker counts as full (default: its reported batch limit and an eighth)")
}
