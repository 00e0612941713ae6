package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/bench/proxy/load"
)

// Sample is the router at one moment of a soak.
type Sample struct {
	At          float64 `json:"at_seconds"`
	RSS         int64   `json:"rss_bytes"`
	Descriptors int     `json:"descriptors"`
	Threads     int     `json:"threads"`
	Goroutines  int     `json:"goroutines"` // 0 where the router does not say
}

// Soak is what a long run at half of what the router can do has shown.
type Soak struct {
	Capacity float64      `json:"capacity"` // requests a second, measured before
	Run      *Measurement `json:"run"`
	Samples  []Sample     `json:"samples"`
	Growth   []Growth     `json:"growth"`
	Verdict  string       `json:"verdict"` // steady, grows or errors
}

// Growth is how a quantity went over the last half of the time.
type Growth struct {
	What  string  `json:"what"`
	From  float64 `json:"from"`  // the level at the half
	Added float64 `json:"added"` // from there to the end, by the median of all slopes
	Grows bool    `json:"grows"` // more than chance and the garbage collector explain
}

// Verdicts of a soak.
const (
	Steady = "steady"
	Grows  = "grows"
	Errors = "errors"
)

// SoakConfig says how long what is sent.
type SoakConfig struct {
	Load     load.Config // its targets and requests; rate and time are set
	PID      int
	Time     time.Duration
	Progress io.Writer
}

const (
	// capacityTime is how long the capacity is measured before.
	capacityTime = 3 * time.Second
	samples      = 120 // at most, and at most two a second
)

// MeasureSoak measures the capacity, then sends half of it for so long. Growth and errors are [ErrFailed].
func MeasureSoak(ctx context.Context, cfg SoakConfig) (*Soak, error) {
	c := cfg.Load
	c.Rate, c.Warm, c.Time = 0, time.Second, capacityTime
	m, err := Measure(ctx, c, cfg.PID)
	if err != nil {
		return nil, err
	}
	if m.Answered == 0 {
		return nil, fmt.Errorf("%w: nothing was answered: %v", ErrFailed, m.Errors)
	}
	s := &Soak{Capacity: m.Rate}
	fmt.Fprintf(cfg.Progress, "capacity %.0f/s; %v at half of it\n", m.Rate, cfg.Time)
	c.Rate, c.Time, c.Connections, c.Seed = m.Rate/2, cfg.Time, max(c.Connections, 512), c.Seed+1
	watching, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { s.watch(watching, &cfg) })
	s.Run, err = Measure(ctx, c, cfg.PID)
	stop()
	wg.Wait()
	if err != nil {
		return nil, err
	}
	return s, s.judge()
}

// watch takes samples until ctx ends.
func (s *Soak) watch(ctx context.Context, cfg *SoakConfig) {
	every := max(cfg.Time/samples, 500*time.Millisecond)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for began := time.Now(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		u, err := Use(cfg.PID)
		if err != nil { // the run says it
			continue
		}
		at := time.Since(began)
		one := Sample{
			At: at.Seconds(), RSS: u.RSS, Descriptors: u.Descriptors, Threads: u.Threads, Goroutines: goroutines(cfg.Load.Targets[0]),
		}
		s.Samples = append(s.Samples, one)
		if len(s.Samples)%10 == 0 {
			fmt.Fprintf(cfg.Progress, "%v of %v: %s, %d descriptors, %d goroutines\n",
				at.Round(time.Second), cfg.Time, bytesText(one.RSS), one.Descriptors, one.Goroutines)
		}
	}
}

// goroutines asks the router's metrics, if it has any.
func goroutines(target string) int {
	_, body, err := fasthttp.GetTimeout(nil, "http://"+target+"/metrics", 2*time.Second)
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(body) {
		if v, ok := bytes.CutPrefix(line, []byte("go_goroutines ")); ok {
			n, _ := strconv.Atoi(string(bytes.TrimSpace(v)))
			return n
		}
	}
	return 0
}

// judge says what grows.
func (s *Soak) judge() error {
	const mib = 1 << 20
	s.Growth = []Growth{
		growth("memory", s.Samples, 16*mib, func(x Sample) float64 { return float64(x.RSS) }),
		growth("descriptors", s.Samples, 16, func(x Sample) float64 { return float64(x.Descriptors) }),
		growth("threads", s.Samples, 8, func(x Sample) float64 { return float64(x.Threads) }),
		growth("goroutines", s.Samples, 32, func(x Sample) float64 { return float64(x.Goroutines) }),
	}
	s.Verdict = Steady
	var err error
	for _, g := range s.Growth {
		if g.Grows {
			s.Verdict = Grows
			err = errors.Join(err, fmt.Errorf("%w: %s grew by %.0f from %.0f in the last half", ErrFailed, g.What, g.Added, g.From))
		}
	}
	failed := s.Run.Err()
	if failed != nil {
		s.Verdict = Errors
	}
	return errors.Join(err, failed)
}

// growth looks at the last half of the samples: at its level, and at the median of the slopes between its first and its second half,
// each sample paired with the one half of it later, which single outliers do not move. It grows if that adds more than a tenth, and
// more than slack.
func growth(what string, all []Sample, slack float64, of func(Sample) float64) Growth {
	late := all[len(all)/2:]
	n := len(late) / 2
	if n == 0 {
		return Growth{What: what}
	}
	var level, slopes []float64
	for i := range n {
		a, b := late[i], late[i+len(late)-n]
		level = append(level, of(a))
		slopes = append(slopes, (of(b)-of(a))/(b.At-a.At))
	}
	slices.Sort(level)
	slices.Sort(slopes)
	g := Growth{What: what, From: level[n/2], Added: slopes[n/2] * (late[len(late)-1].At - late[0].At)}
	g.Grows = g.Added > slack && g.Added > g.From/10
	return g
}

// String says it in lines.
func (s *Soak) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "capacity %.0f/s; %v\n", s.Capacity, s.Run)
	for _, g := range s.Growth {
		from, added := fmt.Sprintf("%.0f", g.From), fmt.Sprintf("%+.0f", g.Added)
		if g.What == "memory" {
			from, added = bytesText(int64(g.From)), fmt.Sprintf("%+.1f MiB", g.Added/(1<<20))
		}
		fmt.Fprintf(&b, "%s: %s at half time, %s by the end\n", g.What, from, added)
	}
	return b.String() + "verdict: " + s.Verdict + "\n"
}
