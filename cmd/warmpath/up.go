package main

import (
	"cmp"
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
		Long: `Up starts simulated SGLang workers with real HTTP and ZMQ sockets, the router in front of them and
its console, all in this process. No GPU and no model is needed. It shows a line with requests, hit
rate and each worker's share until it is interrupted.

With --prefill and --decode the workers serve requests in pairs; --workers beside them makes a mixed
cluster. With --cluster-listen 127.0.0.1:4222 a "warmpath node" beside it finds the workers, and
"warmpath nodes" and "warmpath drain --cluster" work too.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.prefill+f.decode > 0 && !cmd.Flags().Changed("workers") {
				f.workers = 0 // pairs replace the default workers
			}
			if err := f.check(); err != nil {
				return err
			}
			log, _, err := newLoggerTo(besideLine(cmd.OutOrStdout(), os.Stderr), level, router.Logs.Format)
			if err != nil {
				return err
			}
			router.Log, router.Version, worker.Log = log, thisBuild().version, log
			return logEnd(log, router.Logs.Format, runUp(cmd, f, &shared, worker, router))
		},
	}
	routerFlags(c.Flags(), &router)
	shared.flags(c.Flags())
	replicaFlags(c.Flags(), &router)
	c.Flags().IntVar(&f.workers, "workers", 4, "simulated workers; with --prefill and --decode none unless named")
	c.Flags().IntVar(&f.prefill, "prefill", 0, "simulated prefill workers")
	c.Flags().IntVar(&f.decode, "decode", 0, "simulated decode workers")
	c.Flags().StringVar(&worker.Model, "model", "simulated", "name of the served model")
	c.Flags().IntVar(&worker.CachePages, "cache-pages", 0, "KV pages of each worker (default 62500, of 16 tokens)")
	// The picture shares the terminal with the log.
	logFlags(c.Flags(), &level, &router.Logs.Format, "warn")
	c.Flags().Float64Var(&worker.TimeScale, "time-scale", 1, "simulated seconds per real second")
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

// banner prints the addresses, and a conversation to try: a long beginning, then a second turn with
// the same beginning, which a worker has computed already.
func banner(out io.Writer, cl *simulation) {
	base := "http://" + cl.router.Addr()
	model := "simulated"
	workers := strings.Builder{}
	for _, s := range cl.sims {
		model = s.Model()
		workers.WriteString("\n  worker   " + s.URL())
	}
	fmt.Fprintf(out, `warmpath %s: %d simulated workers, policy %s

  router   %s
  console  http://%s/console%s

Try a conversation. Its second turn goes to the worker that computed the first:
  SYSTEM=$(printf 'You help operators of GPU nodes, briefly. %%.0s' {1..300})
  body() { printf '{"model": "%s", "stream": true, "max_tokens": 16,
    "stream_options": {"include_usage": true}, "messages": [
    {"role": "system", "content": "%%s"},
    {"role": "user", "content": "%%s"}]}' "$SYSTEM" "$1"; }
  for QUESTION in 'What is a KV cache?' 'And who holds my prefix?'; do
    body "$QUESTION" | curl -fsS -o /dev/null -d @- \
      -w 'first byte after %%{time_starttransfer} s\n' \
      -H 'Content-Type: application/json' \
      %s/v1/chat/completions
  done
%sCtrl-C drains and stops.

`, thisBuild().version, len(cl.sims), cl.router.Status().Policy, base, cl.router.OperatorAddr(), workers.String(), model, base, commands(cl))
}

// commands are more things to try against the cluster.
func commands(cl *simulation) string {
	if len(cl.sims) == 0 {
		return "\n"
	}
	program, router := "warmpath", ""
	if strings.Contains(os.Args[0], "/") { // it was not found in PATH
		program = os.Args[0]
	}
	if operators := "http://" + cl.router.OperatorAddr(); operators != localRouter {
		router = " --router " + operators
	}
	url := cl.sims[0].URL()
	return fmt.Sprintf(`
Look, take a worker out, break one (sim fault --help lists the kinds):
  %[3]s workers%[1]s
  body 'And now?' | %[3]s explain%[1]s --body -
  %[3]s drain%[1]s %[2]s --wait; %[3]s undrain%[1]s %[2]s
  %[3]s sim fault crash %[2]s --seconds 5
  %[3]s sim fault hang %[4]s --seconds 5

`, router, url, program, cl.sims[len(cl.sims)-1].URL())
}

// show prints the live line: over itself on a terminal, else only after changes.
func show(ctx context.Context, out io.Writer, status func() admin.Status) {
	every, width := 10*time.Second, func() int { return 0 }
	screen, terminal := terminalOf(out)
	if terminal {
		every = time.Second
		width = func() int {
			columns, _, _ := term.GetSize(int(screen.Fd())) // 0 is unknown
			return columns
		}
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
		line := liveLine(st, float64(st.Requests-last.Requests)/every.Seconds(), width())
		switch {
		case terminal:
			fmt.Fprint(out, clearLine+line)
		case st.Requests != last.Requests:
			fmt.Fprintln(out, line)
		}
		last = st
	}
}

// clearLine empties the line of a terminal's cursor.
const clearLine = "\r\x1b[K"

// terminalOf returns the terminal behind a writer, if it is one.
func terminalOf(w io.Writer) (*os.File, bool) {
	f, ok := w.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// besideLine returns a writer of a log to w that does not run into the live line on out: that is
// drawn anew within a second.
func besideLine(out, w io.Writer) io.Writer {
	_, live := terminalOf(out)
	if _, too := terminalOf(w); live && too {
		return lineClearer{w}
	}
	return w
}

type lineClearer struct{ w io.Writer }

// Write implements io.Writer, in one Write.
func (c lineClearer) Write(record []byte) (int, error) {
	n, err := c.w.Write(append([]byte(clearLine), record...))
	return max(n-len(clearLine), 0), err
}

// liveLine summarises the cluster in one line of less than width columns, where that is known.
func liveLine(st admin.Status, rate float64, width int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "requests %d (%.1f/s)  cached %.0f%% of %d tokens", st.Requests, rate, 100*st.HitRate, st.PromptTokens)
	if saved := prefillSaved(&st); saved > 0 {
		fmt.Fprintf(&b, "  saved %.2g s prefill", saved)
	}
	fmt.Fprintf(&b, "  errors %d  in flight %d  share", st.Errors, st.InFlight)
	for i := range st.Workers {
		if w := &st.Workers[i]; w.State == "ready" {
			fmt.Fprintf(&b, " %.0f%%", 100*w.Share)
		} else {
			b.WriteString(" " + w.State)
		}
	}
	line := []rune(b.String())
	if width > 0 && len(line) >= width {
		line = append(line[:max(width-2, 0)], '…')[:width-1]
	}
	return string(line)
}

// prefillSaved is the time in seconds that the cached tokens would have cost to compute, at the
// prefill speed that each worker shows; of one that shows none, such as a dead one, at the fastest.
func prefillSaved(st *admin.Status) (seconds float64) {
	fastest := 0.0
	for i := range st.Workers {
		fastest = max(fastest, st.Workers[i].Load.PrefillPerSecond)
	}
	if fastest == 0 {
		return 0
	}
	for i := range st.Workers {
		w := &st.Workers[i]
		seconds += float64(w.HitTokens) / cmp.Or(w.Load.PrefillPerSecond, fastest)
	}
	return seconds
}
