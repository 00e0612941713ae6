package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/dataplane/router"
)

// queueFlags are the flags of the queue, and of the sampling of prompts.
func queueFlags(f *pflag.FlagSet, cfg *router.Config) {
	f.IntVar(&cfg.Queue.Max, "queue-max", 8192,
		"requests of a model that wait here while all its workers are full; beyond it the answer is 429; -1: none waits here")
	f.DurationVar(&cfg.Queue.Timeout, "queue-timeout", 10*time.Second,
		"longest wait there of a request without the header X-Warmpath-Deadline (seconds until the first token, at most an hour); "+
			"what cannot be sent until then is answered with 429")
	f.BoolVar(&cfg.Queue.FIFO, "queue-fifo", false,
		"first come, first served there (default: priorities, turns of clients, then the branch that a worker is in)")
	f.Float64Var(&cfg.Logs.LintSample, "lint-sample", 0,
		"share of prompts, from 0 to 1, that are checked for changing parts before stable ones; results are in /status and /metrics")
	f.IntVar(&cfg.Requests.MaxInFlight, "max-in-flight-per-worker", 0,
		"requests from which a worker's rank is full (default: its reported batch limit and an eighth)")
}
