package cluster_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// down waits until a cluster notices that NATS is away.
func down(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	testkit.AwaitThat(t, func() bool { return !c.View().Up }, func() any { return "still up" })
}

func TestOpenWithoutNATSHeals(t *testing.T) {
	s := natstest.Prepare(t)
	a := open(t, cluster.Config{URLs: []string{s.URL()}})
	b := open(t, cluster.Config{URLs: []string{s.URL()}})
	require.NoError(t, a.AnnounceNode(node("a")))
	stop, err := b.Subscribe("x", func([]byte) {})
	require.NoError(t, err)
	defer stop()
	assert.Equal(t, []string(nil), names(a.View()))
	assert.False(t, a.View().Up)
	require.ErrorIs(t, a.Publish("x", nil), cluster.ErrDown)
	require.ErrorIs(t, setMark(t.Context(), a, cluster.Mark{Target: "a", Drain: true}), cluster.ErrDown)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, a.WaitUp(ctx), cluster.ErrDown)
	assert.NotEmpty(t, a.Status().Reason)
	s.Run()
	sees(t, a, "a")
	sees(t, b, "a")
}

// TestCallsFindTheOutage: a call that finds NATS away before anybody else says so as those behind it.
func TestCallsFindTheOutage(t *testing.T) {
	s := natstest.Start(t)
	c := join(t, s.URL())
	s.Kill()
	down(t, c)
	for what, call := range map[string]func() error{
		"mark":    func() error { return setMark(t.Context(), c, cluster.Mark{Target: "a", Drain: true}) },
		"unmark":  func() error { return setMark(t.Context(), c, cluster.Mark{Target: "a"}) },
		"publish": func() error { return c.Publish("x", nil) },
		"request": func() error { _, err := c.Request(t.Context(), "x", nil); return err },
	} {
		c.Hear()
		require.ErrorIs(t, call(), cluster.ErrDown, what)
	}
}

// TestNATSKilled kills NATS, with and without its store: known members stay, and dead ones go
// after it is back.
func TestNATSKilled(t *testing.T) {
	t.Parallel() // it waits most of its time
	for name, lose := range map[string]bool{"with its store": false, "without its store": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := natstest.Start(t)
			a, b, c := join(t, s.URL()), join(t, s.URL()), join(t, s.URL())
			require.NoError(t, a.AnnounceNode(node("a")))
			require.NoError(t, b.AnnounceNode(node("b")))
			mark := cluster.Mark{Target: "a", Drain: true, At: time.Unix(1, 0).UTC()}
			require.NoError(t, setMark(t.Context(), c, mark))
			sees(t, c, "a", "b")
			testkit.AwaitThat(t, func() bool { return len(c.View().Marks) == 1 }, func() any { return c.View() })
			s.Kill()
			if lose {
				s.Lose()
			}
			down(t, c)
			require.NoError(t, b.Close()) // while it reaches no other
			time.Sleep(2 * cluster.Lease) // longer than any lease: the clock stands still
			assert.Equal(t, []string{"a", "b"}, names(c.View()))
			s.Run()
			sees(t, c, "a")
			shows(t, c, func(v *cluster.View) bool { return assert.ObjectsAreEqual([]cluster.Mark{mark}, v.Marks) })
			late := join(t, s.URL())
			sees(t, late, "a")
			testkit.AwaitThat(t, func() bool { return len(late.View().Marks) == 1 }, func() any { return late.View() })
			require.NoError(t, setMark(t.Context(), c, cluster.Mark{Target: "a"}))
			testkit.AwaitThat(t, func() bool { return len(late.View().Marks) == 0 }, func() any { return late.View() })
		})
	}
}

// TestNATSStopped freezes NATS: connections stay, nothing is said.
func TestNATSStopped(t *testing.T) {
	t.Parallel() // it waits most of its time
	s := natstest.Start(t)
	a, c := join(t, s.URL()), join(t, s.URL())
	require.NoError(t, a.AnnounceNode(node("a")))
	sees(t, c, "a")
	s.Stop()
	down(t, c)
	time.Sleep(2 * cluster.Lease)
	assert.Equal(t, []string{"a"}, names(c.View()))
	require.Error(t, c.Publish("x", nil), "nobody waits for a server that hangs")
	s.Continue()
	sees(t, c, "a")
}

// TestBucketDeleted has an operator delete the buckets under the feet of all.
func TestBucketDeleted(t *testing.T) {
	t.Parallel() // it waits most of its time
	s := natstest.Start(t)
	a, c := join(t, s.URL()), join(t, s.URL())
	require.NoError(t, a.AnnounceNode(node("a")))
	sees(t, c, "a")
	js := jet(t, s)
	require.NoError(t, js.DeleteKeyValue(t.Context(), "warmpath-records"))
	n := node("a")
	n.Version = "second"
	require.NoError(t, a.AnnounceNode(n))
	testkit.AwaitThat(t, func() bool { return len(c.View().Nodes) == 1 && c.View().Nodes[0].Version == "second" }, func() any { return []any{c.View(), c.Status(), a.Status()} })
	sees(t, join(t, s.URL()), "a")
	kv, err := js.KeyValue(t.Context(), "warmpath-records")
	require.NoError(t, err)
	require.NoError(t, kv.Delete(t.Context(), "node.a"))
	sees(t, join(t, s.URL()), "a") // its owner does not take that for a withdrawal
}

// jet talks to NATS as an operator's tools would.
func jet(t *testing.T, s *natstest.Server) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(s.URL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return js
}

// TestStrangeRecordsHarmNobody puts records that no process of this version writes beside good
// ones.
func TestStrangeRecordsHarmNobody(t *testing.T) {
	s := natstest.Start(t)
	a, c := join(t, s.URL()), join(t, s.URL())
	require.NoError(t, a.AnnounceNode(node("a")))
	js := jet(t, s)
	kv, err := js.KeyValue(t.Context(), "warmpath-records")
	require.NoError(t, err)
	marks, err := js.KeyValue(t.Context(), "warmpath-marks")
	require.NoError(t, err)
	for key, value := range map[string]string{
		"node.x": `{"v":2,"instance":"i","seq":1,"future":true}`, "node.y": `{`, "node.z": `{"v":1,"instance":"i","seq":1,"node":{"name":"a"}}`,
		"strange": `{}`, "node.==": `{}`, "replica.r": `{"v":1,"instance":"i","seq":1,"node":{"name":"r"}}`, "node.n": `null`,
	} {
		_, err := kv.Put(t.Context(), key, []byte(value))
		require.NoError(t, err)
		_, err = marks.Put(t.Context(), key, []byte(value))
		require.NoError(t, err)
	}
	require.NoError(t, js.Conn().Publish("warmpath.cluster.beat.node.x", []byte("nonsense")))
	for _, late := range []*cluster.Cluster{c, join(t, s.URL())} {
		testkit.AwaitThat(t, func() bool { return late.Status().Skipped >= 14 }, func() any { return late.Status() })
		sees(t, late, "a")
		assert.Empty(t, late.View().Marks)
		assert.Empty(t, late.View().Routers)
	}
	// They still hear of changes.
	require.NoError(t, a.AnnounceNode(node("b")))
	sees(t, c, "a", "b")
}

// TestSecondOfAName has two processes of one name: the last one has it, and gives it back when
// it goes.
func TestSecondOfAName(t *testing.T) {
	s := natstest.Start(t)
	a, b, c := join(t, s.URL()), join(t, s.URL()), join(t, s.URL())
	has := func(who *cluster.Cluster) {
		t.Helper()
		testkit.AwaitThat(t, func() bool { v := c.View(); return len(v.Nodes) == 1 && v.Nodes[0].Instance == who.Instance() }, func() any { return c.View().Nodes })
	}
	require.NoError(t, a.AnnounceNode(node("n")))
	has(a)
	require.NoError(t, b.AnnounceNode(node("n")))
	has(b)
	testkit.AwaitThat(t, func() bool { return a.Status().Conflicts > 0 }, func() any { return a.Status() })
	require.NoError(t, b.Close())
	has(a)
}

// member is the environment variable with the NATS URL that makes this test binary a member
// instead of a test.
const member = "WARMPATH_TEST_MEMBER"

// TestMember is no test: it is the process of a node called "other" that others kill.
func TestMember(t *testing.T) {
	url := os.Getenv(member)
	if url == "" {
		t.Skip("run by other tests, in a process of its own")
	}
	c := open(t, cluster.Config{URLs: []string{url}})
	require.NoError(t, c.AnnounceNode(node("other")))
	sees(t, c, "other")
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// startMember runs TestMember in a process of its own.
func startMember(t *testing.T, url string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestMember$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), member+"="+url)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = in.Close()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
	}
	require.Equal(t, "ready", lines.Text())
	return cmd
}

// TestProcessKilled measures how fast a killed process is out of the view. The bound is
// asserted on the leases' own clock in TestLeaseOnTheClock; here it is printed, as a busy
// machine may be late.
func TestProcessKilled(t *testing.T) {
	t.Parallel() // it waits most of its time
	s := natstest.Start(t)
	c := join(t, s.URL())
	cmd := startMember(t, s.URL())
	sees(t, c, "other")
	require.NoError(t, cmd.Process.Kill())
	begin := time.Now()
	sees(t, c)
	t.Logf("out of the view %v after kill -9", time.Since(begin).Round(time.Millisecond))

	cmd = startMember(t, s.URL())
	sees(t, c, "other")
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	begin = time.Now()
	sees(t, c)
	t.Logf("out of the view %v after SIGSTOP", time.Since(begin).Round(time.Millisecond))
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	sees(t, c, "other")
}

// TestWeWereStopped checks that a process that stood still does not believe all others dead.
func TestWeWereStopped(t *testing.T) {
	t.Parallel() // it waits most of its time
	s := natstest.Start(t)
	a := join(t, s.URL())
	require.NoError(t, a.AnnounceNode(node("a")))
	proxy := newProxy(t, s.URL())
	c := open(t, cluster.Config{URLs: []string{proxy.url}})
	sees(t, c, "a")
	var mu sync.Mutex
	lost := 0
	defer c.Watch(func(v *cluster.View) {
		mu.Lock()
		defer mu.Unlock()
		if len(v.Nodes) == 0 {
			lost++
		}
	})()
	proxy.pause(true) // bytes lie in the sockets, as while a process is stopped
	time.Sleep(2 * cluster.Lease)
	proxy.pause(false)
	sees(t, c, "a")
	mu.Lock()
	defer mu.Unlock()
	assert.Zero(t, lost, "views without the node")
}

// proxy is a connection that can stand still.
type proxy struct {
	url  string
	mu   sync.RWMutex // held for writing while paused
	held bool
}

func newProxy(t *testing.T, url string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{url: "nats://" + l.Addr().String()}
	var running sync.WaitGroup
	done := make(chan struct{})
	copyTo := func(to, from net.Conn) {
		defer to.Close()
		b := make([]byte, 1<<16)
		for {
			n, err := from.Read(b)
			p.mu.RLock()
			_, werr := to.Write(b[:n])
			p.mu.RUnlock()
			if err = errors.Join(err, werr); err != nil {
				return
			}
		}
	}
	running.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", url[len("nats://"):])
			if err != nil {
				in.Close()
				continue
			}
			running.Go(func() { copyTo(in, out) })
			running.Go(func() { copyTo(out, in) })
			running.Go(func() { <-done; in.Close(); out.Close() })
		}
	})
	t.Cleanup(func() { p.pause(false); l.Close(); close(done); running.Wait() })
	return p
}

func (p *proxy) pause(on bool) {
	if on == p.held {
		return
	}
	if p.held = on; on {
		p.mu.Lock()
	} else {
		p.mu.Unlock()
	}
}

func TestViewIsJSON(t *testing.T) {
	v := &cluster.View{Nodes: []cluster.Node{node("a")}, Up: true}
	data, err := json.Marshal(v)
	require.NoError(t, err)
	back := &cluster.View{}
	require.NoError(t, json.Unmarshal(data, back))
	assert.Equal(t, v, back)
}
