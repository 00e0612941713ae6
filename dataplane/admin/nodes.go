package admin

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/kvtier/directory"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// Nodes is the body of GET /nodes: the cluster's nodes as their sidecars tell. Facts that a sidecar
// does not know are absent.
type Nodes struct {
	Cluster bool         `json:"cluster"` // false: the router is in none, and knows no nodes
	Up      bool         `json:"up"`      // the cluster's NATS answers; else this is the last view
	Nodes   []NodeStatus `json:"nodes"`
}

// NodeStatus is one node. Its links are in the answer to /nodes?name= alone.
type NodeStatus struct {
	cluster.Node
	Drain  bool `json:"drain"` // by an operator
	Cordon bool `json:"cordon"`
	// This router's view of the node's KV tier; absent where it has none.
	Directory *directory.NodeStatus `json:"directory,omitempty"`
}

// NodeLinks is the body of GET /links: measured links between nodes, the worst first.
type NodeLinks struct {
	Cluster bool       `json:"cluster"`
	Links   []NodeLink `json:"links"`
	LeftOut int        `json:"left_out"` // links beyond these
}

// NodeLink is one link.
type NodeLink struct {
	From string `json:"from"`
	cluster.Link
	// Pairs of a prefill worker at From and a decode worker of its model at To.
	Pairs int `json:"pairs"`
}

// maxLinks bounds an answer: 125 nodes of 8 workers have 15,500 links.
const maxLinks = 1000

// nodes answers GET /nodes and /links.
type nodes struct {
	responder
	cluster Cluster                 // nil: the router is in none
	tiers   func() directory.Status // nil: the router has no tier directory
}

func (n *nodes) view() (*cluster.View, bool) {
	if n.cluster == nil {
		return &cluster.View{}, false
	}
	return n.cluster.View(), true
}

// serve answers /nodes, and /nodes?name= with one node and its links.
func (n *nodes) serve(ctx *fasthttp.RequestCtx) {
	v, clustered := n.view()
	name := string(ctx.QueryArgs().Peek("name"))
	answer := Nodes{Cluster: clustered, Up: v.Up, Nodes: []NodeStatus{}}
	tiers := map[string]*directory.NodeStatus{}
	if n.tiers != nil {
		of := n.tiers().Nodes
		for i := range of {
			tiers[of[i].Name] = &of[i]
		}
	}
	for i := range v.Nodes {
		one := NodeStatus{Node: v.Nodes[i], Directory: tiers[v.Nodes[i].Name]}
		if name != "" && one.Name != name {
			continue
		}
		if name == "" {
			one.Links = nil
		}
		if one.Workers == nil {
			one.Workers = []cluster.Worker{}
		}
		one.Drain, one.Cordon = v.Marked(one.Name, "")
		answer.Nodes = append(answer.Nodes, one)
	}
	if name != "" && len(answer.Nodes) == 0 {
		n.fail(ctx, &openai.Error{
			Status: fasthttp.StatusNotFound, Type: "invalid_request_error", Param: "name", Code: "node_not_found",
			Message: fmt.Sprintf("The cluster has no node %q. GET /nodes lists them.", name),
		})
		return
	}
	n.json(ctx, fasthttp.StatusOK, answer)
}

// serveLinks answers /links.
func (n *nodes) serveLinks(ctx *fasthttp.RequestCtx) {
	v, clustered := n.view()
	answer := NodeLinks{Cluster: clustered, Links: []NodeLink{}}
	roles := map[string]map[string]*[2]int{}
	for i := range v.Nodes {
		roles[v.Nodes[i].Name] = halves(&v.Nodes[i])
	}
	for i := range v.Nodes {
		from := &v.Nodes[i]
		for _, l := range from.Links {
			answer.Links = append(answer.Links, NodeLink{From: from.Name, Link: l, Pairs: pairs(roles[from.Name], roles[l.To])})
		}
	}
	slices.SortStableFunc(answer.Links, func(a, b NodeLink) int {
		return cmp.Or(cmp.Compare(severity(&a), severity(&b)), cmp.Compare(a.Write, b.Write))
	})
	answer.LeftOut = max(len(answer.Links)-maxLinks, 0)
	answer.Links = answer.Links[:len(answer.Links)-answer.LeftOut]
	n.json(ctx, fasthttp.StatusOK, answer)
}

// severity orders links: broken, slow, without a measurement now, well.
func severity(l *NodeLink) int {
	for i, why := range []string{l.Broken, l.Slow, l.Unknown} {
		if why != "" {
			return i
		}
	}
	return 3
}

// halves counts a node's prefill and decode workers by model.
func halves(n *cluster.Node) map[string]*[2]int {
	out := map[string]*[2]int{}
	for i := range n.Workers {
		w := &n.Workers[i]
		half := slices.Index([]string{"prefill", "decode"}, w.Role)
		if half < 0 || w.Model == "" {
			continue
		}
		if out[w.Model] == nil {
			out[w.Model] = &[2]int{}
		}
		out[w.Model][half]++
	}
	return out
}

func pairs(from, to map[string]*[2]int) (n int) {
	for model, a := range from {
		if b := to[model]; b != nil {
			n += a[0] * b[1]
		}
	}
	return n
}
