package proxy

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/bench/proxy/load"
)

// Sample is the router at one moment of a soak.
type Sample struct {
	At          float64 `json:"at_seconds"`
	Requests    uint64  `json:"requests,omitempty"` // answered until then; of rests
	RSS         int64   `json:"rss_bytes"`
	Descriptors int     `json:"descriptors"`
	Threads     int     `json:"threads"`

	// The rest is 0 where the router does not say.

	Goroutines int `json:"goroutines"`
	// In use; of rests in which the collector has run.
	Heap int64 `json:"heap_bytes,omitempty"`
	// Of that, the index, the approximate tree and the prompt cache, which are bounded.
	Bounded int64 `json:"bounded_bytes,omitempty"`

	collections int // the collector's runs
}

// Soak is the result of a long run at half of the router's capacity.
type Soak struct {
	// Requests a second of each kind alone, measured before.
	Capacity []float64      `json:"capacity"`
	Runs     []*load.Result `json:"runs"`    // of each kind
	Left     load.Left      `json:"left"`    // clients that went
	Faults   int            `json:"faults"`  // times that a worker failed for a while
	CPU      float64        `json:"cpu"`     // cores that the router used while it worked
	Before   Sample         `json:"before"`  // when it had just been started
	Samples  []Sample       `json:"samples"` // while it worked
	// When all had been quiet for a while, after each round.
	Rests   []Sample `json:"rests"`
	Growth  []Growth `json:"growth"`
	Verdict string   `json:"verdict"` // steady, grows or errors
}

// Verdicts of a soak.
const (
	Steady = "steady"
	Grows  = "grows"
	Errors = "errors"
)

// SoakConfig describes the load of a soak and its duration.
type SoakConfig struct {
	Load load.Config // its targets and requests; rate and time are set
	PID  int
	Time time.Duration
	// Workers are mock ones, host:port. With two or more of them requests of all kinds are sent at
	// a time instead of Load's own kind, some clients leave, and one worker after the other fails.
	Workers  []string
	Progress io.Writer
}

const (
	samples = 120 // at most, and at most two a second
	// rounds is how many times it works and rests.
	rounds = 5
)

// restTime is how long nothing is sent in a rest: fasthttp keeps goroutines for 10 s, and a router
// of ours gives memory back 10 to 20 s after a burst, or 30 if the collector happens to run in
// between. A variable for tests only.
var restTime = 35 * time.Second

// MeasureSoak measures the capacity, then sends half of it for so long, in rounds with a rest
// behind each. Growth from rest to rest, which no garbage, pool or open connection clouds, and
// errors are [ErrFailed].
func MeasureSoak(ctx context.Context, cfg SoakConfig) (*Soak, error) {
	s := &Soak{}
	var err error
	if s.Before, err = sample(&cfg); err != nil {
		return nil, err
	}
	parts := []part{{1, cfg.Load}}
	if len(cfg.Workers) > 1 {
		parts = mixed(cfg.Load)
	}
	if err := s.capacities(ctx, &cfg, parts); err != nil {
		return nil, err
	}
	fmt.Fprintf(cfg.Progress, "%v at half of it, in %d rounds with %v of rest behind each\n", cfg.Time, rounds, restTime)
	began := time.Now()
	for range rounds {
		if err := s.round(ctx, &cfg, parts, began); err != nil {
			return nil, err
		}
	}
	s.CPU /= cfg.Time.Seconds()
	return s, s.judge()
}

// round works for its part of the time, and rests.
func (s *Soak) round(ctx context.Context, cfg *SoakConfig, parts []part, began time.Time) error {
	begin, err := Use(cfg.PID)
	if err != nil {
		return err
	}
	if err := s.send(ctx, cfg, parts, began); err != nil {
		return err
	}
	end, err := Use(cfg.PID)
	if err != nil {
		return err
	}
	s.CPU += end.CPU - begin.CPU
	for i := range parts { // no prompt comes again
		parts[i].load.Seed++
	}
	before, err := sample(cfg)
	if err != nil {
		return err
	}
	if err := pause(ctx, restTime); err != nil {
		return err
	}
	rest, err := sample(cfg)
	if err != nil {
		return err
	}
	if rest.collections < before.collections+2 { // sync.Pools are empty after two collections
		rest.Heap = 0
	}
	rest.At = time.Since(began).Seconds()
	for _, r := range s.Runs {
		rest.Requests += r.Answered
	}
	s.Rests = append(s.Rests, rest)
	fmt.Fprintf(cfg.Progress, "rest %d: %v\n", len(s.Rests), rest)
	return nil
}

// sample looks at the router once.
func sample(cfg *SoakConfig) (Sample, error) {
	u, err := Use(cfg.PID)
	if err != nil {
		return Sample{}, err
	}
	one := Sample{RSS: u.RSS, Descriptors: u.Descriptors, Threads: u.Threads}
	one.ask(cfg.Load.Targets[0])
	return one, nil
}

// ask asks the router's metrics, if it has any.
func (x *Sample) ask(target string) {
	_, body, err := fasthttp.GetTimeout(nil, "http://"+target+"/metrics", connectTime)
	if err != nil {
		return
	}
	for line := range strings.Lines(string(body)) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		v, err := strconv.ParseFloat(number, 64)
		if err != nil {
			continue
		}
		switch name {
		case "go_goroutines":
			x.Goroutines = int(v)
		case "go_gc_duration_seconds_count":
			x.collections = int(v)
		case "go_gc_heap_live_bytes":
			x.Heap = int64(v)
		case "warmpath_index_bytes", "warmpath_approx_bytes", "warmpath_session_cache_bytes":
			x.Bounded += int64(v)
		}
	}
}

// watch takes samples until ctx ends.
func (s *Soak) watch(ctx context.Context, cfg *SoakConfig, began time.Time) {
	tick := time.NewTicker(max(cfg.Time/samples, 500*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		one, err := sample(cfg)
		if err != nil { // the run says it
			continue
		}
		at := time.Since(began)
		one.At = at.Seconds()
		one.Heap, one.Bounded = 0, 0 // of requests, too
		s.Samples = append(s.Samples, one)
		if len(s.Samples)%10 == 0 {
			fmt.Fprintf(cfg.Progress, "after %v: %v\n", at.Round(time.Second), one)
		}
	}
}

// String says it in lines.
func (s *Soak) String() string {
	var b strings.Builder
	for i, r := range s.Runs {
		fmt.Fprintf(&b, "capacity %.0f/s;%v\n", s.Capacity[i], &Measurement{Result: *r})
	}
	fmt.Fprintf(&b, "the router used %.2f cores; workers failed %d times; clients that left: %d sending, %d waiting, %d listening, %d refused\n",
		s.CPU, s.Faults, s.Left.Sending, s.Left.Waiting, s.Left.Listening, s.Left.Refused)
	if len(s.Samples) > 0 {
		var work []float64
		for _, x := range s.Samples {
			work = append(work, float64(x.RSS))
		}
		middle := median(work) // sorts
		fmt.Fprintf(&b, "at work: %s to %s, half of the time below %s\n",
			bytesText(int64(work[0])), bytesText(int64(work[len(work)-1])), bytesText(int64(middle)))
	}
	fmt.Fprintf(&b, "before: %v\n", s.Before)
	for i, x := range s.Rests {
		fmt.Fprintf(&b, "rest %d: %v\n", i+1, x)
	}
	for _, g := range s.Growth {
		from, added := fmt.Sprintf("%.0f", g.From), fmt.Sprintf("%+.0f", g.Added)
		if g.What == "memory" || g.What == "heap" {
			from, added = bytesText(int64(g.From)), fmt.Sprintf("%+.2f MiB", g.Added/(1<<20))
		}
		fmt.Fprintf(&b, "%s: %s at the second rest, %s at the last, %+.3g each 1,000 requests\n", g.What, from, added, g.Each)
	}
	return b.String() + "verdict: " + s.Verdict + "\n"
}

// String says it in a line.
func (x Sample) String() string {
	text := fmt.Sprintf("%s, %d descriptors, %d threads, %d goroutines", bytesText(x.RSS), x.Descriptors, x.Threads, x.Goroutines)
	if x.Heap > 0 {
		text += fmt.Sprintf(", heap %s and %s with bounds", bytesText(x.Heap-x.Bounded), bytesText(x.Bounded))
	}
	if x.Requests > 0 {
		text += fmt.Sprintf(", %d requests", x.Requests)
	}
	return text
}
