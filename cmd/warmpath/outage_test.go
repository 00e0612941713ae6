package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// outage is one thing that is done to a site under load, and what has healed when it is over.
type outage struct {
	name string
	// harm does it and returns what to print of how long the parts took, beginning with the harm. heal undoes it.
	harm, heal func(s *site) []timing
	mayCut     bool // answers that had begun may end
}

type timing struct {
	what string
	took time.Duration
}

// outages are those that the cluster must survive.
func outages() []outage {
	return []outage{
		{"router killed", func(s *site) []timing {
			s.routers[0].kill()
			return []timing{{"out of the view", s.awaitView(3, 1)}}
		}, func(s *site) []timing {
			s.routers[0].start()
			return []timing{{"restarted, has all 6 workers", s.awaitReady(s.fronts[0], 6)}, {"in the view", s.awaitView(3, 2)}}
		}, true},
		{"sidecar killed", func(s *site) []timing {
			s.nodes[1].kill()
			return []timing{{"out of the view", s.awaitView(2, 2)}, {"its workers still used", s.awaitReady(s.fronts[1], 6)}}
		}, func(s *site) []timing {
			s.nodes[1].start()
			return []timing{{"restarted, in the view", s.awaitView(3, 2)}}
		}, false},
		{"worker killed", func(s *site) []timing {
			s.sims[2].kill()
			return []timing{{"out of the choice", s.awaitReady(s.fronts[0], 5)}, {"of the other router too", s.awaitReady(s.fronts[1], 5)}}
		}, func(s *site) []timing {
			s.sims[2].start()
			return []timing{{"restarted, in the choice", s.awaitReady(s.fronts[0], 6)}, {"of the other router too", s.awaitReady(s.fronts[1], 6)}}
		}, true},
		{"NATS killed", func(s *site) []timing {
			s.nats.Kill()
			return []timing{{"noticed", s.awaitDown()}, {"workers still used", s.awaitReady(s.fronts[0], 6)}}
		}, func(s *site) []timing {
			s.nats.Run()
			return []timing{{"restarted, view whole", s.awaitView(3, 2)}}
		}, false},
		{"NATS killed, its store lost", func(s *site) []timing {
			s.nats.Kill()
			s.nats.Lose()
			return []timing{{"noticed", s.awaitDown()}}
		}, func(s *site) []timing {
			s.nats.Run()
			return []timing{{"restarted, view whole", s.awaitView(3, 2)}}
		}, false},
		{"NATS stopped", func(s *site) []timing {
			s.nats.Stop()
			return []timing{{"noticed", s.awaitDown()}}
		}, func(s *site) []timing {
			s.nats.Continue()
			return []timing{{"goes on, view whole", s.awaitView(3, 2)}}
		}, false},
		{"NATS killed, then a worker and a router", func(s *site) []timing {
			s.nats.Kill()
			down := s.awaitDown()
			s.sims[5].kill()
			s.routers[1].kill()
			return []timing{{"noticed", down}, {"worker out of the choice", s.awaitReady(s.fronts[0], 5)}}
		}, func(s *site) []timing {
			s.nats.Run()
			s.sims[5].start()
			s.routers[1].start()
			return []timing{{"all restarted, view whole", s.awaitView(3, 2)}, {"all workers used", s.awaitReady(s.fronts[1], 6)}}
		}, true},
	}
}

func (s *site) awaitDown() time.Duration {
	s.t.Helper()
	begin := time.Now()
	testkit.AwaitThat(s.t, func() bool { return !s.seen.View().Up }, func() string { return "still up" })
	return time.Since(begin)
}

// TestOutages kills each part of a cluster in turn, under load. No request that had not begun may fail. WARMPATH_OUTAGE_ROUNDS
// repeats it, WARMPATH_RESULTS names a folder for the table.
func TestOutages(t *testing.T) {
	t.Parallel() // it waits most of its time
	s := startSite(t)
	c, stop := startCrowd(t, s.fronts, 6)
	c.awaitAnswers(t, outageAnswers)
	var table bytes.Buffer
	fmt.Fprintf(&table, "%-42s %9s %7s %7s %5s %9s   %s\n", "outage", "answered", "failed", "retried", "cut", "slowest", "healed after")
	for round := range envInt(t, "WARMPATH_OUTAGE_ROUNDS", 1) {
		for _, o := range outages() {
			before := c.now()
			c.slowest.Store(0)
			times := o.harm(s)
			c.awaitAnswers(t, outageAnswers)
			times = append(times, o.heal(s)...)
			c.awaitAnswers(t, outageAnswers)
			after := c.now()
			cut := after.cut - before.cut
			fmt.Fprintf(&table, "%-42s %9d %7d %7d %5d %7.2f s   %s\n", o.name, after.answered-before.answered, after.failed-before.failed,
				after.moved-before.moved, cut, time.Duration(c.slowest.Load()).Seconds(), inWords(times))
			assert.Zero(t, after.failed-before.failed, "%s, round %d: requests that nobody answered", o.name, round)
			if !o.mayCut {
				assert.Zero(t, cut, "%s, round %d: answers that ended early", o.name, round)
			}
		}
	}
	stop()
	if len(c.failures) > 0 {
		assert.Fail(t, "a request that nobody answered", "%d of them; the first: %.1000s", len(c.failures), c.failures[0])
	}
	t.Logf("\n%s", table.String())
	if dir := os.Getenv("WARMPATH_RESULTS"); dir != "" {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "table.txt"), table.Bytes(), 0o600))
	}
}

func inWords(times []timing) string {
	parts := make([]string, len(times))
	for i, x := range times {
		parts[i] = fmt.Sprintf("%s %.2f s", x.what, x.took.Seconds())
	}
	return strings.Join(parts, "; ")
}

// operate is command, again while it has not reached the cluster: it gives up after 5 s, and this machine may be busy for longer.
func operate(t *testing.T, args ...string) (string, error) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		text, err := command(t, args...)
		if !errors.Is(err, cluster.ErrDown) || time.Now().After(end) {
			return text, err
		}
	}
}

// command runs a `warmpath` command in this process.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// TestClusterCommands uses a cluster of processes as its operator would.
func TestClusterCommands(t *testing.T) {
	t.Parallel() // it waits most of its time
	s := startSite(t)
	url := s.nats.URL()
	c, stop := startCrowd(t, s.fronts, 3)
	c.awaitAnswers(t, 10)
	text, err := operate(t, "nodes", "--cluster", url)
	require.NoError(t, err)
	for _, word := range []string{"node-0", "node-1", "node-2", "NVLINK", "ROUTER", s.fronts[0], s.fronts[1]} {
		assert.Contains(t, text, word)
	}
	text, err = operate(t, "workers", "--cluster", url)
	require.NoError(t, err)
	for _, addr := range s.workers {
		assert.Contains(t, text, "http://"+addr)
	}
	assert.Equal(t, 6, strings.Count(text, "unknown"), "health of workers without GPUs in %s", text)
	assert.NotContains(t, text, "healthy")
	text = fetch(http.MethodGet, "http://"+s.fronts[0]+"/status", "")
	assert.Equal(t, 6, strings.Count(text, `"gpus":{"state":"unknown","weight":1`), text)
	text, err = operate(t, "nodes", "--cluster", url, "--json")
	require.NoError(t, err)
	assert.Contains(t, text, `"name": "node-2"`)

	_, err = operate(t, "drain", "node-9", "--cluster", url)
	require.ErrorContains(t, err, "cannot find node-9; known are\n  node-0\n  http://")
	text, err = operate(t, "drain", "node-0", "--cluster", url, "--wait", "--timeout", patience.String())
	require.NoError(t, err)
	assert.Equal(t, "node-0 is draining\nnode-0 has nothing in flight\n", text)
	for _, front := range s.fronts {
		s.awaitReady(front, 4)
	}
	text, err = operate(t, "workers", "--cluster", url)
	require.NoError(t, err)
	assert.Equal(t, 2, strings.Count(text, "draining"))
	text, err = operate(t, "cordon", "node-0", "--cluster", url)
	require.NoError(t, err)
	assert.Equal(t, "node-0 is draining, cordoned\n", text)
	_, err = operate(t, "uncordon", "node-0", "--cluster", url)
	require.NoError(t, err)
	text, err = operate(t, "undrain", "node-0", "--cluster", url)
	require.NoError(t, err)
	assert.Equal(t, "node-0 is up\n", text)

	// A router that is asked does the same, for a node too.
	_, err = operate(t, "cordon", "node-9", "--router", s.fronts[1])
	require.ErrorContains(t, err, "cannot find node node-9: there is no such node in the cluster")
	text, err = operate(t, "drain", "node-1", "--router", s.fronts[1], "--wait", "--timeout", patience.String())
	require.NoError(t, err)
	assert.Equal(t, "node-1 is draining\nnode-1 has nothing in flight at this router; --cluster waits for all\n", text)
	for _, front := range s.fronts {
		s.awaitReady(front, 4)
	}
	text, err = operate(t, "cordon", "node-1", "--router", s.fronts[0])
	require.NoError(t, err)
	assert.Equal(t, "node-1 is cordoned\n", text)
	testkit.AwaitThat(t, func() bool {
		text = fetch(http.MethodGet, "http://"+s.fronts[1]+"/status", "")
		return strings.Count(text, `"node":"node-1"`) == 2 && strings.Count(text, `"cordoned":true`) == 2
	}, func() string { return text })
	assert.Contains(t, text, `"marks":[{"target":"node-1","drain":true,"cordon":true,"by":"operator API"`)
	for _, act := range []string{"undrain", "uncordon"} {
		_, err = operate(t, act, "node-1", "--router", s.fronts[1])
		require.NoError(t, err)
	}
	s.awaitReady(s.fronts[0], 6)
	worker := "http://" + s.workers[3]
	_, err = operate(t, "drain", worker+"/", "--cluster", url)
	require.NoError(t, err)
	for _, front := range s.fronts {
		s.awaitReady(front, 5)
	}
	_, err = operate(t, "undrain", worker, "--cluster", url)
	require.NoError(t, err)
	s.awaitReady(s.fronts[0], 6)
	stop()
	assert.Empty(t, c.failures)
	assert.Zero(t, c.cut.Load(), "a drain ends no answer")
}

func TestClusterCommandsSayWhatIsWrong(t *testing.T) {
	t.Parallel() // it waits for a NATS that is not there
	_, err := command(t, "nodes", "--cluster", "127.0.0.1:4222")
	require.ErrorIs(t, err, cluster.ErrConfig)
	_, err = command(t, "drain", "--cluster", "nats://127.0.0.1:1")
	require.ErrorContains(t, err, "name one, a node or a worker")
	_, err = command(t, "serve", "--cluster", "nats://127.0.0.1:1", "--cluster-listen", "127.0.0.1:0")
	require.ErrorIs(t, err, cluster.ErrConfig)
	_, err = command(t, "workers", "--cluster", "nats://"+freePorts(t, 1)[0])
	require.ErrorIs(t, err, cluster.ErrDown)
	require.ErrorContains(t, err, "is NATS running there")
}
