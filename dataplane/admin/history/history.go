package history

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"sync"
	"time"
)

const (
	// recentStep shows a fault while an operator watches; more rows a minute are noise in a chart.
	recentStep = 5 * time.Second
	recentRows = 180 // a quarter of an hour
	// dayStep is a whole number of recentStep.
	dayStep = 2 * time.Minute
	dayRows = 720
	// minuteRows of recentStep make the values of now.
	minuteRows = 12
	// ErrorTime is how long an error is worth an operator's attention.
	ErrorTime = 5 * time.Minute
	errorRows = int(ErrorTime / recentStep)
)

// Report is the body of GET /history.
type Report struct {
	Recent Series `json:"recent"` // the last quarter of an hour
	Day    Series `json:"day"`
	Now    Now    `json:"now"`
}

// Now has the values that a screen shows beside its charts, with the units of Series.
type Now struct {
	// Of the last minute.
	TTFT50          Value `json:"ttft_p50"`
	TTFT95          Value `json:"ttft_p95"`
	TTFT99          Value `json:"ttft_p99"`
	ITL50           Value `json:"itl_p50"`
	ITL95           Value `json:"itl_p95"`
	ITL99           Value `json:"itl_p99"`
	Requests        Value `json:"requests"`
	PromptTokens    Value `json:"prompt_tokens"`
	GeneratedTokens Value `json:"generated_tokens"`
	HitRate         Value `json:"hit_rate"`
	ExpectedRate    Value `json:"expected_hit_rate"`

	// Requests of the last 5 minutes that no worker answered whole and well.
	Errors Value `json:"errors"`
	// Of the last quarter of an hour.
	SavedSeconds Value `json:"saved_seconds"`
}

// Series is a table by columns, of equal length, oldest row first. A value that is not known is
// null: a quantile without requests, a share of no tokens.
type Series struct {
	StepSeconds float64   `json:"step_seconds"`
	At          []float64 `json:"at"` // end of the row, in seconds since 1970

	// Quantiles are estimates within the buckets of warmpath_ttft_seconds,
	// warmpath_request_seconds and warmpath_inter_token_latency_seconds.
	TTFT50     []Value `json:"ttft_p50"`
	TTFT95     []Value `json:"ttft_p95"`
	TTFT99     []Value `json:"ttft_p99"`
	Duration50 []Value `json:"duration_p50"`
	Duration95 []Value `json:"duration_p95"`
	Duration99 []Value `json:"duration_p99"`
	ITL50      []Value `json:"itl_p50"`
	ITL95      []Value `json:"itl_p95"`
	ITL99      []Value `json:"itl_p99"`

	// A second; tokens are of prompts with cached tokens reported in their answers.
	Requests     []Value `json:"requests"`
	PromptTokens []Value `json:"prompt_tokens"`
	HitTokens    []Value `json:"hit_tokens"`
	// Generated tokens a second, of answers that report them.
	GeneratedTokens []Value `json:"generated_tokens"`
	// Shares of those prompt tokens: cached by the answers, and cached as the router expected.
	HitRate      []Value `json:"hit_rate"`
	ExpectedRate []Value `json:"expected_hit_rate"`
	// SavedSeconds is prefill time that cached tokens saved in the row. A rank without a
	// known speed adds nothing.
	SavedSeconds []Value `json:"saved_seconds"`

	// Requests in the row.
	Busy   []Value `json:"errors_busy"`
	Keys   []Value `json:"errors_keys"`
	Client []Value `json:"errors_client"`
	Worker []Value `json:"errors_worker"`
	Router []Value `json:"errors_router"`
	Cut    []Value `json:"errors_cut"`

	// At the row's end.
	InFlight []Value `json:"in_flight"`
	Waiting  []Value `json:"waiting"`
	Workers  []Value `json:"workers"`
	Ready    []Value `json:"workers_ready"`
}

// Value is a number, or NaN, which JSON has as null.
type Value float64

var (
	_ json.Marshaler   = Value(0)
	_ json.Unmarshaler = (*Value)(nil)
)

// UnmarshalJSON implements json.Unmarshaler.
func (v *Value) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*v = Value(math.NaN())
		return nil
	}
	return json.Unmarshal(text, (*float64)(v))
}

// MarshalJSON implements json.Marshaler.
func (v Value) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(v), 'g', 6, 64), nil // more digits are noise
}

// row is one row of a Series, in the order of its columns.
type row struct {
	at     time.Time
	values [columns]Value
}

const (
	columns     = 26
	savedColumn = 15
	errorColumn = 16 // of the first Kind
)

// columns returns the columns but At, in the order of row's values.
func (s *Series) columns() [columns]*[]Value {
	return [columns]*[]Value{
		&s.TTFT50, &s.TTFT95, &s.TTFT99, &s.Duration50, &s.Duration95, &s.Duration99, &s.ITL50, &s.ITL95, &s.ITL99,
		&s.Requests, &s.GeneratedTokens, &s.PromptTokens, &s.HitTokens, &s.HitRate, &s.ExpectedRate, &s.SavedSeconds,
		&s.Busy, &s.Keys, &s.Client, &s.Worker, &s.Router, &s.Cut,
		&s.InFlight, &s.Waiting, &s.Workers, &s.Ready,
	}
}

// between makes the row of the time between two readings.
func between(from, to time.Time, before, now *Counts) row {
	seconds := max(to.Sub(from).Seconds(), 1e-3)
	ttft, duration, itl := now.TTFT.since(before.TTFT), now.Duration.since(before.Duration), now.ITL.since(before.ITL)
	prompt := float64(increase(now.PromptTokens, before.PromptTokens))
	hits := float64(increase(now.HitTokens, before.HitTokens))
	expected := float64(increase(now.ExpectedTokens, before.ExpectedTokens))
	r := row{at: to, values: [columns]Value{
		Value(ttft.quantile(.5)), Value(ttft.quantile(.95)), Value(ttft.quantile(.99)),
		Value(duration.quantile(.5)), Value(duration.quantile(.95)), Value(duration.quantile(.99)),
		Value(itl.quantile(.5)), Value(itl.quantile(.95)), Value(itl.quantile(.99)),
		Value(float64(increase(now.Requests, before.Requests)) / seconds), Value(float64(increase(now.GeneratedTokens, before.GeneratedTokens)) / seconds),
		Value(prompt / seconds), Value(hits / seconds), Value(hits / prompt), Value(expected / prompt),
		Value(max(now.SavedSeconds-before.SavedSeconds, 0)),
	}}
	at := r.values[errorColumn:errorColumn]
	for kind := range kinds {
		at = append(at, Value(increase(now.Errors[kind], before.Errors[kind])))
	}
	_ = append(at, Value(now.InFlight), Value(now.Waiting), Value(now.Workers), Value(now.ReadyOnes))
	return r
}

// ring keeps the last rows of one step.
type ring struct {
	step time.Duration
	rows []row // of fixed capacity
	next int   // of rows, once they are full

	last   Counts // at the end of the last row
	lastAt time.Time
}

func newRing(step time.Duration, rows int) ring { return ring{step: step, rows: make([]row, 0, rows)} }

// add ends a row.
func (r *ring) add(at time.Time, now *Counts) {
	made := between(r.lastAt, at, &r.last, now)
	r.last, r.lastAt = *now, at
	if len(r.rows) < cap(r.rows) {
		r.rows = append(r.rows, made)
		return
	}
	r.rows[r.next] = made
	r.next = (r.next + 1) % len(r.rows)
}

// latest returns the sum of some columns over the last rows; NaN without rows.
func (r *ring) latest(rows int, columns ...int) (sum Value) {
	if len(r.rows) == 0 {
		return Value(math.NaN())
	}
	for i := range min(rows, len(r.rows)) {
		at := &r.rows[(r.next-1-i+len(r.rows))%len(r.rows)]
		for _, c := range columns {
			sum += at.values[c]
		}
	}
	return sum
}

func (r *ring) series() Series {
	s := Series{StepSeconds: r.step.Seconds(), At: make([]float64, len(r.rows))}
	for c, column := range s.columns() {
		*column = make([]Value, len(r.rows))
		for i := range r.rows {
			at := &r.rows[(r.next+i)%len(r.rows)]
			s.At[i], (*column)[i] = float64(at.at.UnixMilli())/1000, at.values[c]
		}
	}
	return s
}

// Recorder makes a row every five seconds, and one every two minutes.
type Recorder struct {
	counts func() Counts

	mu          sync.Mutex
	recent, day ring      // guarded by mu
	past        []reading // of the last minute, oldest first; guarded by mu
}

type reading struct {
	at     time.Time
	counts Counts
}

// New returns a recorder of counts, which is called from one goroutine.
func New(counts func() Counts) *Recorder {
	return &Recorder{counts: counts, recent: newRing(recentStep, recentRows), day: newRing(dayStep, dayRows)}
}

// Run makes rows until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	tick := time.NewTicker(recentStep)
	defer tick.Stop()
	begin, now := r.counts(), time.Now()
	r.recent.last, r.recent.lastAt = begin, now
	r.day.last, r.day.lastAt = begin, now
	r.mu.Lock()
	r.past = []reading{{now, begin}}
	r.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		// A busy machine may be late: a row's rates are of the time that it took.
		at, seen := time.Now(), r.counts()
		r.mu.Lock()
		r.recent.add(at, &seen)
		r.past = append(r.past[max(0, len(r.past)-minuteRows):], reading{at, seen})
		if at.Sub(r.day.lastAt) > dayStep-recentStep/2 {
			r.day.add(at, &seen)
		}
		r.mu.Unlock()
	}
}

// Report returns all rows.
func (r *Recorder) Report() Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Report{Recent: r.recent.series(), Day: r.day.series(), Now: r.now()}
}

// now is called with mu held. It has the quantiles of a minute, which no mean of rows gives.
func (r *Recorder) now() Now {
	var v [columns]Value
	for i := range v {
		v[i] = Value(math.NaN())
	}
	if len(r.past) > 1 {
		from, to := &r.past[0], &r.past[len(r.past)-1]
		v = between(from.at, to.at, &from.counts, &to.counts).values
	}
	return Now{
		TTFT50: v[0], TTFT95: v[1], TTFT99: v[2], ITL50: v[6], ITL95: v[7], ITL99: v[8],
		Requests: v[9], GeneratedTokens: v[10], PromptTokens: v[11], HitRate: v[13], ExpectedRate: v[14],
		Errors:       r.recent.latest(errorRows, errorColumn+int(Worker), errorColumn+int(Router), errorColumn+int(Cut)),
		SavedSeconds: r.recent.latest(recentRows, savedColumn),
	}
}

// Errors returns those of the last ErrorTime.
func (r *Recorder) Errors() (n Errors) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for kind := range n {
		if sum := r.recent.latest(errorRows, errorColumn+kind); sum > 0 {
			n[kind] = uint64(sum)
		}
	}
	return n
}
