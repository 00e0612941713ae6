package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/admin/top"
	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// markOptions are the flags of the commands that mark nodes and workers.
type markOptions struct {
	mark
	cluster clusterOptions
	router  routerOptions
	wait    bool
	timeout time.Duration
}

// mark is the change that one of these commands makes, at a router and in a cluster.
type mark struct {
	endpoint string // below /workers
	on       bool
	change   func(*cluster.Mark)
	done     string // the words about a target
}

// newMarkCommands returns drain, cordon, their opposites, and remove.
func newMarkCommands() []*cobra.Command {
	drain, d := newMarkCommand("drain", "Stop sending new requests to a worker or node; requests in flight finish",
		mark{"drain", true, func(m *cluster.Mark) { m.Drain = true }, "is draining"})
	drain.Flags().BoolVar(&d.wait, "wait", false, "return when no router has a request at the target any more")
	drain.Flags().DurationVar(&d.timeout, "timeout", 10*time.Minute, "longest time that --wait waits")
	undrain, _ := newMarkCommand("undrain", "End a drain: the worker or node gets requests again",
		mark{"drain", false, func(m *cluster.Mark) { m.Drain = false }, "is up"})
	cordon, _ := newMarkCommand("cordon", "Keep new workers of a node or URL out; workers in use keep serving",
		mark{"cordon", true, func(m *cluster.Mark) { m.Cordon = true }, "is cordoned"})
	uncordon, _ := newMarkCommand("uncordon", "End a cordon: new workers are added again",
		mark{"cordon", false, func(m *cluster.Mark) { m.Cordon = false }, "is no longer cordoned"})
	return []*cobra.Command{drain, undrain, cordon, uncordon, newRemoveCommand()}
}

const markLong = `TARGET is a worker's URL or a node's name, as "warmpath workers" and "warmpath nodes" list them. The
command asks a router. In a cluster all routers obey, and the cluster keeps the mark until it is
removed, also while the target is away. A router without a cluster knows no nodes, and keeps the mark
while it runs; "warmpath remove" ends a drain there. With --cluster the command talks to the cluster itself and needs no router.`

func newMarkCommand(name, short string, what mark) (*cobra.Command, *markOptions) {
	o := &markOptions{mark: what}
	c := &cobra.Command{
		Use:     name + " TARGET",
		Short:   short,
		Long:    short + ".\n\n" + markLong,
		Example: "  warmpath " + name + " http://gpu-3:30000\n  warmpath " + name + " gpu-3 --router http://router:8001\n  warmpath " + name + " gpu-3 --cluster nats://nats1:4222",
		Args:    oneTarget("a node or a worker's URL (warmpath nodes and warmpath workers list them)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			target := targetOf(args[0])
			if len(o.cluster.urls) == 0 {
				return o.atRouter(cmd, target)
			}
			return o.cluster.ask(cmd, func(ctx context.Context, c *cluster.Cluster) error {
				return o.inCluster(ctx, cmd, c, target)
			})
		},
	}
	o.router.flags(c.Flags())
	o.cluster.joinFlags(c.Flags(), "")
	return c, o
}

// oneTarget refuses all but one argument.
func oneTarget(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return fmt.Errorf("nothing to %s: name %s", c.Name(), what)
		case 1:
			return nil
		}
		return fmt.Errorf("cannot %s %d targets: name one, %s", c.Name(), len(args), what)
	}
}

// newRemoveCommand returns `warmpath remove`.
func newRemoveCommand() *cobra.Command {
	var router routerOptions
	var now bool
	c := &cobra.Command{
		Use:   "remove URL",
		Short: "Take a worker away from a router once its requests in flight have ended",
		Long: `Take a worker away from a router once its requests in flight have ended. It comes back when
POST /workers adds it, when its source leaves it out for 10 s and then lists it again, or when the
router restarts while a source lists it; the command says if one does. Other routers keep it:
"warmpath drain" takes it out of use at all routers of a cluster.`,
		Example: "  warmpath remove http://gpu-3:30000\n  warmpath remove http://gpu-3:30000 --now --router http://router:8001",
		Args:    oneTarget("a worker's URL (warmpath workers lists them)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			target := targetOf(args[0])
			query := url.Values{"url": {target}, "now": {strconv.FormatBool(now)}}
			text, err := router.send(fasthttp.MethodDelete, "/workers?"+query.Encode(), nil, clusterPatience)
			if err != nil {
				return err
			}
			var answer struct {
				InFlight int      `json:"in_flight"`
				NamedBy  []string `json:"named_by"`
			}
			if err := json.Unmarshal(text, &answer); err != nil {
				return fmt.Errorf("cannot read the answer of %s: %w", router.base(), err)
			}
			switch {
			case answer.InFlight == 0:
				fmt.Fprintf(cmd.OutOrStdout(), "%s is removed\n", target)
			case now:
				fmt.Fprintf(cmd.OutOrStdout(), "%s is removed; %d requests go on there\n", target, answer.InFlight)
			default:
				fmt.Fprintf(cmd.OutOrStdout(), "%s is removed when its %d requests have ended\n", target, answer.InFlight)
			}
			if len(answer.NamedBy) > 0 {
				fmt.Fprintf(top.Plain(cmd.OutOrStdout()), "%s still names it: take it out there, or it comes back when the router restarts\n", strings.Join(answer.NamedBy, ", "))
			}
			return nil
		},
	}
	router.flags(c.Flags())
	c.Flags().BoolVar(&now, "now", false, "remove it at once; its requests in flight go on")
	return c
}

// isURL tells a worker from a node: names of nodes have no colon.
func isURL(target string) bool { return strings.Contains(target, ":") }

// targetOf is a node's name, or a worker's URL as routers write it.
func targetOf(text string) string {
	return worker.NormalURL(text)
}

// atRouter asks a router to begin or end a drain or cordon.
func (o *markOptions) atRouter(cmd *cobra.Command, target string) error {
	request := map[string]any{o.endpoint: o.on}
	if isURL(target) {
		request["url"] = target
	} else {
		request["node"] = target
	}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	text, err := o.router.ask("/workers/"+o.endpoint, body, clusterPatience)
	if err != nil {
		return err
	}
	var answer struct{ Scope, Reason string }
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("cannot read the answer of %s: %w", o.router.base(), err)
	}
	fmt.Fprintf(top.Plain(cmd.OutOrStdout()), "%s %s%s\n", target, o.done, prefixed(" at this router only: ", answer.Reason))
	if !o.wait {
		return nil
	}
	where := ""
	if answer.Scope == "cluster" {
		where = " at this router; --cluster waits for all"
	}
	return o.waitEmpty(cmd.Context(), cmd, target, where, func() (string, error) {
		return o.askRouter(&o.router, func(url, node string) bool { return url == target || node == target })
	})
}

// inCluster changes a target's mark, and with --wait returns when the target is empty.
func (o *markOptions) inCluster(ctx context.Context, cmd *cobra.Command, c *cluster.Cluster, target string) error {
	v := c.View()
	// A target that is away is known by its mark.
	marked := slices.ContainsFunc(v.Marks, func(m cluster.Mark) bool { return m.Target == target })
	if known := targets(v); !marked && !slices.Contains(known, target) {
		return unknownTarget(target, known)
	}
	var now cluster.Mark
	err := c.ChangeMark(ctx, target, func(m *cluster.Mark) {
		o.change(m)
		m.By, m.At = operatorName(), time.Now().UTC()
		now = *m
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s is %s\n", target, word(&now))
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
func (o *markOptions) waitEmpty(ctx context.Context, cmd *cobra.Command, target, where string, left func() (string, error)) error {
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
func (o *markOptions) left(v *cluster.View, target string) (string, error) {
	urls := map[string]bool{target: true}
	for i := range v.Nodes {
		for j := range v.Nodes[i].Workers {
			if v.Nodes[i].Name == target {
				urls[v.Nodes[i].Workers[j].URL] = true
			}
		}
	}
	for i := range v.Routers {
		text, err := o.askRouter(&routerOptions{url: v.Routers[i].Operator, key: o.router.key}, func(url, _ string) bool { return urls[url] })
		if err != nil || text != "" {
			return text, err
		}
	}
	return "", nil
}

// askRouter asks one router for the workers of a target.
func (o *markOptions) askRouter(router *routerOptions, of func(url, node string) bool) (string, error) {
	text, err := router.ask("/workers", nil, clusterPatience)
	if err != nil {
		return "", err
	}
	var answer struct {
		Workers []struct {
			URL      string `json:"url"`
			Node     string `json:"node"`
			State    string `json:"state"`
			InFlight int    `json:"in_flight"`
		} `json:"workers"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return "", fmt.Errorf("cannot read the answer of %s: %w", router.base(), err)
	}
	for _, w := range answer.Workers {
		switch {
		case !of(w.URL, w.Node):
		case w.InFlight > 0:
			return fmt.Sprintf("router %s has %d requests at %s", router.base(), w.InFlight, w.URL), nil
		case w.State == "ready" || w.State == "slow":
			return fmt.Sprintf("router %s still chooses %s", router.base(), w.URL), nil
		}
	}
	return "", nil
}
