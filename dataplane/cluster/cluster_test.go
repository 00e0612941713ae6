package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/leaktest"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

func TestMain(m *testing.M) {
	leaktest.Folder() // of programs and stores
	leaktest.Main(m)
}

// patience is how long a test waits for an expected event on a slow machine.
const patience = 2 * time.Minute

var quiet = slog.New(slog.DiscardHandler)

// open opens a cluster until the test ends.
func open(t *testing.T, cfg cluster.Config) *cluster.Cluster {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = quiet
	}
	c, err := cluster.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// join opens a cluster at a NATS and waits until its view is whole.
func join(t *testing.T, url string) *cluster.Cluster {
	t.Helper()
	c := open(t, cluster.Config{URLs: []string{url}})
	up(t, c)
	return c
}

func up(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, c.WaitUp(ctx))
}

func node(name string) cluster.Node {
	return cluster.Node{
		Name: name, Version: "test", Started: time.Unix(1_700_000_000, 0).UTC(),
		Workers: []cluster.Worker{
			{URL: "http://" + name + ":30000", Role: "regular", Model: "m", TP: 1, GPUs: []string{"GPU-1"}, Health: cluster.Health{State: "healthy", Weight: 1, Free: 1 << 30}},
			{URL: "http://" + name + ":30001", Role: "regular", Model: "m"},
		},
		GPUs: []cluster.GPU{{UUID: "GPU-1", Name: "H200", Used: 3 << 30, Total: 141 << 30, Links: 18, LinksUp: 18}},
		Tier: &cluster.Tier{Bytes: 8 << 30, Used: 1 << 20, Pages: 7},
	}
}

func names(v *cluster.View) (list []string) {
	for i := range v.Nodes {
		list = append(list, v.Nodes[i].Name)
	}
	return list
}

func sees(t *testing.T, c *cluster.Cluster, want ...string) {
	t.Helper()
	testkit.AwaitThat(t, func() bool { return fmt.Sprint(names(c.View())) == fmt.Sprint(want) && c.View().Up },
		func() any { return []any{names(c.View()), "want", want, c.Status()} })
}

// shows waits until the view is as wanted.
func shows(t *testing.T, c *cluster.Cluster, ok func(v *cluster.View) bool) {
	t.Helper()
	testkit.AwaitThat(t, func() bool { return ok(c.View()) }, func() any { return []any{c.View(), c.Status()} })
}

func TestNodesAndRoutersSeeEachOther(t *testing.T) {
	a := open(t, cluster.Config{})
	b := join(t, a.URL())
	require.NoError(t, a.AnnounceNode(node("a")))
	require.NoError(t, b.AnnounceNode(node("b.example")))
	require.NoError(t, b.AnnounceRouter(cluster.Router{ID: "r1", Addr: "127.0.0.1:8000", Version: "test"}))
	for _, c := range []*cluster.Cluster{a, b, join(t, a.URL())} {
		sees(t, c, "a", "b.example")
		want := node("a")
		want.Instance = a.Instance()
		shows(t, c, func(v *cluster.View) bool {
			return len(v.Nodes) == 2 && len(v.Routers) == 1 && assert.ObjectsAreEqual(want, v.Nodes[0]) && v.Routers[0].Addr == "127.0.0.1:8000"
		})
	}
	require.NoError(t, b.Close())
	sees(t, a, "a")
	testkit.AwaitThat(t, func() bool { return len(a.View().Routers) == 0 }, func() any { return a.View() })
}

func TestNumbersTravelWithoutWrites(t *testing.T) {
	a := open(t, cluster.Config{})
	b := join(t, a.URL())
	n := node("a")
	require.NoError(t, a.AnnounceNode(n))
	sees(t, b, "a")
	writes := a.Status().Writes
	n.Instance = a.Instance()
	now := func(v *cluster.View) bool { return len(v.Nodes) == 1 && assert.ObjectsAreEqual(n, v.Nodes[0]) }
	const changes = 4
	for i := range changes {
		n.GPUs[0].Used, n.Workers[0].Health.Free, n.Workers[0].Health.Weight, n.Tier.Pages = uint64(5+i)<<30, 2<<30, 0.25, int64(90+i)
		require.NoError(t, a.AnnounceNode(n))
		shows(t, b, now)
	}
	shows(t, join(t, a.URL()), now)
	assert.Less(t, a.Status().Writes-writes, uint64(changes), "but for one that somebody asked for")
	n.Workers[0].Health.State = "degraded"
	require.NoError(t, a.AnnounceNode(n))
	shows(t, b, now)
}

// setMark replaces the mark of a target; one of nothing removes it.
func setMark(ctx context.Context, c *cluster.Cluster, m cluster.Mark) error {
	return c.ChangeMark(ctx, m.Target, func(now *cluster.Mark) { *now = m })
}

func TestMarksHold(t *testing.T) {
	a := open(t, cluster.Config{})
	up(t, a)
	b := join(t, a.URL())
	m := cluster.Mark{Target: "http://n:30000", Drain: true, By: "me", At: time.Unix(1_700_000_000, 0).UTC()}
	require.NoError(t, setMark(t.Context(), a, m))
	testkit.AwaitThat(t, func() bool { return len(b.View().Marks) == 1 }, func() any { return b.View() })
	assert.Equal(t, m, b.View().Marks[0])
	drain, cordon := b.View().Marked("n", "http://n:30000")
	assert.True(t, drain)
	assert.False(t, cordon)
	shows(t, join(t, a.URL()), func(v *cluster.View) bool { return assert.ObjectsAreEqual([]cluster.Mark{m}, v.Marks) })
	require.NoError(t, setMark(t.Context(), b, cluster.Mark{Target: m.Target}))
	require.NoError(t, setMark(t.Context(), b, cluster.Mark{Target: "never marked"}))
	testkit.AwaitThat(t, func() bool { return len(a.View().Marks) == 0 }, func() any { return a.View() })
}

// TestMarksChangedAtOnce: operators who drain and cordon one target at the same instant undo nothing of
// each other's.
func TestMarksChangedAtOnce(t *testing.T) {
	full := open(t, cluster.Config{Listen: "127.0.0.1:0", Token: secret})
	up(t, full)
	full2, operator, router := open(t, cluster.Config{URLs: []string{full.URL()}, Token: secret}),
		holder(t, full.URL(), cluster.RoleOperator, "ann"), holder(t, full.URL(), cluster.RoleRouter, "front")
	everybody := []*cluster.Cluster{full, full2, operator, router}
	for _, c := range everybody {
		up(t, c)
	}
	for i := range 20 {
		on, drains, cordons := i%3 != 2, everybody[i%4], everybody[(i/4+i%4)%4]
		done := make(chan error, 2)
		go func() {
			done <- drains.ChangeMark(t.Context(), "n", func(m *cluster.Mark) { m.Drain = on })
		}()
		go func() {
			done <- cordons.ChangeMark(t.Context(), "n", func(m *cluster.Mark) { m.Cordon = !m.Cordon })
		}()
		require.NoError(t, errors.Join(<-done, <-done))
		for _, c := range everybody {
			shows(t, c, func(v *cluster.View) bool {
				drain, cordon := v.Marked("n", "")
				return drain == on && cordon == (i%2 == 0)
			})
		}
	}
}

// TestMarksOverWhatElseIsThere: a mark that cannot be read is replaced, and one goes where the note of a
// deleted one was purged.
func TestMarksOverWhatElseIsThere(t *testing.T) {
	s := natstest.Start(t)
	a, b := join(t, s.URL()), join(t, s.URL())
	kv, err := jet(t, s).KeyValue(t.Context(), "warmpath-marks")
	require.NoError(t, err)
	_, err = kv.PutString(t.Context(), "n", "junk")
	require.NoError(t, err)
	testkit.AwaitThat(t, func() bool { return b.Status().Skipped > 0 }, func() any { return b.Status() })
	for range 2 {
		require.NoError(t, setMark(t.Context(), b, cluster.Mark{Target: "n", Drain: true}))
		shows(t, a, func(v *cluster.View) bool { return len(v.Marks) == 1 })
		require.NoError(t, setMark(t.Context(), a, cluster.Mark{Target: "n"}))
		for _, c := range []*cluster.Cluster{a, b} {
			shows(t, c, func(v *cluster.View) bool { return len(v.Marks) == 0 })
		}
		require.NoError(t, kv.PurgeDeletes(t.Context(), jetstream.DeleteMarkersOlderThan(-1)))
	}
}

func TestMessages(t *testing.T) {
	a := open(t, cluster.Config{})
	up(t, a)
	b := join(t, a.URL())
	other := open(t, cluster.Config{URLs: []string{a.URL()}, Prefix: "other"})
	up(t, other)
	var mu sync.Mutex
	var got []string
	stop, err := b.Subscribe("load.*", func(data []byte) { mu.Lock(); got = append(got, string(data)); mu.Unlock() })
	require.NoError(t, err)
	defer stop()
	_, err = other.Subscribe("load.*", func([]byte) { t.Error("heard another cluster") })
	require.NoError(t, err)
	testkit.AwaitThat(t, func() bool {
		require.NoError(t, a.Publish("load.1", []byte("x")))
		mu.Lock()
		defer mu.Unlock()
		return len(got) > 0
	}, func() any { return "nothing heard" })

	end, err := b.Reply("echo", func(data []byte) []byte { return append([]byte("re: "), data...) })
	require.NoError(t, err)
	testkit.AwaitThat(t, func() bool {
		answer, err := a.Request(t.Context(), "echo", []byte("hi"))
		return err == nil && string(answer) == "re: hi"
	}, func() any { return "no answer" })
	end()
	testkit.AwaitThat(t, func() bool {
		_, err := a.Request(t.Context(), "echo", nil)
		return errors.Is(err, cluster.ErrNoReply)
	}, func() any { return "still answered" })
	for _, subject := range []string{"", "a..b", "a b", "cluster.beat", "a.*", ">"} {
		require.ErrorIs(t, a.Publish(subject, nil), cluster.ErrConfig, subject)
	}
}

func TestWatch(t *testing.T) {
	a := open(t, cluster.Config{})
	views := make(chan *cluster.View, 100)
	stop := a.Watch(func(v *cluster.View) { views <- v })
	<-views // the present one
	require.NoError(t, a.AnnounceNode(node("a")))
	for v := range views {
		if len(v.Nodes) == 1 && v.Up {
			break
		}
	}
	stop()
	stop()
}
