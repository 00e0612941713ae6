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
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/cluster"
)

// drainOptions are the flags of the four commands that mark nodes and workers.
type drainOptions struct {
	cluster clusterOptions
	wait    bool
	timeout time.Duration
	key     string
}

// newMarkCommands returns drain, cordon and their opposites.
func newMarkCommands() []*cobra.Command {
	drain, o := newMarkCommand("drain", "Stop sending new requests to a worker or node; requests in flight finish",
		func(m *cluster.Mark) { m.Drain = true })
	drain.Flags().BoolVar(&o.wait, "wait", false, "return when no router has a request at the target any more")
	drain.Flags().DurationVar(&o.timeout, "timeout", 10*time.Minute, "longest --wait")
	secretFlag(drain.Flags(), &o.key, "operator-key", "bearer token of the routers' operator API, for --wait")
	undrain, _ := newMarkCommand("undrain", "End a drain: the worker or node gets requests again", func(m *cluster.Mark) { m.Drain = false })
	cordon, _ := newMarkCommand("cordon", "Admit no new workers of a node or URL; workers in use keep serving", func(m *cluster.Mark) { m.Cordon = true })
	uncordon, _ := newMarkCommand("uncordon", "End a cordon: new workers are admitted again", func(m *cluster.Mark) { m.Cordon = false })
	return []*cobra.Command{drain, undrain, cordon, uncordon}
}

func newMarkCommand(name, short string, change func(*cluster.Mark)) (*cobra.Command, *drainOptions) {
	o := &drainOptions{}
	c := &cobra.Command{
		Use:   name + " TARGET",
		Short: short,
		Long: short + `.

TARGET is a node's name or a worker's URL, as "warmpath nodes" and "warmpath workers" list them,
workers of --worker included. The cluster keeps the mark until it is removed, also while the
target is away, and every router of the cluster obeys it.`,
		Example: "  warmpath " + name + " gpu-3\n  warmpath " + name + " http://gpu-3:30000 --cluster nats://nats1:4222",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("cannot %s %d targets: name one, a node or a worker's URL (warmpath nodes and warmpath workers list them)", name, len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.cluster.ask(cmd, func(ctx context.Context, c *cluster.Cluster) error {
				return o.mark(ctx, cmd, c, strings.TrimRight(args[0], "/"), change)
			})
		},
	}
	o.cluster.joinFlags(c.Flags(), defaultCluster)
	return c, o
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
		return o.waitEmpty(ctx, cmd, c, target)
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

// waitEmpty returns when every router has the target's workers out of its choice and no request at
// them.
func (o *drainOptions) waitEmpty(ctx context.Context, cmd *cobra.Command, c *cluster.Cluster, target string) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	tick := time.NewTicker(waitPoll)
	defer tick.Stop()
	for {
		left, err := o.left(c.View(), target)
		if err == nil && left == "" {
			fmt.Fprintf(cmd.OutOrStdout(), "%s has nothing in flight\n", target)
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("cannot know when %s is empty: %w", target, err)
			}
			return fmt.Errorf("cannot wait for %s any longer: %s", target, left)
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
		text, err := o.askRouter(v.Routers[i].Operator, urls)
		if err != nil || text != "" {
			return text, err
		}
	}
	return "", nil
}

// askRouter asks one router for the workers at urls.
func (o *drainOptions) askRouter(addr string, urls map[string]bool) (string, error) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI("http://" + addr + "/workers")
	if o.key != "" {
		req.Header.Set(fasthttp.HeaderAuthorization, "Bearer "+o.key)
	}
	if err := fasthttp.DoTimeout(req, resp, clusterPatience); err != nil {
		return "", fmt.Errorf("router %s does not answer: %w", addr, err)
	}
	if resp.StatusCode() != fasthttp.StatusOK {
		return "", fmt.Errorf("router %s answers %d: is --operator-key right?", addr, resp.StatusCode())
	}
	var answer struct {
		Workers []struct {
			URL      string `json:"url"`
			State    string `json:"state"`
			InFlight int    `json:"in_flight"`
		} `json:"workers"`
	}
	if err := json.Unmarshal(resp.Body(), &answer); err != nil {
		return "", fmt.Errorf("router %s: %w", addr, err)
	}
	for _, w := range answer.Workers {
		switch {
		case !urls[w.URL]:
		case w.InFlight > 0:
			return fmt.Sprintf("router %s has %d requests at %s", addr, w.InFlight, w.URL), nil
		case w.State == "ready" || w.State == "slow":
			return fmt.Sprintf("router %s still chooses %s", addr, w.URL), nil
		}
	}
	return "", nil
}
