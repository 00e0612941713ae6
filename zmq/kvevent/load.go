package kvevent

import "fmt"

// Load is a rank's load report. SGLang sends it on its load socket on change and at least once
// a second: ["LoadStat", running, waiting, …] in the order of the fields below.
type Load struct {
	Running  int64 // Requests in the running batch.
	Waiting  int64 // Requests in the queue.
	Tokens   int64 // KV tokens in use.
	MaxTotal int64 // KV tokens there are.
	Rank     int   // Data-parallel rank.

	WaitingUncached   int64 // Tokens of waiting requests that must be prefilled.
	TotalTokens       int64 // Tokens in use, with those of waiting requests.
	MaxRunning        int64 // Largest running batch.
	PrefillUncached   int64 // Tokens prefilled since the engine started, cache hits not counted.
	PrefillBusyMicros int64 // Time spent on them, in µs: their ratio is the prefill rate.
}

const (
	tagLoad    = "LoadStat"
	loadFields = 11 // With the tag.
	loadNeeded = 6  // Up to the rank; fewer says nothing about load.
)

// Decode reads one load message. Fields that a release lacks are 0, later fields are skipped.
func (l *Load) Decode(payload []byte) error {
	*l = Load{}
	r := reader{b: payload}
	n := r.array()
	if string(r.str()) != tagLoad || n < loadNeeded {
		r.fail()
	}
	var v [loadFields]int64
	for i := 1; i < n && !r.bad; i++ {
		if i < loadFields {
			v[i], _ = r.optInt()
		} else {
			r.skip()
		}
	}
	if r.bad || r.left() != 0 {
		return fmt.Errorf("cannot decode load report of %d bytes: %w", len(payload), ErrMalformed)
	}
	*l = Load{
		Running: v[1], Waiting: v[2], Tokens: v[3], MaxTotal: v[4], Rank: int(v[5]), WaitingUncached: v[6],
		TotalTokens: v[7], MaxRunning: v[8], PrefillUncached: v[9], PrefillBusyMicros: v[10],
	}
	return nil
}

// AppendLoad appends l as SGLang 0.5.23 sends it.
func AppendLoad(dst []byte, l *Load) []byte {
	dst = appendStr(appendArray(dst, loadFields), tagLoad)
	for _, v := range [...]int64{
		l.Running, l.Waiting, l.Tokens, l.MaxTotal, int64(l.Rank), l.WaitingUncached,
		l.TotalTokens, l.MaxRunning, l.PrefillUncached, l.PrefillBusyMicros,
	} {
		dst = appendInt(dst, v)
	}
	return dst
}
