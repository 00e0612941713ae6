package load

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
	latency, service, first, late, gaps Histogram
}

// Failures adds up Errors.
func (r *Result) Failures() (n uint64) {
	for _, c := range r.Errors {
		n += c
	}
	return n
}

func (r *Result) merge(o *Result) {
	r.Answered += o.Answered
	r.Failed += o.Failed
	r.OK += o.OK
	r.Bytes += o.Bytes
	r.Reconnects += o.Reconnects
	for what, n := range o.Errors {
		r.Errors[what] += n
	}
	r.latency.Merge(&o.latency)
	r.service.Merge(&o.service)
	r.first.Merge(&o.first)
	r.late.Merge(&o.late)
	r.gaps.Merge(&o.gaps)
}

// Join adds the result of another run of the same load.
func (r *Result) Join(o *Result) {
	r.merge(o)
	r.Seconds += o.Seconds
	r.CPU += o.CPU
	r.sum()
}

// conclude fills in the load's description and the derived values.
func (r *Result) conclude(c *Config) {
	r.API, r.Size, r.Stream, r.Tokens, r.Turns, r.Conns, r.Target = c.API, c.Size, c.Stream, c.Tokens, c.Turns, c.Connections, c.Rate
	r.Seconds = c.Time.Seconds()
	r.sum()
}

func (r *Result) sum() {
	r.Rate = float64(r.Answered) / r.Seconds
	r.Latency, r.Service, r.First = r.latency.Times(), r.service.Times(), r.first.Times()
	r.Late, r.Gap = r.late.Times(), r.gaps.Times()
}
