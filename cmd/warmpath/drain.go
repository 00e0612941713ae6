package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/dataplane/cluster"
)

// drainOptions are the flags of the four commands that mark nodes and workers.
type drainOptions struct {
	cluster clusterOptions
	router  routerOptions
	wait    bool
	timeout time.Duration

	asksRouters bool // for a worker's URL; cordons are of a cluster only
}

// newMarkCommands returns drain, cordon and their opposites.
func newMarkCommands() []*cobra.Command {
	drain, d := newMarkCommand("drain", "Stop sending new requests to a worker or node; requests in flight finish", drainLong,
		func(m *cluster.Mark) { m.Drain = true })
	drain.Flags().BoolVar(&d.wait, "wait", false, "return when no router has a request at the target any more")
	drain.Flags().DurationVar(&d.timeout, "timeout", 10*time.Minute, "longest --wait")
	d.askRouters(drain)
	undrain, u := newMarkCommand("undrain", "End a drain: the worker or node gets requests again", drainLong,
		func(m *cluster.Mark) { m.Drain = false })
	u.askRouters(undrain)
	cordon, _ := newMarkCommand("cordon", "Admit no new workers of a node or URL; workers in use keep serving", markLong,
		func(m *cluster.Mark) { m.Cordon = true })
	uncordon, _ := newMarkCommand("uncordon", "End a cordon: new workers are admitted again", markLong,
		func(m *cluster.Mark) { m.Cordon = false })
	return []*cobra.Command{drain, undrain, cordon, uncordon}
}

// askRouters has a command ask a router about a worker's URL.
func (o *drainOptions) askRouters(c *cobra.Command) {
	o.asksRouters = true
	o.router.flags(c.Flags())
}

const (
	markLong = `TARGET is a node's name or a worker's URL, as "warmpath nodes" and "warmpath workers" list them,
workers of --worker included. The cluster keeps the mark until it is removed, also while the
target is away, and every router of the cluster obeys it.`
	drainLong = `TARGET is a worker's URL or a node's name, as "warmpath workers" and "warmpath nodes" list them.
A URL is drained by asking a router; in a cluster all of its routers obey. A node's name, and any
target with --cluster, is marked in the cluster, which keeps the mark until it is removed, also
while the target is away.`
)

func newMarkCommand(name, short, long string, change func(*cluster.Mark)) (*cobra.Command, *drainOptions) {
	o := &drainOptions{}
	c := &cobra.Command{
		Use:     name + " TARGET",
		Short:   short,
		Long:    short + ".\n\n" + long,
		Example: "  warmpath " + name + " gpu-3\n  warmpath " + name + " http://gpu-3:30000 --cluster nats://nats1:4222",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("cannot %s %d targets: name one, a node or a worker's URL (warmpath nodes and warmpath workers list them)", name, len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			target := strings.TrimRight(args[0], "/")
			if o.asksRouters && len(o.cluster.urls) == 0 && strings.Contains(target, "://") {
				return o.atRouter(cmd, target, change)
			}
			return o.cluster.ask(cmd, func(ctx context.Context, c *cluster.Cluster) error {
				return o.mark(ctx, cmd, c, target, change)
			})
		},
	}
	o.cluster.joinFlags(c.Flags(), defaultCluster)
	return c, o
}

// atRouter asks a router to begin or end a worker's drain.
func (o *drainOptions) atRouter(cmd *cobra.Command, target string, change func(*cluster.Mark)) error {
	var m cluster.Mark
	change(&m)
	body, err := json.Marshal(map[string]any{"url": target, "drain": m.Drain})
	if err != nil {
		return err
	}
	text, err := o.router.ask("/workers/drain", body, clusterPatience)
	if err != nil {
		return err
	}
	var answer struct{ Scope, Reason string }
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("cannot read the answer of %s: %w", o.router.base(), err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s is %s%s\n", target, word(&m), prefixed(" at this router only: ", answer.Reason))
	if !o.wait {
		return nil
	}
	where := ""
	if answer.Scope == "cluster" {
		where = " at this router; --cluster waits for all"
	}
	return o.waitEmpty(cmd.Context(), cmd, target, where, func() (string, error) {
		return o.askRouter(&o.router, map[string]bool{target: true})
	})
}

// mark changes a target's mark, and with --wait returns when the target is empty.
func (o *drainOptions) mark(ctx context.Context, cmd *cobra.Command, c *cluster.Cluster, target string, change func(*cluster.Mark)) error {
	v := c.View()
	m := cluster.Mark{Target: target}
	i := slices.IndexFunc(v.Marks, func(m cluster.Mark) bool { return m.Target == target })
	if i >= 0 {
		m = v.Marks[i]
	}
	if known := targets(v); i < 0 && !slices.Contains(known, target) {
		// A target that is away is known by its mark.
		return unknownTarget(target, known)
	}
	before := m
	change(&m)
	m.By, m.At = operatorName(), time.Now().UTC()
	var err error
	switch {
	case m.Drain == before.Drain && m.Cordon == before.Cordon: // nothing to do
	case m.Drain || m.Cordon:
		err = c.Mark(ctx, m)
	default:
		err = c.Unmark(ctx, target)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s is %s\n", target, word(&m))
	if o.wait {
		return o.waitEmpty(ctx, cmd, target, "", func() (string, error) { return o.left(c.View(), target) })
	}
	return nil
}

func word(m *cluster.Mark) string {
	return marked(&cluster.View{Marks: []cluster.Mark{*m}}, m.Target, "")
}

// operatorName is user@host of the caller, as far as the machine knows.
func operatorName() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// targets lists all nodes and workers that can be marked.
func targets(v *cluster.View) (known []string) {
	for i := range v.Nodes {
		known = append(known, v.Nodes[i].Name)
		for j := range v.Nodes[i].Workers {
			known = append(known, v.Nodes[i].Workers[j].URL)
		}
	}
	return append(known, routersOwn(v)...)
}

// routersOwn lists workers of routers that belong to no node, in order.
func routersOwn(v *cluster.View) (urls []string) {
	ofNodes := map[string]bool{}
	for i := range v.Nodes {
		for j := range v.Nodes[i].Workers {
			ofNodes[v.Nodes[i].Workers[j].URL] = true
		}
	}
	for i := range v.Routers {
		for _, url := range v.Routers[i].Workers {
			if !ofNodes[url] && !slices.Contains(urls, url) {
				urls = append(urls, url)
			}
		}
	}
	slices.Sort(urls)
	return urls
}

// maxListed bounds the names in an error.
const maxListed = 40

func unknownTarget(target string, known []string) error {
	if len(known) == 0 {
		return fmt.Errorf("cannot find %s: the cluster has no nodes, and its routers have no workers", target)
	}
	more := ""
	if len(known) > maxListed {
		known, more = known[:maxListed], fmt.Sprintf("\n  and %d more: see warmpath workers", len(known)-maxListed)
	}
	return fmt.Errorf("cannot find %s; known are\n  %s%s", target, strings.Join(known, "\n  "), more)
}

// waitPoll is the time between two questions to the routers.
const waitPoll = 200 * time.Millisecond

// waitEmpty returns when left describes nothing: the routers asked have the target's workers out of
// their choice, and no request at them.
func (o *drainOptions) waitEmpty(ctx context.Context, cmd *cobra.Command, target, where string, left func() (string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	tick := time.NewTicker(waitPoll)
	defer tick.Stop()
	for {
		at, err := left()
		if err == nil && at == "" {
			fmt.Fprintf(cmd.OutOrStdout(), "%s has nothing in flight%s\n", target, where)
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("cannot know when %s is empty: %w", target, err)
			}
			return fmt.Errorf("cannot wait for %s any longer: %s", target, at)
		}
	}
}

// left describes requests that are still at a target; "" is none.
func (o *drainOptions) left(v *cluster.View, target string) (string, error) {
	urls := map[string]bool{target: true}
	for i := range v.Nodes {
		for j := range v.Nodes[i].Workers {
			if v.Nodes[i].Name == target {
				urls[v.Nodes[i].Workers[j].URL] = true
			}
		}
	}
	for i := range v.Routers {
		text, err := o.askRouter(&routerOptions{url: v.Routers[i].Operator, key: o.router.key}, urls)
		if err != nil || text != "" {
			return text, err
		}
	}
	return "", nil
}

// askRouter asks one router for the workers at urls.
func (o *drainOptions) askRouter(router *routerOptions, urls map[string]bool) (string, error) {
	text, err := router.ask("/workers", nil, clusterPatience)
	if err != nil {
		return "", err
	}
	var answer struct {
		Workers []struct {
			URL      string `json:"url"`
			State    string `json:"state"`
			InFlight int    `json:"in_flight"`
		} `json:"workers"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return "", fmt.Errorf("cannot read the answer of %s: %w", router.base(), err)
	}
	for _, w := range answer.Workers {
		switch {
		case !urls[w.URL]:
		case w.InFlight > 0:
			return fmt.Sprintf("router %s has %d requests at %s", router.base(), w.InFlight, w.URL), nil
		case w.State == "ready" || w.State == "slow":
			return fmt.Sprintf("router %s still chooses %s", router.base(), w.URL), nil
		}
	}
	return "", nil
}
