package worker

import "math"

// Batch is the prompts that a rank computes, as far as routers know: those that were sent while
// none was on its way to its first token, and soon after. The zero value is no prompt.
type Batch struct {
	Streams int64   // tokens of this router's streams without a first token
	Age     float64 // seconds since the first one was sent
	Left    float64 // seconds until others than streams are computed
}

// slack is the time in seconds for a batch's overhead and a decode step before it, and slackShare
// the share of time that answers take from prefill.
const (
	slack      = 0.03
	slackShare = 0.1
)

// prefill counts the tokens of a prompt that is sent, between begin and end, and returns them for
// a stream. Answers in one piece do not show when their prompt is computed: that is predicted.
func (s *publishedLoad) prefill(at float64, tokens int64, stream bool) int64 {
	if tokens == 0 {
		return 0
	}
	computed := math.Float64frombits(s.computed.Load())
	if s.streams.Load() == 0 && computed <= at {
		s.batch.Store(math.Float64bits(at))
	}
	if stream {
		s.streams.Add(tokens)
		return tokens
	}
	if rate := math.Float64frombits(s.rate.Load()); rate > 0 {
		s.computed.Store(math.Float64bits(max(computed, at+slack) + float64(tokens)/rate*(1+slackShare)))
	}
	return 0
}

// noQueue ends a predicted time, between begin and end, where the rank has no waiting request and
// the last one was not sent just now: more of the prompts may have been cached than predicted.
func (s *publishedLoad) noQueue(r *Report, at float64) {
	if r.Waiting == 0 && r.Queued == 0 && at-math.Float64frombits(s.batch.Load()) > reportDelay {
		s.computed.Store(math.Float64bits(min(math.Float64frombits(s.computed.Load()), at)))
	}
}

// Computing reports whether a rank of that speed has its batch of so many tokens, and would have
// to begin another one for more.
func (b *Batch) Computing(rate float64, chunk int) bool {
	switch tokens := max(float64(b.Streams), b.Left*rate); {
	case rate <= 0, b.Age < batchGap && tokens < float64(chunk):
		return false
	case b.Streams > 0 && b.Age < patientFor*float64(b.Streams)/rate+1:
		return true
	}
	return b.Left > 0
}

const (
	// reportDelay is the age in seconds of the oldest report.
	reportDelay = 0.2
	// batchGap is the time in seconds in which requests of one moment become one batch.
	batchGap = 0.02
	// patientFor times its predicted time, and a second, a stream may have no first token before
	// it is no evidence of work any more.
	patientFor = 2
)
