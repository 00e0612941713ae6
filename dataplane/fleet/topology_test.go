package fleet

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

func TestTopologyFollowAView(t *testing.T) {
	reg := worker.NewRegistry(worker.Config{Log: slog.New(slog.DiscardHandler)}, nil)
	router := routing.New(reg, nil, nil, policy.KV{}, nil)
	p := NewTopology(reg, router.SetLinks, nil)
	workers := map[string]*worker.Worker{}
	for _, name := range []string{"a", "b", "c", "alone"} {
		w, err := reg.Add("http://127.0.0.1:1" + strconv.Itoa(len(workers)))
		require.NoError(t, err)
		workers[name] = w
	}
	t.Cleanup(func() {
		for _, w := range workers {
			_ = reg.Remove(w.URL)
		}
	})
	node := func(name string, links ...cluster.Link) cluster.Node {
		return cluster.Node{Name: name, Workers: []cluster.Worker{{URL: workers[name].URL}}, Links: links}
	}
	p.update(&cluster.View{Nodes: []cluster.Node{node("a"), node("b"), node("c")}})
	assert.Nil(t, router.Links(), "nothing was measured")
	a, b, c := workers["a"].NodeNumber(), workers["b"].NodeNumber(), workers["c"].NodeNumber()
	assert.ElementsMatch(t, []uint32{1, 2, 3}, []uint32{a, b, c})
	assert.Zero(t, workers["alone"].NodeNumber(), "it is on no node of the cluster")

	p.update(&cluster.View{Nodes: []cluster.Node{
		node("a", cluster.Link{To: "b", Read: 1e9, Write: 2e9}, cluster.Link{To: "c", Broken: "no route"}, cluster.Link{To: "gone", Write: 1}),
		node("b", cluster.Link{To: "a", Read: 3e9}, cluster.Link{To: "c", Read: 4e9}),
		node("c", cluster.Link{To: "b", Unknown: "no NIXL there"}, cluster.Link{To: "a", Unknown: "no NIXL there"}),
	}})
	l := router.Links()
	assert.Equal(t, policy.Hop{Speed: 2e9}, l.Between(a, b), "what a writes counts, not what b reads")
	assert.Equal(t, policy.Hop{Speed: 1e9}, l.Between(b, a), "b has not measured writing")
	assert.Equal(t, policy.Hop{Broken: true}, l.Between(a, c))
	assert.Equal(t, policy.Hop{Broken: true}, l.Between(c, a), "nobody else has a word on it")
	assert.Equal(t, policy.Hop{Speed: 4e9}, l.Between(c, b), "what c could not measure is not broken")
	assert.Equal(t, policy.Hop{}, l.Between(b, c))

	shelved := node("b")
	shelved.Tier = &cluster.Tier{Speed: 5e9}
	p.update(&cluster.View{Nodes: []cluster.Node{node("a"), shelved, node("c")}})
	assert.Equal(t, []float64{0, 5e9, 0}, []float64{router.Links().Tier(a), router.Links().Tier(b), router.Links().Tier(c)})
	assert.Equal(t, policy.Hop{}, router.Links().Between(b, b), "a tier's speed is that of no pair")

	// One node goes and another one comes: the others keep their numbers.
	workers["d"] = workers["alone"]
	p.update(&cluster.View{Nodes: []cluster.Node{node("c"), node("d"), node("a")}})
	assert.Equal(t, []uint32{a, 0, c, b}, []uint32{workers["a"].NodeNumber(), workers["b"].NodeNumber(), workers["c"].NodeNumber(), workers["d"].NodeNumber()})
	assert.Nil(t, router.Links())
	assert.Equal(t, "d", p.Name(b))
	assert.Empty(t, p.Name(17))
	delete(workers, "d")
}

// onceViewer is a cluster that has one view.
type onceViewer struct {
	view    *cluster.View
	stopped chan struct{}
}

func (o *onceViewer) View() *cluster.View { return o.view }

func (o *onceViewer) Watch(f func(*cluster.View)) (stop func()) {
	f(o.view)
	return func() { close(o.stopped) }
}

// A worker that comes after the view that names it gets its place, too.
func TestTopologyOfLateWorkers(t *testing.T) {
	reg := worker.NewRegistry(worker.Config{Log: slog.New(slog.DiscardHandler)}, nil)
	p := NewTopology(reg, routing.New(reg, nil, nil, policy.KV{}, nil).SetLinks, nil)
	const url = "http://127.0.0.1:1"
	from := &onceViewer{
		view:    &cluster.View{Nodes: []cluster.Node{{Name: "a", Workers: []cluster.Worker{{URL: url + "/"}}}}},
		stopped: make(chan struct{}),
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Follow(ctx, from) }()
	w, err := reg.Add(url)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return w.NodeNumber() == 1 }, 5*time.Minute, time.Millisecond)
	stop()
	require.NoError(t, <-done)
	<-from.stopped
	require.NoError(t, reg.Remove(url))
}
