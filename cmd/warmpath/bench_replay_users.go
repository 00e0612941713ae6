package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/bench/policies"
	"github.com/warmpath/warmpath/bench/replay"
	"github.com/warmpath/warmpath/bench/trace"
)

// replayUsers are the flags of warmpath bench replay about users.
type replayUsers struct {
	sessions string
	users    policies.Users
}

func (o *replayOptions) userFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.sessions, "sessions", "", "file of agent sessions (JSON lines of session, model, tools, system, turns), for --users")
	f.IntVar(&o.users.N, "users", 0, "users who play sessions, one after the other")
	f.DurationVar(&o.users.For, "for", 10*time.Minute, "with --users: time that is measured, in the sessions' time")
	f.DurationVar(&o.users.Warmup, "warmup", 5*time.Minute, "with --users: time before it; users begin in its first half, each in the midst of a session")
	f.DurationVar(&o.users.MaxThink, "max-think", 5*time.Minute, "longest pause of a session; longer ones are cut")
	f.IntVar(&o.users.MaxPrompt, "max-prompt", 200_000, "turns with more prompt tokens are left out")
	f.BoolVar(&o.users.Share, "share-system", false, "sessions with equal model, tools and system prompt begin with the same blocks")
	f.StringVar(&o.cfg.Session, "session-field", "", "with --users: where a request names its session, a header such as X-Session-ID or a path of the body\nsuch as metadata.user_id; default: nowhere")
	c.MarkFlagsMutuallyExclusive("sessions", "trace", "workload")
}

// closed reports whether users are played.
func (o *replayOptions) closed() bool { return o.users.N != 0 || o.sessions != "" }

// openUsers reads the sessions that users play.
func (o *replayOptions) openUsers() (t benchTraffic, err error) {
	switch {
	case o.sessions == "":
		return t, errors.New("cannot play users without sessions: give --sessions")
	case o.users.N < 1:
		return t, errors.New("cannot play sessions without users: give --users")
	}
	sessions, err := readSessions(o.sessions)
	if err != nil {
		return t, err
	}
	users, err := o.layUsers(sessions)
	if err != nil {
		return t, err
	}
	return benchTraffic{
		title: fmt.Sprintf(", %d users", o.users.N),
		play: func(ctx context.Context, url string, cfg replay.Config) (*replay.Result, error) {
			return replay.RunUsers(ctx, url, users, replay.Window{Warmup: o.users.Warmup, For: o.users.For}, cfg)
		},
		simulate: func(ctx context.Context, cfg policies.Config, policy string) (*policies.Report, error) {
			return policies.SimulateUsers(ctx, "", sessions, o.users, cfg, []string{policy}, nil)
		},
	}, nil
}

// layUsers lays out the sessions of users as the simulation does, and names their blocks by the
// seed.
func (o *replayOptions) layUsers(sessions []trace.Session) ([]replay.User, error) {
	rows, err := policies.Rows(sessions, o.users, o.seed)
	if err != nil {
		return nil, err
	}
	users := make([]replay.User, len(rows))
	for i, row := range rows {
		users[i].Begin = row.Begin
		for _, from := range row.Sessions {
			turns := make([]replay.Turn, len(from))
			for k := range from {
				t := &from[k]
				turns[k] = replay.Turn{After: t.After, Wait: t.Wait, Session: fmt.Sprintf("bench-%d-%d", o.seed, t.ID), Request: func() trace.Request {
					r := policies.Blocks([]policies.Request{{Prompt: t.Prompt, Output: t.Output}}, trace.SessionBlock)[0]
					for b := range r.IDs {
						r.IDs[b] += o.seed << 40
					}
					return r
				}}
			}
			users[i].Sessions = append(users[i].Sessions, turns)
		}
	}
	return users, nil
}

// simulatedConfig is the cluster as the simulation has it.
func (o *replayOptions) simulatedConfig() policies.Config {
	cfg := policies.Config{Workers: o.workers, CacheTokens: o.cacheTokens, PageSize: o.cfg.PageSize, Seed: o.seed}
	cfg.Service.PrefillTokensPerSecond = o.prefillRate
	if !o.cfg.Simulated {
		cfg.Rate = o.cfg.TimeScale // requests come faster, and real workers do not
	}
	if o.url != "" {
		return cfg
	}
	if cfg.Routers = o.routers; o.routers > 1 {
		cfg.Share = policies.ShareGossip
	}
	return cfg
}

// compareForecast writes the simulation of the same traffic beside its measurement.
func (o *replayOptions) compareForecast(ctx context.Context, w io.Writer, traffic *benchTraffic, results []*replay.Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\npolicy\trequests\tforecast\tTTFT mean\tforecast\tratio\tTTFT p95\tforecast\tITL p95\tforecast\thits\tforecast\tdifference\t")
	for _, r := range results {
		policy := r.Policy
		if o.url != "" {
			policy = "kv"
		}
		report, err := traffic.simulate(ctx, o.simulatedConfig(), policy)
		if err != nil {
			return fmt.Errorf("cannot make the forecast: %w", err)
		}
		x := report.Results[0]
		fmt.Fprintf(t, "%s\t%d\t%d\t%.3f s\t%.3f s\t%.2f\t%.3f s\t%.3f s\t%.1f ms\t%.1f ms\t%.1f %%\t%.1f %%\t%+.1f\t\n", r.Policy, r.Requests, x.Requests,
			r.TTFT.Mean.Seconds(), x.TTFT.Mean.Seconds(), r.TTFT.Mean.Seconds()/max(x.TTFT.Mean.Seconds(), 1e-9), r.TTFT.P95.Seconds(), x.TTFT.P95.Seconds(),
			float64(r.ITL.P95)/1e6, float64(x.ITL.P95)/1e6, 100*r.HitRate(), 100*x.Hits, 100*(r.HitRate()-x.Hits))
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("cannot write the table: %w", err)
	}
	if o.url != "" {
		fmt.Fprintf(w, "The forecast is of kv on %d workers that have empty caches of %s tokens at first, and compute %s prompt tokens a second.\n",
			o.workers, trace.Grouped(o.cacheTokens), trace.Grouped(int(o.prefillRate)))
	}
	return nil
}
