package proxy

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/warmpath/warmpath/bench/proxy/load"
)

// StandardConfig describes the load to workers and to a router before them.
type StandardConfig struct {
	// Its targets are set; with a rate above 0 that is the rate of the open loop.
	Load     load.Config
	APIs     []load.API
	Rounds   int
	Workers  []string // host:port; none: unknown, and added latency is not measured
	Router   string   // host:port
	PID      int      // of the router; 0: not known
	Progress io.Writer
}

// DefaultRate is that of the open loop: a busy small cluster.
const DefaultRate = 500

// Standard measures workers and router in turn, in a closed loop and at a fixed rate. Failed
// requests are [ErrFailed]; all measurements comes with it.
func Standard(ctx context.Context, cfg StandardConfig) (all []*Measurement, err error) {
	failed := uint64(0)
	for round := range cfg.Rounds {
		for _, api := range cfg.APIs {
			for _, rate := range []float64{0, cfg.Load.Rate} {
				for _, name := range cfg.names(round) {
					m, err := cfg.one(ctx, name, api, rate, uint64(round))
					if err != nil {
						return all, fmt.Errorf("cannot measure %s with %s: %w", name, api, err)
					}
					fmt.Fprintf(cfg.Progress, "round %d of %d: %v\n", round+1, cfg.Rounds, m)
					all = append(all, m)
					failed += m.Failures()
				}
			}
		}
	}
	if failed > 0 {
		err = fmt.Errorf("%w: %d requests failed", ErrFailed, failed)
	}
	return all, err
}

// Names of measurements.
const (
	Direct = "direct"
	Router = "router"
)

// names are those of a round: every other one begins at the other end.
func (cfg *StandardConfig) names(round int) []string {
	if len(cfg.Workers) == 0 {
		return []string{Router}
	}
	names := []string{Direct, Router}
	if round%2 == 1 {
		slices.Reverse(names)
	}
	return names
}

// openConnections is enough for an open loop that does not fall behind.
const openConnections = 512

func (cfg *StandardConfig) one(ctx context.Context, name string, api load.API, rate float64, round uint64) (*Measurement, error) {
	c, pid := cfg.Load, cfg.PID
	c.API, c.Rate, c.Targets, c.Seed = api, rate, []string{cfg.Router}, c.Seed+round<<32
	if rate > 0 {
		c.Connections = max(c.Connections, openConnections)
		c.Seed++
	}
	if name == Direct {
		c.Targets, pid = cfg.Workers, 0
	}
	m, err := Measure(ctx, c, pid)
	if err == nil {
		m.Name = name
	}
	return m, err
}

// Table writes medians over the rounds.
func Table(w io.Writer, all []*Measurement) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tmax req/s\tCPU us, closed\tCPU us, open\tp50\tadded\tp99\tadded\tpeak memory\terrors\t")
	type row struct {
		api  load.API
		name string
	}
	var rows []row
	for _, m := range all {
		if r := (row{m.API, m.Name}); !slices.Contains(rows, r) {
			rows = append(rows, r)
		}
	}
	for _, r := range rows {
		pick := func(name string, open bool, get func(*Measurement) float64) float64 {
			var v []float64
			for _, m := range all {
				if m.API == r.api && m.Name == name && open == (m.Target > 0) {
					v = append(v, get(m))
				}
			}
			return median(v)
		}
		cpu := func(m *Measurement) float64 { return m.CPU }
		p50 := func(m *Measurement) float64 { return m.latency().P50 }
		p99 := func(m *Measurement) float64 { return m.latency().P99 }
		added := func(get func(*Measurement) float64) string {
			if d := pick(Direct, true, get); r.name == Router && d > 0 {
				return micros(pick(Router, true, get) - d)
			}
			return "-"
		}
		peak, errs := int64(0), uint64(0)
		for _, m := range all {
			if m.API == r.api && m.Name == r.name {
				errs += m.Failures()
				if m.Router != nil {
					peak = max(peak, m.Router.Peak)
				}
			}
		}
		fmt.Fprintf(t, "%s %s\t%.0f\t%.1f\t%.1f\t%s\t%s\t%s\t%s\t%s\t%d\t\n", r.api, r.name,
			pick(r.name, false, func(m *Measurement) float64 { return m.Rate }), pick(r.name, false, cpu), pick(r.name, true, cpu),
			micros(pick(r.name, true, p50)), added(p50), micros(pick(r.name, true, p99)), added(p99), bytesText(peak), errs)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("cannot write the table: %w", err)
	}
	return nil
}

// latency is that of the first byte for streams, else of all.
func (m *Measurement) latency() load.Times {
	if m.Stream {
		return m.First
	}
	return m.Latency
}

// median is the middle, or the mean of the two middle ones; 0 of none.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
