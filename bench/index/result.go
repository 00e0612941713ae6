package index

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/warmpath/warmpath/bench/trace"
)

// ErrWrong is an index that answered wrongly or refused a change.
var ErrWrong = errors.New("index: wrong answers")

// Metric is one measured number, with its value in each round.
type Metric struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	Median float64   `json:"median"`
	Values []float64 `json:"values"`
}

// Result is the result of [Measure].
type Result struct {
	Workload string `json:"workload"` // Config.Name
	Workers  int    `json:"workers"`
	Entries  int    `json:"entries"`  // (worker, block) pairs when look-ups are measured
	Pairs    int    `json:"pairs"`    // the right number of entries
	Distinct int    `json:"distinct"` // blocks among them
	LookUps  int    `json:"look_ups"` // compared answers
	Wrong    int    `json:"wrong"`    // wrong answers in the worst round
	Refused  int    `json:"refused"`  // changes refused in the worst round

	Metrics []Metric `json:"metrics"`
}

// add records a value of this round.
func (r *Result) add(name, unit string, v float64) {
	i := slices.IndexFunc(r.Metrics, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		i = len(r.Metrics)
		r.Metrics = append(r.Metrics, Metric{Name: name, Unit: unit})
	}
	m := &r.Metrics[i]
	m.Values = append(m.Values, v)
	m.Median = median(m.Values)
}

// addTimes records percentiles of single calls, in ns. It sorts times.
func (r *Result) addTimes(name string, times []uint32, percents ...float64) {
	if len(times) == 0 {
		return
	}
	slices.Sort(times)
	for _, p := range percents {
		at := int(float64(len(times)-1) * p / 100)
		r.add(fmt.Sprintf("%s, p%g", name, p), "ns", float64(times[at]))
	}
}

// median returns the middle value; of an even number, the mean of the middle two.
func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	if n == 0 {
		return 0
	}
	return (s[(n-1)/2] + s[n/2]) / 2
}

// err returns an error if an answer was wrong.
func (r *Result) err() error {
	if r.Wrong == 0 && r.Refused == 0 && r.Entries == r.Pairs {
		return nil
	}
	return fmt.Errorf("%w: %d of %d answers differ from the truth, %d changes were refused, %d entries are held of %d",
		ErrWrong, r.Wrong, r.LookUps, r.Refused, r.Entries, r.Pairs)
}

// Table writes the result as text: the median of each number, then its rounds.
func (r *Result) Table(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s workers, %s entries of %s blocks\n",
		r.Workload, trace.Grouped(r.Workers), trace.Grouped(r.Entries), trace.Grouped(r.Distinct))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, m := range r.Metrics {
		fmt.Fprintf(t, "%s\t%s\t%s\t", m.Name, formatNumber(m.Median), m.Unit)
		if len(m.Values) > 1 {
			rounds := make([]string, len(m.Values))
			for i, v := range m.Values {
				rounds[i] = formatNumber(v)
			}
			fmt.Fprintf(t, "%s\t", strings.Join(rounds, " "))
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("cannot write the table: %w", err)
	}
	_, err := fmt.Fprintf(w, "wrong answers: %s of %s; changes refused: %s\n",
		trace.Grouped(r.Wrong), trace.Grouped(r.LookUps), trace.Grouped(r.Refused))
	return err
}

// formatNumber returns about three significant digits.
func formatNumber(v float64) string {
	switch {
	case v >= 1000 || v == math.Trunc(v):
		return trace.Grouped(int(v + 0.5))
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
