package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/router"
)

func newUpCommand() *cobra.Command {
	router := router.Config{}
	worker := sim.Config{}
	var f clusterSize
	var shared clusterOptions
	var level string
	c := &cobra.Command{
		Use:   "up",
		Short: "Run a whole cluster on this machine: simulated SGLang workers, router, console",
		Long: `Up starts simulated SGLang workers with real HTTP and ZMQ sockets, the router in
front of them and its console, all in this process. No GPU and no model is needed.
With --prefill and --decode the workers serve requests in pairs; --workers beside them makes
a mixed cluster. With --cluster-listen 127.0.0.1:4222 a "warmpath node" beside it finds the workers, and
"warmpath nodes" and "warmpath drain" have something to look at. It shows
a line of requests, hit rate and each worker's share until it is interrupted.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.prefill+f.decode > 0 && !cmd.Flags().Changed("workers") {
				f.workers = 0 // pairs replace the default workers
			}
			if err := f.check(); err != nil {
				return err
			}
			log, _, err := newLogger(level, router.Logs.Format)
			if err != nil {
				return err
			}
			router.Log, router.Version, worker.Log = log, version, log
			return logEnd(log, router.Logs.Format, runUp(cmd, f, &shared, worker, router))
		},
	}
	routerFlags(c.Flags(), &router)
	shared.flags(c.Flags())
	replicaFlags(c.Flags(), &router)
	c.Flags().IntVar(&f.workers, "workers", 4, "simulated workers (default 0 with --prefill and --decode)")
	c.Flags().IntVar(&f.prefill, "prefill", 0, "simulated prefill workers")
	c.Flags().IntVar(&f.decode, "decode", 0, "simulated decode workers")
	c.Flags().StringVar(&worker.Model, "model", "simulated", "name of the served model")
	c.Flags().IntVar(&worker.CachePages, "cache-pages", 0, "KV pages of each worker (default 62500, of 16 tokens)")
	// The picture shares the terminal with the log.
	logFlags(c.Flags(), &level, &router.Logs.Format, "warn")
	c.Flags().Float64Var(&worker.TimeScale, "time-scale", 1, "simulated seconds a second")
	return c
}

// runUp makes the cluster and runs it.
func runUp(cmd *cobra.Command, f clusterSize, shared *clusterOptions, worker sim.Config, router router.Config) (err error) {
	if err := shared.allow("up", cluster.RoleRouter); err != nil {
		return err
	}
	if router.Cluster.Conn, err = shared.open(cmd.Context(), "warmpath up", router.Log); err != nil {
		return err
	}
	if router.Cluster.Conn != nil {
		defer router.Cluster.Conn.Close()
	}
	setMemoryLimit(router.Memory.Bound(), 0)
	cl, err := newCluster(f, worker, router)
	if err != nil {
		return err
	}
	return up(cmd.Context(), cmd.OutOrStdout(), cl)
}

// up runs the cluster and shows it on out.
func up(ctx context.Context, out io.Writer, cl *simulation) error {
	shown, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := cl.waitReady(shown) // the commands in the banner work at once
		if shown.Err() != nil {
			return
		}
		if err != nil {
			fmt.Fprintln(out, "warmpath: "+err.Error())
		}
		banner(out, cl)
		show(shown, out, cl.router.Status)
	}()
	err := cl.run(ctx)
	stop()
	<-done
	fmt.Fprintln(out, "\nwarmpath: stopped")
	return err
}

func banner(out io.Writer, cl *simulation) {
	base := "http://" + cl.router.Addr()
	model := "simulated"
	if len(cl.sims) > 0 {
		model = cl.sims[0].Model()
	}
	fmt.Fprintf(out, `warmpath %s: %d simulated workers, policy %s

  router   %s
  console  http://%s/console

Try:
  curl %s/v1/chat/completions -H 'Content-Type: application/json' \
    -d '{"model":"%s","messages":[{"role":"user","content":"Hello"}],"max_tokens":16}'

  python3 - <<'EOF'
  from openai import OpenAI
  client = OpenAI(base_url="%s/v1", api_key="none")
  for part in client.chat.completions.create(model="%s", stream=True, max_tokens=16,
                                             messages=[{"role": "user", "content": "Hello"}]):
      print(part.choices[0].delta.content or "", end="", flush=True)
  EOF

Ctrl-C drains and stops.

`, version, len(cl.sims), cl.router.Status().Policy, base, cl.router.OperatorAddr(), base, model, base, model)
}

// show prints the live line: over itself on a terminal, else only after changes.
func show(ctx context.Context, out io.Writer, status func() admin.Status) {
	every, terminal := 10*time.Second, false
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		every, terminal = time.Second, true
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	last := admin.Status{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		st := status()
		line := liveLine(st, float64(st.Requests-last.Requests)/every.Seconds())
		switch {
		case terminal:
			fmt.Fprint(out, "\r\x1b[K"+line)
		case st.Requests != last.Requests:
			fmt.Fprintln(out, line)
		}
		last = st
	}
}

// liveLine summarises the cluster in one line.
func liveLine(st admin.Status, rate float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "requests %d (%.1f/s)  in flight %d  errors %d  hit rate %.1f %%  share",
		st.Requests, rate, st.InFlight, st.Errors, 100*st.HitRate)
	for i := range st.Workers {
		w := &st.Workers[i]
		if w.State == "ready" {
			fmt.Fprintf(&b, " %.0f%%", 100*w.Share)
		} else {
			fmt.Fprintf(&b, " %s", w.State)
		}
	}
	return b.String()
}
