package fleet

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/discover"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// fakeCluster shows the views that a test has it show.
type fakeCluster struct {
	mu   sync.Mutex
	view *cluster.View
	tell func(*cluster.View)
}

func (c *fakeCluster) View() *cluster.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view
}

func (c *fakeCluster) Watch(f func(*cluster.View)) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tell = f
	f(c.view)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.tell = nil
	}
}

func (c *fakeCluster) show(v cluster.View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.view = &v; c.tell != nil {
		c.tell(&v)
	}
}

// nodeOf is a node with a sidecar that started at the Unix epoch.
func nodeOf(name string, hosts ...string) cluster.Node {
	n := cluster.Node{Name: name, Started: time.Unix(0, 0)}
	for _, h := range hosts {
		n.Workers = append(n.Workers, cluster.Worker{URL: "http://" + h + ":1"})
	}
	return n
}

func up(nodes ...cluster.Node) cluster.View { return cluster.View{Nodes: nodes, Up: true} }

func marked(v cluster.View, marks ...cluster.Mark) cluster.View {
	v.Marks = marks
	return v
}

// watchCluster has a source follow a fake cluster until f returns; last returns its last set.
func watchCluster(t *testing.T, c *fakeCluster, f func(s *ClusterSource, last func() (map[string]bool, int))) {
	t.Helper()
	nobody := func(string) (*worker.Worker, error) { return nil, errors.New("there is no registry") }
	s := NewClusterSource(c, nobody, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	var mu sync.Mutex
	var told []worker.Spec
	count := 0
	done := make(chan error, 1)
	go func() {
		done <- s.Run(ctx, func(specs []worker.Spec) {
			mu.Lock()
			defer mu.Unlock()
			told = specs
			count++
		})
	}()
	f(s, func() (drains map[string]bool, n int) {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		drains = map[string]bool{}
		for _, spec := range told {
			drains[spec.URL[len("http://"):len(spec.URL)-len(":1")]] = spec.Drain
		}
		return drains, count
	})
	stop()
	require.NoError(t, <-done)
}

func TestClusterSourceFollowsNodes(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		c := &fakeCluster{view: &cluster.View{}}
		watchCluster(t, c, func(s *ClusterSource, last func() (map[string]bool, int)) {
			_, n := last()
			require.Zero(t, n, "NATS was never heard")
			require.ErrorIs(t, s.Trouble(), cluster.ErrDown)
			n1, n2 := nodeOf("n1", "a", "b"), nodeOf("n2", "c")
			n1.Workers[0].Role, n1.Workers[0].BootstrapPort, n1.Workers[1].Role = "prefill", 8998, "of a later release"
			c.show(up(n1, n2))
			got, _ := last()
			require.Equal(t, map[string]bool{"a": false, "b": false, "c": false}, got)
			require.NoError(t, s.Trouble())

			c.show(up(nodeOf("n1", "a"), n2))
			got, _ = last()
			require.Equal(t, map[string]bool{"a": false, "c": false}, got, "a node that lives knows its workers")

			c.show(cluster.View{Up: false})
			time.Sleep(time.Hour)
			got, _ = last()
			require.Equal(t, map[string]bool{"a": false, "c": false}, got, "NATS is down")

			c.show(up(n2))
			time.Sleep(lostNodeGrace / 2)
			got, _ = last()
			require.Equal(t, map[string]bool{"a": false, "c": false}, got, "n1's sidecar may start again")
			time.Sleep(lostNodeGrace)
			c.show(up(n2))
			got, _ = last()
			require.Equal(t, map[string]bool{"c": false}, got, "it did not")

			c.show(up())
			time.Sleep(lostNodeGrace / 2)
			c.show(up(nodeOf("n2", "c", "d")))
			time.Sleep(time.Hour)
			got, _ = last()
			require.Equal(t, map[string]bool{"c": false, "d": false}, got, "n2 is back")
		})
	})
}

func TestClusterSourceHeedsMarks(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		nodes := []cluster.Node{nodeOf("n1", "a", "b"), nodeOf("n2", "c")}
		late := nodeOf("n3", "d")
		late.Started = time.Now()
		c := &fakeCluster{}
		c.show(marked(up(append(nodes, late)...), cluster.Mark{Target: "n2", Cordon: true, At: time.Unix(1, 0)},
			cluster.Mark{Target: "n3", Cordon: true, At: time.Unix(1, 0)}))
		watchCluster(t, c, func(_ *ClusterSource, last func() (map[string]bool, int)) {
			got, _ := last()
			require.Equal(t, map[string]bool{"a": false, "b": false, "c": false}, got, "n2 served when it was cordoned, n3 was not there")

			c.show(marked(up(nodes...), cluster.Mark{Target: "n1", Drain: true}, cluster.Mark{Target: "http://c:1/", Drain: true}))
			got, _ = last()
			require.Equal(t, map[string]bool{"a": true, "b": true, "c": false}, got, "the manager drains single workers")
			c.show(up(nodes...))
			got, _ = last()
			require.Equal(t, map[string]bool{"a": false, "b": false, "c": false}, got)

			nodes[0] = nodeOf("n1", "a", "b", "new")
			c.show(marked(up(nodes...), cluster.Mark{Target: "n1", Cordon: true, At: time.Now()}))
			got, _ = last()
			require.Equal(t, map[string]bool{"a": false, "b": false, "c": false}, got, "a new worker of a cordoned node waits")
			c.show(up(nodes...))
			got, _ = last()
			require.Equal(t, map[string]bool{"a": false, "b": false, "c": false, "new": false}, got)
		})
	})
}

// TestClusterHealth goes through a manager: the facts must reach workers that it adds later, be
// told again while they hold, and grow old without NATS.
func TestClusterHealth(t *testing.T) {
	inHarness(t, func(y *harness) {
		y.run("m", "a", "b")
		c := &fakeCluster{view: &cluster.View{}}
		y.manager.SetSources([]discover.Source{NewClusterSource(c, y.registry.Get, slog.New(slog.DiscardHandler))})
		sick := nodeOf("n1", "a", "b")
		sick.Workers[0].Health = cluster.Health{State: "degraded", Weight: 0.5, Reasons: []string{"throttled"}}
		c.show(up(sick))
		y.pass(2 * time.Second)
		y.has(map[string]string{"a": ready, "b": ready}, "both are added")
		y.pass(2 * time.Minute)
		require.Equal(t, worker.GPUDegraded, y.worker("a").Health(time.Now()).State, "the facts hold")
		require.Equal(t, worker.GPUUnknown, y.worker("b").Health(time.Now()).State, "its node says nothing of GPUs")
		c.show(cluster.View{Nodes: []cluster.Node{sick}})
		y.pass(2 * worker.HealthFor)
		require.Equal(t, worker.GPUUnknown, y.worker("a").Health(time.Now()).State, "nobody knows")
		require.Contains(t, y.worker("a").Health(time.Now()).Reasons[0], "the last was: degraded")
		y.has(map[string]string{"a": ready, "b": ready}, "the probes do")
		require.NotEmpty(t, y.manager.Sources()[0].Error)
		back := nodeOf("n1", "a", "b")
		back.Workers[0].Health = cluster.Health{State: "on fire", Weight: 1} // a word of a later release
		back.Workers[1].Health = cluster.Health{State: "healthy", Weight: 1}
		c.show(up(back))
		y.pass(time.Minute)
		require.Equal(t, worker.GPUUnknown, y.worker("a").Health(time.Now()).State)
		require.Equal(t, worker.GPUHealthy, y.worker("b").Health(time.Now()).State, "its node says so")
	})
}

// TestNodesNameForeignWorkers has a node, whose own record is all that it may write, name the workers
// of another one, in another spelling too.
func TestNodesNameForeignWorkers(t *testing.T) {
	for name, spell := range map[string]func(url string) string{
		"alike":            func(url string) string { return url },
		"upper case":       strings.ToUpper,
		"without a scheme": func(url string) string { return strings.TrimPrefix(url, "http://") },
		"with slashes":     func(url string) string { return url + "//" },
	} {
		t.Run(name, func(t *testing.T) { testForeignWorkers(t, spell) })
	}
}

func testForeignWorkers(t *testing.T, spell func(url string) string) {
	t.Helper()
	inHarness(t, func(y *harness) {
		y.run("m", "a", "b")
		c := &fakeCluster{view: &cluster.View{}}
		source := NewClusterSource(c, y.registry.Get, slog.New(slog.DiscardHandler))
		y.manager.SetSources([]discover.Source{source})
		topology := map[string]string{}
		places := NewTopology(y.registry, func(*policy.Links) {}, nil)
		see := func(nodes ...cluster.Node) {
			t.Helper()
			c.show(up(nodes...))
			y.pass(2 * time.Second)
			places.update(c.View())
			clear(topology)
			maps.Copy(topology, places.node)
		}
		well, evil := nodeOf("n", "a", "b"), nodeOf("evil", "a", "b")
		for i := range well.Workers {
			well.Workers[i].Health = cluster.Health{State: "healthy", Weight: 1}
			evil.Workers[i].URL = spell(evil.Workers[i].URL)
			evil.Workers[i].Health = cluster.Health{State: "dead"}
			evil.Workers[i].Role, evil.Workers[i].BootstrapHost, evil.Workers[i].BootstrapPort = "prefill", "evil.example", 1
		}
		believed := func(node string, state worker.GPUState, why string) {
			y.t.Helper()
			y.has(map[string]string{"a": ready, "b": ready}, why)
			for _, name := range []string{"a", "b"} {
				require.Equal(t, state, y.worker(name).Health(time.Now()).State, why)
				require.Equal(t, node, topology["http://"+name+":1"], why)
				require.NotEqual(t, "evil.example", y.worker(name).Spec().Bootstrap.Host, why)
			}
		}
		see(well)
		believed("n", worker.GPUHealthy, "there is one node")
		see(evil, well)
		believed("n", worker.GPUHealthy, "it came first")
		see(evil)
		y.pass(lostNodeGrace / 2)
		see(evil, well)
		believed("n", worker.GPUHealthy, "it was away for a moment")

		// A router that starts finds both.
		places = NewTopology(y.registry, func(*policy.Links) {}, nil)
		*source.claims = *newClaims(nil)
		see(evil, well)
		y.pass(2 * worker.HealthFor)
		believed("", worker.GPUUnknown, "nobody knows which of them is right")
		c.show(marked(up(evil, well), cluster.Mark{Target: "n", Drain: true}))
		y.pass(2 * time.Second)
		require.Equal(t, worker.Draining, y.worker("a").State(), "a mark of either node counts")
		c.show(up(evil, well))
		y.pass(2 * time.Second)
		see(well)
		believed("n", worker.GPUHealthy, "one is left")
	})
}

// TestHistoriesOfRecords: whatever records do, a worker that some living node names is in use, is
// known as before, and gets the GPU health of the node that names it.
func TestHistoriesOfRecords(t *testing.T) {
	healthy := func(n cluster.Node) cluster.Node {
		for i := range n.Workers {
			n.Workers[i].Health = cluster.Health{State: "healthy", Weight: 1}
		}
		return n
	}
	twice := nodeOf("n1", "a")
	twice.Workers = append(twice.Workers, cluster.Worker{URL: "HTTP://A:1/"})
	both := healthy(nodeOf("n1", "a", "b"))
	tests := []struct {
		name   string
		views  []cluster.View // 5 s apart, the last for a minute
		health worker.GPUState
	}{
		{"another name", []cluster.View{up(healthy(nodeOf("n2", "a", "b")))}, worker.GPUHealthy},
		{"another name after a while", []cluster.View{up(), up(), up(healthy(nodeOf("n0", "a", "b")))}, worker.GPUHealthy},
		{"another name and back", []cluster.View{up(healthy(nodeOf("n2", "a", "b"))), up(), up(both)}, worker.GPUHealthy},
		{"both names for a moment", []cluster.View{up(both, healthy(nodeOf("n2", "a", "b"))), up(healthy(nodeOf("n2", "a", "b")))}, worker.GPUHealthy},
		{"shrinks for a moment", []cluster.View{up(healthy(nodeOf("n1", "b"))), up(both)}, worker.GPUHealthy},
		{"empties for a moment", []cluster.View{up(nodeOf("n1")), up(both)}, worker.GPUHealthy},
		{"moves to another node's record", []cluster.View{up(healthy(nodeOf("n1", "b")), healthy(nodeOf("n2", "a")))}, worker.GPUHealthy},
		{"moves by way of both", []cluster.View{up(both, healthy(nodeOf("n2", "a"))), up(healthy(nodeOf("n1", "b")), healthy(nodeOf("n2", "a")))}, worker.GPUHealthy},
		{"NATS goes away, and returns without it", []cluster.View{{Nodes: []cluster.Node{both}}, up(), up(both)}, worker.GPUHealthy},
		{"the other spelling", []cluster.View{up(healthy(cluster.Node{Name: "n1", Workers: []cluster.Worker{{URL: "HTTP://A:1/"}, {URL: "b:1"}}}))}, worker.GPUHealthy},
		{"two spellings in one record", []cluster.View{up(healthy(twice), healthy(nodeOf("n2", "b")))}, worker.GPUHealthy},
		{"two nodes for good", []cluster.View{up(both, nodeOf("n2", "a"))}, worker.GPUHealthy},
		{"leaves", []cluster.View{up(healthy(nodeOf("n1", "b")))}, worker.GPUUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inHarness(t, func(y *harness) {
				y.run("m", "a", "b")
				c := &fakeCluster{}
				c.show(up(both))
				y.manager.SetSources([]discover.Source{NewClusterSource(c, y.registry.Get, slog.New(slog.DiscardHandler))})
				y.pass(2 * time.Second)
				before := y.worker("a")
				for _, v := range tt.views {
					c.show(v)
					y.pass(5 * time.Second)
				}
				y.pass(time.Minute)
				if tt.name == "leaves" {
					y.has(map[string]string{"b": ready}, "a living node does not name it")
					return
				}
				y.has(map[string]string{"a": ready, "b": ready}, "some node names both")
				require.Same(t, before, y.worker("a"))
				require.Equal(t, tt.health, before.Health(time.Now()).State)
			})
		})
	}
}

// TestCordonOfAFlappingNode: a worker in use serves on, although its node leaves it out for a moment.
func TestCordonOfAFlappingNode(t *testing.T) {
	inHarness(t, func(y *harness) {
		y.run("m", "a", "b", "c")
		c := &fakeCluster{}
		y.manager.SetSources([]discover.Source{NewClusterSource(c, y.registry.Get, slog.New(slog.DiscardHandler))})
		c.show(up(nodeOf("n", "a", "b")))
		y.pass(2 * time.Second)
		cordon := cluster.Mark{Target: "n", Cordon: true, At: time.Now()}
		for _, hosts := range [][]string{{"b"}, {"a", "b", "c"}} {
			c.show(marked(up(nodeOf("n", hosts...)), cordon))
			y.pass(2 * time.Second)
		}
		y.pass(time.Minute)
		y.has(map[string]string{"a": ready, "b": ready}, "c is new")
	})
}

// TestNodesOfALaterRelease: in a rolling upgrade the workers of a node whose record only a later release
// reads stay, as they were, while it lives.
func TestNodesOfALaterRelease(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		c := &fakeCluster{view: &cluster.View{}}
		watchCluster(t, c, func(_ *ClusterSource, last func() (map[string]bool, int)) {
			c.show(up(nodeOf("old", "a"), nodeOf("upgraded", "b")))
			both := map[string]bool{"a": false, "b": false}
			drains, _ := last()
			require.Equal(t, both, drains)
			c.show(up(nodeOf("old", "a"))) // it restarts
			time.Sleep(20 * time.Second)
			v := up(nodeOf("old", "a"))
			v.Newer = []string{"strange", "upgraded"}
			c.show(v)
			time.Sleep(time.Hour)
			drains, _ = last()
			require.Equal(t, both, drains)
			c.show(up(nodeOf("old", "a")))
			time.Sleep(lostNodeGrace - 2*time.Second)
			drains, _ = last()
			require.Equal(t, both, drains)
			time.Sleep(4 * time.Second)
			drains, _ = last()
			require.Equal(t, map[string]bool{"a": false}, drains, "it is gone")
		})
	})
}
