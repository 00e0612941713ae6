package selfcheck

import (
	"math"
	"time"
)

// Status is the state of the checks, for /status.
type Status struct {
	Mode       string `json:"mode"`
	Policy     string `json:"policy"`     // in force
	Configured string `json:"configured"` // by the operator
	Why        string `json:"why"`        // Policy is in force
	Trial      bool   `json:"trial"`      // of a change that has not proved itself
	// Advice is the policy that the last checks found to be better, where it is not used.
	Advice  string         `json:"advice,omitempty"`
	Waiting string         `json:"waiting,omitempty"` // why there is no check now
	Last    *CheckStatus   `json:"last_check,omitempty"`
	Changes []ChangeStatus `json:"changes,omitempty"` // the last ones, oldest first

	Checks     uint64  `json:"checks"`
	Matched    uint64  `json:"matched"` // checks with a simulation that matched
	Changed    uint64  `json:"changed"`
	TakenBack  uint64  `json:"taken_back"` // of Changed
	Advised    uint64  `json:"advised"`
	Requests   int     `json:"requests"` // remembered
	Bytes      int     `json:"bytes"`    // of memory for them
	Dropped    uint64  `json:"dropped"`  // requests that came faster than they could be remembered
	CPUSeconds float64 `json:"cpu_seconds"`
}

// CheckStatus is the last check.
type CheckStatus struct {
	At      string  `json:"at"`
	Seconds float64 `json:"took_seconds"`
	Note    string  `json:"note,omitempty"` // why nothing follows from it
	// Of the answers that are compared.
	Requests  int              `json:"requests,omitempty"`
	Window    float64          `json:"window_seconds,omitempty"`
	TTFT      float64          `json:"ttft_s,omitempty"` // mean, as clients had it
	Hits      float64          `json:"hits,omitempty"`
	Forecasts []ForecastStatus `json:"forecasts,omitempty"` // the policy in force first
}

// ForecastStatus is the simulation of one policy on the requests of a check.
type ForecastStatus struct {
	Policy string  `json:"policy"`
	TTFT   float64 `json:"ttft_s"`
	P99    float64 `json:"ttft_p99_s"`
	Hits   float64 `json:"hits"`
	Gain   float64 `json:"gain"`  // of TTFT, over the policy in force
	Better int     `json:"lower"` // slices of the requests with a TTFT lower by more than chance
	Slices int     `json:"slices"`
}

// ChangeStatus is a change of the policy.
type ChangeStatus struct {
	At   string `json:"at"`
	From string `json:"from"`
	To   string `json:"to"`
	Why  string `json:"why"`
}

// Status returns the state now.
func (c *Checker) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.decider
	st := Status{
		Mode: c.mode, Policy: d.current.String(), Configured: d.configured.String(), Why: d.why, Trial: d.trial != nil, Waiting: c.waiting,
		Checks: c.counts.checks, Matched: c.counts.matched, Changed: c.counts.changes, TakenBack: c.counts.takenBack,
		Advised: c.counts.advice, Dropped: c.dropped.Load(), CPUSeconds: rounded(time.Duration(c.lab.pace.used.Load()).Seconds()),
	}
	st.Requests, st.Bytes = c.size()
	if d.advised != (Choice{}) {
		st.Advice = d.advised.String()
	}
	for _, x := range d.changes {
		st.Changes = append(st.Changes, ChangeStatus{x.At.UTC().Format(time.RFC3339), x.From.String(), x.To.String(), x.Why})
	}
	if !c.last.at.IsZero() {
		st.Last = c.last.status()
	}
	return st
}

func (k *check) status() *CheckStatus {
	st := &CheckStatus{At: k.at.UTC().Format(time.RFC3339), Seconds: rounded(k.took.Seconds()), Note: k.note}
	e := k.eval
	if e == nil {
		return st
	}
	st.Requests, st.Window, st.TTFT, st.Hits = e.requests, rounded(e.span.Seconds()), rounded(e.observed.TTFT), rounded(e.observed.Hits)
	for i := -1; i < len(e.others); i++ {
		f := &e.present
		if i >= 0 {
			f = &e.others[i]
		}
		if f.Choice == (Choice{}) {
			continue
		}
		gain, lower, _ := e.gain(f)
		st.Forecasts = append(st.Forecasts, ForecastStatus{
			Policy: f.Choice.String(), TTFT: rounded(f.TTFT), P99: rounded(f.P99), Hits: rounded(f.Hits), Gain: rounded(gain), Better: lower, Slices: len(f.slices),
		})
	}
	return st
}

// InForce names the policy in force and says why it is.
func (c *Checker) InForce() (policy, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.decider.current.String(), c.decider.why
}

func rounded(x float64) float64 { return math.Round(x*1e4) / 1e4 }
