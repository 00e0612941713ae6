package policies

import (
	"cmp"
	"slices"
	"time"
)

// With Config.Prefill the first so many workers only compute prompts and the others only
// decode: a request is routed among the former, and its pages then go over the network to the
// decoding worker with the most room. The first token reaches the client when they have
// arrived.

// transfers are the prompts on their way from prefill to decode workers.
type transfers struct {
	*run
	transit []*task // by their time of arrival
	token   clock   // transfer time of a token
}

// send puts t's pages on their way to a decoding worker.
func (s *transfers) send(t *task, now clock) {
	t.landed = now + clock(t.input)*s.token
	i, _ := slices.BinarySearchFunc(s.transit, t, func(a, b *task) int { return cmp.Or(cmp.Compare(a.landed, b.landed), cmp.Compare(a.id, b.id)) })
	s.transit = slices.Insert(s.transit, i, t)
}

// land gives the request that arrives next to the decoding worker that will have the most room.
func (s *transfers) land(now clock) {
	t := s.transit[0]
	s.transit = s.transit[1:]
	best, most := -1, int32(0)
	for i := s.cfg.Prefill; i < len(s.workers); i++ {
		w := s.workers[i]
		room := w.free()
		for _, other := range w.waiting {
			room -= w.pagesOf(other.input + other.output)
		}
		if best < 0 || room > most {
			best, most = i, room
		}
	}
	s.workers[best].submit(t, now)
}

// pools compares mixed workers with the best split into prefill and decode pools, and judges by
// both: the objective for the first token, and the time between tokens.
func (a *adviser) pools() error {
	n := a.cfg.Workers
	if n < 2 || a.cfg.Prefill > 0 {
		return nil
	}
	var best *Result
	split := 0
	for p := 1; p < n; p += max(1, n/8) {
		x, err := a.try("kv", func(c *Config) { c.Prefill = p })
		if err != nil {
			return err
		}
		if x.Refused <= a.kv.Refused && (best == nil || x.TTFT.Mean+x.Latency.Mean < best.TTFT.Mean+best.Latency.Mean) {
			best, split = x, p
		}
	}
	if best == nil {
		return nil
	}
	ms := func(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
	verdict := "Keep prefill and decode together"
	switch {
	case best.TTFT.P99 <= a.kv.TTFT.P99*11/10 && best.ITL.P99 < a.kv.ITL.P99*9/10:
		verdict = "Separate pools pay"
	case best.TTFT.Mean <= a.objective && best.ITL.P99 < a.kv.ITL.P99/2:
		verdict = "Separate pools pay if steady tokens matter more than the first one"
	}
	a.say("%s: the best split, %d of %d workers for prefill, has TTFT %v mean, %v p99 and %v between tokens at p99; mixed workers have %v, %v and %v.",
		verdict, split, n, best.TTFT.Mean.Round(time.Millisecond), best.TTFT.P99.Round(time.Millisecond), ms(best.ITL.P99),
		a.kv.TTFT.Mean.Round(time.Millisecond), a.kv.TTFT.P99.Round(time.Millisecond), ms(a.kv.ITL.P99))
	return nil
}
