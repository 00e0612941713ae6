package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/warmpath/warmpath/bench/proxy/load"
)

// ErrFailed is a measurement that says that something is wrong.
var ErrFailed = errors.New("proxy: the measurement failed")

// Measurement is a run with the router's usage.
type Measurement struct {
	load.Result
	// Router is its processor time in the measured time, and its memory at the end; nil without a
	// router.
	Router *Usage `json:"router,omitempty"`
	// CPU of the router for a request, in microseconds: all of it, and its parts, which are known
	// to 10 ms of all requests.
	CPU    float64 `json:"cpu_us"`
	User   float64 `json:"user_us"`
	System float64 `json:"system_us"`
}

// Measure runs cfg against a router of which pid is the process; 0 is none.
func Measure(ctx context.Context, cfg load.Config, pid int) (*Measurement, error) {
	var begin, end Usage
	var failed error
	if pid > 0 {
		if _, err := Use(pid); err != nil {
			return nil, err
		}
		ResetPeak(pid)
		cfg.Begin = func() { begin, failed = Use(pid) }
		cfg.End = func() {
			var err error
			end, err = Use(pid)
			failed = errors.Join(failed, err)
		}
	}
	r, err := load.Run(ctx, cfg)
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	m := &Measurement{Result: *r}
	if pid == 0 {
		return m, nil
	}
	used := end
	used.CPU, used.User, used.System = end.CPU-begin.CPU, end.User-begin.User, end.System-begin.System
	m.Router = &used
	if n := float64(r.Answered + r.Failed); n > 0 {
		m.CPU, m.User, m.System = used.CPU*1e6/n, used.User*1e6/n, used.System*1e6/n
	}
	return m, nil
}

// Err is nil where no request failed.
func (m *Measurement) Err() error {
	if n := m.Failures(); n > 0 {
		return fmt.Errorf("%w: %d requests failed: %v", ErrFailed, n, m.Errors)
	}
	return nil
}

// String is a summary in one line.
func (m *Measurement) String() string {
	kind := fmt.Sprintf("%d at a time", m.Conns)
	if m.Target > 0 {
		kind = fmt.Sprintf("%.0f/s", m.Target)
	}
	s := fmt.Sprintf("%s %s, %s: %.0f/s, latency p50 %s p99 %s", m.API, bytesText(int64(m.Size)), kind, m.Rate,
		micros(m.Latency.P50), micros(m.Latency.P99))
	if m.Stream {
		s += fmt.Sprintf(", first byte p50 %s p99 %s", micros(m.First.P50), micros(m.First.P99))
	}
	if m.Router != nil {
		s += fmt.Sprintf(", router %.1f us CPU a request, peak %s", m.CPU, bytesText(m.Router.Peak))
	}
	if n := m.Failures(); n > 0 {
		s += fmt.Sprintf(", %d ERRORS %v", n, m.Errors)
	}
	return s
}

func micros(us float64) string { return time.Duration(us * 1e3).Round(time.Microsecond).String() }

// bytesText writes sizes as people do: 300 B, 8 KiB, 1.5 GiB.
func bytesText(n int64) string {
	unit, v := 0, float64(n)
	for v >= 1024 && unit < 3 {
		v, unit = v/1024, unit+1
	}
	return fmt.Sprintf("%.3g %s", v, []string{"B", "KiB", "MiB", "GiB"}[unit])
}
