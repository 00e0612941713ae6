package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/admin/top"
	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/nvml"
)

// newNodesCommand returns `warmpath nodes`.
func newNodesCommand() *cobra.Command {
	v := &viewOptions{}
	c := v.command("nodes", "List the nodes and routers of a cluster: GPUs, health, links, KV tiers")
	c.RunE = func(cmd *cobra.Command, _ []string) error { return v.ofCluster(cmd, writeNodes) }
	return c
}

// newWorkersCommand returns `warmpath workers`.
func newWorkersCommand() *cobra.Command {
	v, router := &viewOptions{}, routerOptions{}
	c := v.command("workers", "List the workers of a router, or of a cluster: state, load, health, marks")
	c.Long = c.Short + ".\n\n" + `A router lists requests, hit rate and events of its workers. With --cluster the list comes from
the nodes of the cluster, with GPUs, health and marks.`
	router.flags(c.Flags())
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(v.cluster.urls) > 0 {
			return v.ofCluster(cmd, writeWorkers)
		}
		answer, err := router.ask("/workers", nil, clusterPatience)
		switch {
		case errors.Is(err, errRouter):
			return err
		case err != nil:
			return fmt.Errorf("%w. To ask the nodes of a cluster, give --cluster", err)
		}
		if v.asJSON {
			_, err := cmd.OutOrStdout().Write(answer)
			return err
		}
		var all struct {
			Workers []admin.WorkerStatus `json:"workers"`
		}
		if err := json.Unmarshal(answer, &all); err != nil {
			return fmt.Errorf("cannot read the answer of %s: %w", router.base(), err)
		}
		return writeRanks(top.Plain(cmd.OutOrStdout()), all.Workers)
	}
	return c
}

// viewOptions are the flags of the commands that list a cluster's members.
type viewOptions struct {
	cluster clusterOptions
	asJSON  bool
}

func (v *viewOptions) command(name, short string) *cobra.Command {
	c := &cobra.Command{
		Use: name, Short: short, Args: noArgs,
		Example: "  warmpath " + name + "\n" +
			"  warmpath " + name + " --cluster nats://nats1:4222,nats://nats2:4222 --json",
	}
	v.cluster.joinFlags(c.Flags(), defaultCluster)
	c.Flags().BoolVar(&v.asJSON, "json", false, "print all that is known as JSON")
	return c
}

// ofCluster prints the cluster as write does, or as JSON.
func (v *viewOptions) ofCluster(cmd *cobra.Command, write func(io.Writer, *cluster.View, time.Time) error) error {
	return v.cluster.ask(cmd, func(_ context.Context, c *cluster.Cluster) error {
		if !v.asJSON {
			return write(top.Plain(cmd.OutOrStdout()), c.View(), time.Now())
		}
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetIndent("", "  ")
		return e.Encode(c.View())
	})
}

// writeRanks writes the workers as a router sees them, a line for each rank.
func writeRanks(out io.Writer, ranks []admin.WorkerStatus) error {
	t := newTable(out)
	fmt.Fprintln(t, "WORKER\tSTATE\tROLE\tMODEL\tREQUESTS\tIN FLIGHT\tFAILED\tHIT RATE\tEVENTS\tBREAKER")
	for i := range ranks {
		r := &ranks[i]
		hits := "-"
		if r.PromptTokens > 0 {
			hits = fmt.Sprintf("%.0f%%", 100*r.HitRate)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\n", r.ID, r.State, r.Role, orNone(r.Model),
			r.Requests, r.InFlight, r.Failed, hits, r.Events.State, r.Breaker.State)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range ranks {
		for _, c := range ranks[i].Concerns {
			fmt.Fprintln(out, c.Text)
		}
	}
	return nil
}

func writeNodes(out io.Writer, v *cluster.View, now time.Time) error {
	t := newTable(out)
	fmt.Fprintln(t, "NODE\tSTATE\tAGE\tWORKERS\tGPUS\tNVLINK\tTIER\tVERSION")
	for i := range v.Nodes {
		n := &v.Nodes[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", n.Name, marked(v, n.Name, ""), age(n.Started, now), len(n.Workers), gpus(n), nvlinks(n), tier(n.Tier), n.Version)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range v.Nodes {
		writeNodeNotes(out, &v.Nodes[i])
	}
	if len(v.Routers) == 0 {
		return nil
	}
	fmt.Fprintln(t, "\nROUTER\tCLIENTS\tOPERATORS\tAGE\tVERSION")
	for i := range v.Routers {
		r := &v.Routers[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", r.ID, r.Addr, orNone(r.Operator), age(r.Started, now), r.Version)
	}
	return t.Flush()
}

// writeNodeNotes writes the details beside the table: GPUs that are not healthy, and links.
func writeNodeNotes(out io.Writer, n *cluster.Node) {
	if n.Driver != "" && n.Driver != "ready" {
		fmt.Fprintf(out, "%s: driver: %s\n", n.Name, n.Driver)
	}
	for i := range n.GPUs {
		if g := &n.GPUs[i]; gpuState(&g.Health) > worker.GPUHealthy || len(g.Health.Reasons) > 0 {
			fmt.Fprintf(out, "%s: GPU %d %s: %s\n", n.Name, g.Index, healthWord(&g.Health), strings.Join(g.Health.Reasons, "; "))
		}
	}
	if n.Tier != nil && n.Tier.Speed > 0 {
		fmt.Fprintf(out, "%s: engines read its KV tier at %.3g GB/s\n", n.Name, n.Tier.Speed/1e9)
	}
	for i := range n.Links {
		l := &n.Links[i]
		switch {
		case l.Broken != "":
			fmt.Fprintf(out, "%s: link to %s is broken: %s\n", n.Name, l.To, l.Broken)
		case l.At.IsZero():
			fmt.Fprintf(out, "%s: link to %s is not measured: %s\n", n.Name, l.To, l.Unknown)
		default:
			fmt.Fprintf(out, "%s: link to %s: %s, reads %.3g GB/s, writes %.3g GB/s, %.3g µs%s\n",
				n.Name, l.To, l.Path, l.Read/1e9, l.Write/1e9, l.Latency*1e6, prefixed("; slow: ", l.Slow))
		}
	}
}

func writeWorkers(out io.Writer, v *cluster.View, now time.Time) error {
	t := newTable(out)
	fmt.Fprintln(t, "WORKER\tNODE\tSTATE\tROLE\tMODEL\tTP\tDP\tGPUS\tHEALTH\tAGE")
	for i := range v.Nodes {
		n := &v.Nodes[i]
		for j := range n.Workers {
			w := &n.Workers[j]
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", w.URL, n.Name, marked(v, n.Name, w.URL), orNone(w.Role), orNone(w.Model),
				count(w.TP), count(w.DP), count(len(w.GPUs)), healthWord(&w.Health), age(n.Started, now))
		}
	}
	for _, url := range routersOwn(v) { // of which the routers know more: GET /workers
		fmt.Fprintf(t, "%s\t-\t%s\t-\t-\t-\t-\t-\t-\t-\n", url, marked(v, "", url))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range v.Nodes {
		for j := range v.Nodes[i].Workers {
			if w := &v.Nodes[i].Workers[j]; len(w.Health.Reasons) > 0 {
				fmt.Fprintf(out, "%s: %s\n", w.URL, strings.Join(w.Health.Reasons, "; "))
			}
		}
	}
	return nil
}

func newTable(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0) }

// marked is the state that operators have set, of a node or of one of its workers.
func marked(v *cluster.View, node, worker string) string {
	drain, cordon := v.Marked(node, worker)
	switch {
	case drain && cordon:
		return "draining, cordoned"
	case drain:
		return "draining"
	case cordon:
		return "cordoned"
	default:
		return "up"
	}
}

// gpus counts GPUs by name and by how they are: "8 H200", "8 H200: 7 healthy, 1 dead".
func gpus(n *cluster.Node) string {
	switch {
	case len(n.GPUs) > 0:
	case n.Driver == string(nvml.StateReady):
		return "none"
	default:
		return "unknown"
	}
	text := fmt.Sprintf("%d %s", len(n.GPUs), n.GPUs[0].Name)
	states := map[worker.GPUState]int{}
	for i := range n.GPUs {
		states[gpuState(&n.GPUs[i].Health)]++
	}
	if states[worker.GPUHealthy] == len(n.GPUs) {
		return text
	}
	var parts []string
	for _, s := range []worker.GPUState{worker.GPUHealthy, worker.GPUDegraded, worker.GPUDraining, worker.GPUDead, worker.GPUUnknown} {
		if states[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", states[s], s))
		}
	}
	return text + ": " + strings.Join(parts, ", ")
}

// gpuState is unknown of words that this release does not have.
func gpuState(h *cluster.Health) worker.GPUState {
	s, _ := worker.ParseGPUState(h.State)
	return s
}

func healthWord(h *cluster.Health) string {
	text := gpuState(h).String()
	if h.Weight > 0 && h.Weight < 1 {
		text += fmt.Sprintf(" %.0f%%", 100*h.Weight)
	}
	if h.NoTP {
		text += ", alone only"
	}
	return text
}

func nvlinks(n *cluster.Node) string {
	up, all := 0, 0
	for i := range n.GPUs {
		up, all = up+n.GPUs[i].LinksUp, all+n.GPUs[i].Links
	}
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d up", up, all)
}

func tier(t *cluster.Tier) string {
	if t == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f of %.1f GiB, %d pages", float64(t.Used)/(1<<30), float64(t.Bytes)/(1<<30), t.Pages)
}

// age is how long ago something began by its own clock, which may not agree with ours.
func age(since, now time.Time) string {
	d := max(0, now.Sub(since))
	switch {
	case since.IsZero():
		return "-"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

func orNone(s string) string { return prefixed("", s, "-") }

// prefixed puts prefix before s where there is s; else it is none, or empty.
func prefixed(prefix, s string, none ...string) string {
	if s == "" {
		return strings.Join(none, "")
	}
	return prefix + s
}

func count(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}
