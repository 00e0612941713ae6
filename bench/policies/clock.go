package policies

import "time"

// clock is simulated time in picoseconds: the cost of one token in a decode step is 17 ns and
// must divide by the speed of a worker without a rounding that adds up. 2^63 ps are 106 days,
// and trace.MaxSpan leaves two weeks of them to finish waiting requests.
type clock int64

const (
	nanosecond clock = 1000
	second           = 1_000_000_000 * nanosecond
	never      clock = 1<<63 - 1
)

func ticks(d time.Duration) clock       { return clock(d) * nanosecond }
func (c clock) duration() time.Duration { return time.Duration(c / nanosecond) }
func (c clock) seconds() float64        { return float64(c) / float64(second) }
