package selfcheck

import (
	"slices"
	"time"
)

const (
	// baseQuantile of the answers' times beyond the computation of their prompts is the cost of a
	// prefill that found no queue.
	baseQuantile = 0.03
	// fastTenth of the long prompts found no queue, and so long is a tenth of them.
	fastTenth = 0.9
	// leastPrompt is the fewest uncached tokens that show a speed at all.
	leastPrompt = 256
	// usualStep is the time between tokens before any was measured.
	usualStep = 20 * time.Millisecond
	// Bounds of the fixed cost of a prefill.
	leastBase, mostBase = 100 * time.Microsecond, 2 * time.Second
)

// uncached is what a rank computed of a prompt; ok is false where nobody knows.
func (r *request) uncached() (tokens float64, ok bool) {
	return float64(max(r.input-max(r.cached, 0), 1)), r.streamed && r.known && r.cached >= 0
}

// fitRate estimates the prefill speed of a rank by the fastest of the longest prompts, for ranks
// that report none; 0 where there are none.
func (w *window) fitRate() float64 {
	var lengths, times, all []float64
	for i := range w.requests {
		if n, ok := w.requests[i].uncached(); ok {
			lengths, times = append(lengths, n), append(times, w.requests[i].ttft.Seconds())
		}
	}
	long, base := max(quantile(lengths, fastTenth), leastPrompt), quantile(times, baseQuantile)
	for i := range w.requests {
		r := &w.requests[i]
		if n, ok := r.uncached(); ok && n >= long && r.ttft.Seconds() > base {
			all = append(all, n/(r.ttft.Seconds()-base))
		}
	}
	return quantile(all, fastTenth)
}

// floor is the time to the first token beyond the computation of the prompt, in seconds, where
// there is no queue: the fixed cost of a prefill, a part of a decode step, the network and the
// router.
func (w *window) floor(rate float64) float64 {
	var all []float64
	for i := w.counted; i < len(w.requests); i++ {
		r := &w.requests[i]
		if n, ok := r.uncached(); ok {
			all = append(all, r.ttft.Seconds()-n/rate)
		}
	}
	return quantile(all, baseQuantile)
}

// fitStep is the median time between two tokens of an answer.
func (w *window) fitStep() time.Duration {
	var all []float64
	for i := range w.requests {
		if r := &w.requests[i]; r.streamed && r.output > 1 && r.took > r.ttft {
			all = append(all, (r.took-r.ttft).Seconds()/float64(r.output-1))
		}
	}
	if len(all) == 0 {
		return usualStep
	}
	return max(time.Duration(quantile(all, 0.5)*float64(time.Second)), time.Microsecond)
}

func quantile(all []float64, q float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)]
}
