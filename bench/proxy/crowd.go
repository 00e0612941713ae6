package proxy

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/warmpath/warmpath/bench/proxy/load"
)

// CrowdConfig says how many connections there are.
type CrowdConfig struct {
	Target  string // the router, host:port
	PID     int
	API     load.API
	Idle    int // used once and left open
	Streams int // at a time, on connections of their own
	Tokens  int // of a stream
	// Gap is the time between two events; the workers must have it too.
	Gap      time.Duration
	Time     time.Duration // of the streams
	Progress io.Writer
}

// Crowd is the cost of many connections.
type Crowd struct {
	Idle    int `json:"idle"`
	Lost    int `json:"lost"` // idle connections that the router closed
	Streams int `json:"streams"`
	// Memory of the router: with nothing, with idle connections, at the highest with streams too.
	Before int64 `json:"rss_before_bytes"`
	Open   int64 `json:"rss_idle_bytes"`
	Peak   int64 `json:"rss_streams_bytes"`
	// PerIdle and PerStream are bytes a connection: of a stream there are two, the client's and the
	// worker's.
	PerIdle   float64 `json:"bytes_per_idle"`
	PerStream float64 `json:"bytes_per_stream"`
	IdleCPU   float64 `json:"idle_cpu_percent"` // of a core while there are idle connections only

	Run       *Measurement `json:"run,omitempty"` // of the streams
	GapMillis float64      `json:"gap_ms"`        // asked for
}

// settleTime is how long memory and processor time of idle connections are watched. A variable for
// tests only.
var settleTime = 3 * time.Second

// MeasureCrowd opens connections and streams and measures their cost. Errors of streams and lost
// connections are [ErrFailed].
func MeasureCrowd(ctx context.Context, cfg CrowdConfig) (*Crowd, error) {
	if err := raiseFiles(CrowdFiles(cfg.Idle, cfg.Streams)); err != nil {
		return nil, err
	}
	before, err := Use(cfg.PID)
	if err != nil {
		return nil, err
	}
	c := &Crowd{Idle: cfg.Idle, Streams: cfg.Streams, Before: before.RSS, GapMillis: cfg.Gap.Seconds() * 1e3}
	var hold *load.Hold
	if cfg.Idle > 0 {
		if hold, err = cfg.hold(ctx, c); err != nil {
			return nil, err
		}
		defer hold.Close()
	}
	if cfg.Streams > 0 {
		if err := cfg.stream(ctx, c); err != nil {
			return c, err
		}
	}
	if hold != nil {
		c.Lost = hold.Lost()
	}
	if c.Lost > 0 {
		return c, fmt.Errorf("%w: %d of %d idle connections were closed", ErrFailed, c.Lost, c.Idle)
	}
	return c, nil
}

// CrowdFiles is the number of files that one process needs at most: a router has two for a stream,
// and some of its own.
func CrowdFiles(idle, streams int) int {
	if idle+streams == 0 {
		return 0
	}
	return idle + 2*streams + 1000
}

// hold opens the idle connections and looks at the router while nothing else happens.
func (cfg *CrowdConfig) hold(ctx context.Context, c *Crowd) (*load.Hold, error) {
	shown := time.Time{}
	hold, err := load.OpenHold(ctx, cfg.Target, cfg.API, cfg.Idle, func(open int) {
		if time.Since(shown) > time.Second {
			shown = time.Now()
			fmt.Fprintf(cfg.Progress, "%d of %d connections open\n", open, cfg.Idle)
		}
	})
	if err != nil {
		return nil, err
	}
	begin, err := Use(cfg.PID)
	if err == nil {
		err = pause(ctx, settleTime)
	}
	end, failed := Use(cfg.PID)
	if err == nil {
		err = failed
	}
	if err != nil {
		hold.Close()
		return nil, err
	}
	c.Open = end.RSS
	c.PerIdle = float64(c.Open-c.Before) / float64(cfg.Idle)
	c.IdleCPU = 100 * (end.CPU - begin.CPU) / settleTime.Seconds()
	fmt.Fprintf(cfg.Progress, "%d connections are open and idle: %s, %.1f %% of a core\n", cfg.Idle, bytesText(c.Open), c.IdleCPU)
	return hold, nil
}

// stream runs the streams, which begin one after the other during the time that one takes.
func (cfg *CrowdConfig) stream(ctx context.Context, c *Crowd) error {
	ramp := cfg.Gap * time.Duration(cfg.Tokens)
	m, err := Measure(ctx, load.Config{
		Targets: []string{cfg.Target}, API: cfg.API, Size: 300, Tokens: cfg.Tokens, Stream: true, Connections: cfg.Streams,
		Ramp: ramp, Warm: ramp, Time: cfg.Time, Timeout: ramp + 30*time.Second, Seed: 1,
		Hooks: load.Hooks{Progress: func(gone time.Duration, answered uint64) {
			fmt.Fprintf(cfg.Progress, "%v: %d streams have ended\n", gone.Round(time.Second), answered)
		}},
	}, cfg.PID)
	if err != nil {
		return err
	}
	m.Name = "streams"
	c.Run, c.Peak = m, m.Router.Peak
	c.PerStream = float64(c.Peak-max(c.Open, c.Before)) / float64(cfg.Streams)
	return m.Err()
}

// String says it in lines.
func (c *Crowd) String() string {
	s := fmt.Sprintf("memory before: %s\n", bytesText(c.Before))
	if c.Idle > 0 {
		s += fmt.Sprintf("%d idle connections: %s, %.0f bytes each, %.1f %% of a core, %d closed by the router\n",
			c.Idle, bytesText(c.Open), c.PerIdle, c.IdleCPU, c.Lost)
	}
	if r := c.Run; r != nil {
		s += fmt.Sprintf("%d streams of %d events, %.0f ms apart: %s at the highest, %.0f bytes a stream, %.1f %% of a core, %d errors\n",
			c.Streams, r.Tokens, c.GapMillis, bytesText(c.Peak), c.PerStream, 100*r.Router.CPU/r.Seconds, r.Failures())
		s += fmt.Sprintf("time between two events: p50 %s, p90 %s, p99 %s, p99.9 %s, longest %s\n",
			micros(r.Gap.P50), micros(r.Gap.P90), micros(r.Gap.P99), micros(r.Gap.P999), micros(r.Gap.Max))
	}
	return s
}

// pause waits, or returns the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
