package config

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// mostHead bounds the buffer of each busy connection.
const mostHead = 1 << 20

// count is a setting that is a whole number of something.
type count struct {
	flag        string
	value       int64
	least, most int64 // 0 besides, where that is the default
}

// checkNumbers refuses numbers out of range: a sign or a unit that was forgotten is a mistake, and
// no request for the default.
func (c *Config) checkNumbers() error {
	r, q, m := &c.Requests, &c.Queue, &c.Memory
	counts := []count{
		{"max-body-bytes", int64(r.MaxBodyBytes), 1, math.MaxInt},
		{"gzip-min-bytes", int64(r.GzipMinBytes), -1, math.MaxInt},
		{"retries", int64(r.Retries), -1, math.MaxInt},
		{"max-in-flight-per-worker", int64(r.MaxInFlight), 1, math.MaxInt},
		{"max-clients", int64(r.Clients.Max), 1, math.MaxInt},
		{"max-clients-per-address", int64(r.Clients.PerAddress), 1, math.MaxInt},
		{"client-min-rate", int64(r.Clients.MinRate), 1, math.MaxInt},
		{"max-head-bytes", int64(r.Clients.MaxHead), 1 << 10, mostHead},
		{"queue-max", int64(q.Max), -1, math.MaxInt},
		{"disagg-min-uncached", int64(c.Pairs.MinUncached), -1, math.MaxInt},
		{"index-max-bytes", m.Index, -1, math.MaxInt},
		{"approx-max-bytes", m.Approx, 1, math.MaxInt},
		{"session-max-bytes", m.PromptCache, 1, math.MaxInt},
	}
	var errs []error
	for _, n := range counts {
		if n.value != 0 && (n.value < n.least || n.value > n.most) {
			errs = append(errs, badNumber(n.flag, n.value, n.wanted()))
		}
	}
	times := []struct {
		flag  string
		value time.Duration
	}{
		{"probe-interval", c.Probes.Interval},
		{"probe-timeout", c.Probes.Timeout},
		{"hang-after", c.Probes.HangAfter},
		{"first-byte-timeout", c.Timeouts.FirstByte},
		{"stall-timeout", c.Timeouts.Stall},
		{"drain-timeout", c.Timeouts.Drain},
		{"prefill-timeout", c.Pairs.PrefillTimeout},
		{"queue-timeout", q.Timeout},
		{"quarantine", r.Quarantine},
		{"snapshot-interval", c.Snapshot.Interval},
		{"cluster-wait", c.Cluster.Wait},
		{"client-idle-timeout", r.Clients.Idle},
		{"client-request-timeout", r.Clients.Request},
		{"client-stall-timeout", r.Clients.Stall},
	}
	for _, t := range times {
		if t.value < 0 || t.value > 0 && t.value < time.Millisecond {
			errs = append(errs, badNumber(t.flag, t.value, "a millisecond or more, as in 500ms, 10s or 5m; leave it out for the default"))
		}
	}
	shares := []struct {
		flag  string
		value float64
		most  float64
	}{
		{"kv-overlap-score-weight", c.Policy.Options.OverlapWeight, math.MaxFloat64},
		{"router-temperature", c.Policy.Options.Temperature, math.MaxFloat64},
		{"staleness-interval", c.Policy.Options.Interval, math.MaxFloat64},
		{"lint-sample", c.Logs.LintSample, 1},
	}
	for _, s := range shares {
		if !(s.value >= 0 && s.value <= s.most) { // NaN is neither
			wanted := "0 or more"
			if s.most == 1 {
				wanted = "0 to 1"
			}
			errs = append(errs, badNumber(s.flag, s.value, wanted))
		}
	}
	return errors.Join(errs...)
}

func (n *count) wanted() string {
	switch {
	case n.most < math.MaxInt:
		return fmt.Sprintf("%d to %d", n.least, n.most)
	case n.least == -1:
		return "-1 or more"
	default:
		return fmt.Sprintf("%d or more; leave it out for the default", n.least)
	}
}

func badNumber(flag string, value any, wanted string) error {
	return fmt.Errorf("cannot use --%s %v: %w: want %s", flag, value, ErrLimit, wanted)
}
