package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/bench/policies"
	"github.com/warmpath/warmpath/bench/trace"
)

// userFlags are the flags about recorded sessions.
func (o *policiesOptions) userFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.sessions, "sessions", "", "file of agent sessions (JSON lines of session, model, tools, system, turns); with --users a closed loop,\n"+
		"else each session is played once at its recorded times")
	f.IntVar(&o.users.N, "users", 0, "users who play sessions, one after the other: a turn comes its think time after the answer before it")
	f.DurationVar(&o.users.For, "for", 30*time.Minute, "simulated time that is measured")
	f.DurationVar(&o.users.Warmup, "warmup", 10*time.Minute, "simulated time before it; users begin in its first half, each in the midst of a session")
	f.DurationVar(&o.users.MaxThink, "max-think", 5*time.Minute, "longest pause of a session; longer ones are cut")
	f.IntVar(&o.users.MaxPrompt, "max-prompt", 200_000, "turns with more prompt tokens are left out")
	f.BoolVar(&o.users.Share, "share-system", false, "sessions with equal model, tools and system prompt begin with the same blocks")
	f.BoolVar(&o.find, "find-users", false, "search, for each policy, for the number of users that the workers carry at the next three values")
	f.DurationVar(&o.promise.TTFT, "ttft-p95", 2*time.Second, "time to first token that 95 of 100 requests keep")
	f.DurationVar(&o.promise.ITL, "itl-p95", 50*time.Millisecond, "time between one token and the next that 95 of 100 tokens keep")
	f.DurationVar(&o.promise.TPOT, "tpot-p95", 0, "mean time between its tokens that 95 of 100 requests keep; 0: any")
	f.IntVar(&o.seeds, "seeds", 3, "seeds of each number of users in the search, taken together")
	f.DurationVar(&o.gap, "session-gap", 4*time.Second, "mean time between begins of sessions, without --users")
}

// closed reports whether users are simulated.
func (o *policiesOptions) closed() bool { return o.find || o.users.N != 0 }

// readSessions reads a file of sessions.
func readSessions(file string) ([]trace.Session, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("cannot open the sessions: %w", err)
	}
	defer f.Close()
	return trace.ReadSessions(f, 0)
}

// openSessions plays the sessions in an open loop.
func (o *policiesOptions) openSessions() (requests []policies.Request, name string, err error) {
	sessions, err := readSessions(o.sessions)
	if err != nil {
		return nil, "", err
	}
	if o.closed() {
		return nil, filepath.Base(o.sessions), nil
	}
	requests = policies.OpenSessions(sessions, o.users.Play, o.gap, o.cfg.Seed)
	if o.requests > 0 && len(requests) > o.requests {
		requests = requests[:o.requests]
	}
	return requests, filepath.Base(o.sessions), nil
}

// simulate compares the policies, in a closed loop where there are users.
func (o *policiesOptions) simulate(ctx context.Context, name string, requests []policies.Request, progress policies.Progress, errOut io.Writer) (*policies.Report, error) {
	switch {
	case !o.closed():
		return policies.Simulate(ctx, name, requests, o.cfg, o.names, progress)
	case o.sessions == "":
		return nil, errors.New("cannot simulate users without sessions: give --sessions")
	case o.cfg.Rate != 1:
		return nil, errors.New("cannot change the rate of users: their answers make it; give other --users")
	}
	sessions, err := readSessions(o.sessions)
	if err != nil {
		return nil, err
	}
	if o.find {
		return policies.FindUsers(ctx, name, sessions, o.users, o.cfg, o.names, o.promise, o.seeds, func(text string) { fmt.Fprintln(errOut, text) })
	}
	return policies.SimulateUsers(ctx, name, sessions, o.users, o.cfg, o.names, progress)
}
