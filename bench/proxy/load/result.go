package load

import "github.com/warmpath/warmpath/bench/trace"

// Result holds the measurements of a run.
type Result struct {
	Offered

	// Answered and Failed ended in the measured time, whenever they began.
	Answered uint64 `json:"answered"`
	Failed   uint64 `json:"failed"`
	// OK and Errors are the requests that the times are of. In an open loop those that were due in
	// the measured time.
	OK     uint64            `json:"ok"`
	Errors map[string]uint64 `json:"errors"`
	// Rate is Answered a second.
	Rate       float64 `json:"rate"`
	Bytes      uint64  `json:"bytes"` // of the bodies of answers
	Reconnects uint64  `json:"reconnects"`
	CPU        float64 `json:"load_cpu_seconds"` // of this process

	Latency Times `json:"latency_us"` // from when it was due to the last byte
	Service Times `json:"service_us"` // from when it was sent
	First   Times `json:"first_us"`   // from when it was due to the first byte of the body
	Late    Times `json:"late_us"`    // from when it was due to when it was sent
	Gap     Times `json:"gap_us"`     // between two events of a stream

	histograms
}

// Offered describes the load of a run.
type Offered struct {
	API    API  `json:"api"`
	Size   int  `json:"size"` // bytes of a body
	Stream bool `json:"stream"`
	Tokens int  `json:"tokens"`
	Turns  int  `json:"turns"`
	Conns  int  `json:"connections"`
	// Requests a second that were to be sent; 0 in a closed loop.
	Target  float64 `json:"target_rate"`
	Seconds float64 `json:"seconds"`
}

// histograms are the raw data of the times of a Result.
type histograms struct {
	latency, service, first, late, gaps trace.Histogram
}

// Failures adds up Errors.
func (r *Result) Failures() (n uint64) {
	for _, c := range r.Errors {
		n += c
	}
	return n
}

// conclude fills in the load's description and the derived values.
func (r *Result) conclude(c *Config) {
	r.API, r.Size, r.Stream, r.Tokens, r.Turns, r.Conns, r.Target = c.API, c.Size, c.Stream, c.Tokens, c.Turns, c.Connections, c.Rate
	r.Seconds = c.Time.Seconds()
	r.Rate = float64(r.Answered) / r.Seconds
	r.Latency, r.Service, r.First = timesOf(&r.latency), timesOf(&r.service), timesOf(&r.first)
	r.Late, r.Gap = timesOf(&r.late), timesOf(&r.gaps)
}

// Times are a histogram in short, in microseconds.
type Times struct {
	N    uint64  `json:"n"`
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// timesOf returns a histogram of nanoseconds in short.
func timesOf(h *trace.Histogram) Times {
	at := func(q float64) float64 { return float64(h.Quantile(q)) / 1e3 }
	return Times{
		N: uint64(h.Count()), Mean: h.Mean() / 1e3, P50: at(.5), P90: at(.9), P99: at(.99), P999: at(.999), Max: float64(h.Max()) / 1e3,
	}
}
