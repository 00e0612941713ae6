package admin_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/kvtier/directory"
	"github.com/warmpath/warmpath/dataplane/request/requesttest"
)

// fixedCluster is a cluster that does not change.
type fixedCluster struct{ view cluster.View }

func (c *fixedCluster) Status() cluster.Status { return cluster.Status{Up: c.view.Up} }

func (c *fixedCluster) View() *cluster.View { return &c.view }

func halvesOf(model string, prefills, decodes int) (all []cluster.Worker) {
	for i := range prefills + decodes {
		role := "prefill"
		if i >= prefills {
			role = "decode"
		}
		all = append(all, cluster.Worker{URL: fmt.Sprintf("http://w%d:1", i), Role: role, Model: model})
	}
	return all
}

// TestNodes: nodes are as the cluster knows them, with marks and what this router knows of their
// tiers; without a cluster there are none, and the answer says why.
func TestNodes(t *testing.T) {
	c := &fixedCluster{cluster.View{
		Up:    true,
		Marks: []cluster.Mark{{Target: "a b", Cordon: true}},
		Nodes: []cluster.Node{
			{Name: "a b", GPUs: []cluster.GPU{{UUID: "GPU-1", Used: 5, Total: 9}}, Links: []cluster.Link{{To: "c"}}, Tier: &cluster.Tier{Bytes: 100, Used: 60}},
			{Name: "c", Driver: "no library"},
		},
	}}
	tiers := func() directory.Status {
		return directory.Status{Nodes: []directory.NodeStatus{{Name: "a b", Pages: 7}}}
	}
	h := start(t, nil, requesttest.WithAdminParts(func(p *admin.Parts) { p.Cluster, p.Tiers = c, tiers }))
	var got admin.Nodes
	status, _ := h.get("/nodes", &got)
	require.Equal(t, http.StatusOK, status)
	require.True(t, got.Cluster)
	require.True(t, got.Up)
	require.Len(t, got.Nodes, 2)
	a := got.Nodes[0]
	require.Equal(t, []any{"a b", false, true, 7, int64(60), 1}, []any{a.Name, a.Drain, a.Cordon, a.Directory.Pages, a.Tier.Used, len(a.GPUs)})
	require.Empty(t, a.Links, "the list is short")
	require.Nil(t, got.Nodes[1].Directory)
	got = admin.Nodes{}
	h.get("/nodes?name=a+b", &got)
	require.Len(t, got.Nodes, 1)
	require.Len(t, got.Nodes[0].Links, 1)
	require.Len(t, c.view.Nodes[0].Links, 1, "the view is nobody's to change")
	status, body := h.get("/nodes?name=nobody", &got)
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, body, "GET /nodes lists them")

	_, body = start(t, nil).get("/nodes", &got)
	require.Equal(t, "{\"cluster\":false,\"up\":false,\"nodes\":[]}\n", body)
}

// TestLinks: the worst links come first, with the pairs that use them, and an answer is bounded.
func TestLinks(t *testing.T) {
	c := &fixedCluster{cluster.View{Nodes: []cluster.Node{
		{Name: "a", Workers: halvesOf("x", 2, 1), Links: []cluster.Link{{To: "b", Write: 9e9}, {To: "c", Broken: "refused"}, {To: "gone", Write: 1}}},
		{Name: "b", Workers: halvesOf("x", 0, 3), Links: []cluster.Link{{To: "a", Write: 5e9}, {To: "c", Slow: "1 of 4 rails"}}},
		{Name: "c", Workers: halvesOf("y", 0, 3), Links: []cluster.Link{{To: "b", Unknown: "no NIXL"}}},
	}}}
	h := start(t, nil, requesttest.WithAdminParts(func(p *admin.Parts) { p.Cluster = c }))
	var got admin.NodeLinks
	h.get("/links", &got)
	var rows []string
	for _, l := range got.Links {
		rows = append(rows, fmt.Sprintf("%s-%s %d", l.From, l.To, l.Pairs))
	}
	require.Equal(t, []string{"a-c 0", "b-c 0", "c-b 0", "a-gone 0", "b-a 0", "a-b 6"}, rows, "the decode workers of b are no prefill workers for a")
	require.Zero(t, got.LeftOut)
	many := slices.Clone(c.view.Nodes)
	for i := range 1500 {
		many[2].Links = append(many[2].Links, cluster.Link{To: strconv.Itoa(i), Write: 1e10})
	}
	start(t, nil, requesttest.WithAdminParts(func(p *admin.Parts) { p.Cluster = &fixedCluster{cluster.View{Nodes: many}} })).get("/links", &got)
	require.Len(t, got.Links, 1000)
	require.Equal(t, 506, got.LeftOut)
	require.NotEmpty(t, got.Links[0].Broken)
}
