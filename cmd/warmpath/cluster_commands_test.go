package main

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

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
	clients := &traffic{addr: s.fronts[0]}
	stop := clients.start(3, 50)
	t.Cleanup(stop)
	clients.more(t, 10)
	text, err := operate(t, "nodes", "--cluster", url)
	require.NoError(t, err)
	for _, word := range []string{"node-0", "node-1", "NVLINK", "ROUTER", s.fronts[0], s.fronts[1]} {
		assert.Contains(t, text, word)
	}
	text, err = operate(t, "workers", "--cluster", url)
	require.NoError(t, err)
	for _, w := range s.workers {
		assert.Contains(t, text, w)
	}
	assert.Equal(t, 4, strings.Count(text, "unknown"), "health of workers without GPUs in %s", text)
	assert.NotContains(t, text, "healthy")
	text = fetch(http.MethodGet, "http://"+s.fronts[0]+"/status", "")
	assert.Equal(t, 4, strings.Count(text, `"gpus":{"state":"unknown","weight":1`), text)
	text, err = operate(t, "nodes", "--cluster", url, "--json")
	require.NoError(t, err)
	assert.Contains(t, text, `"name": "node-1"`)

	_, err = operate(t, "drain", "node-9", "--cluster", url)
	require.ErrorContains(t, err, "cannot find node-9; known are\n  node-0\n  http://")
	text, err = operate(t, "drain", "node-0", "--cluster", url, "--wait", "--timeout", patience.String())
	require.NoError(t, err)
	assert.Equal(t, "node-0 is draining\nnode-0 has nothing in flight\n", text)
	for _, front := range s.fronts {
		awaitReady(t, front, 2)
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
		awaitReady(t, front, 2)
	}
	text, err = operate(t, "cordon", "node-1", "--router", s.fronts[0])
	require.NoError(t, err)
	assert.Equal(t, "node-1 is cordoned\n", text)
	testkit.AwaitThat(t, func() bool {
		text = fetch(http.MethodGet, "http://"+s.fronts[1]+"/status", "")
		return strings.Count(text, `"node":"node-1"`) == 2 && strings.Count(text, `"cordoned":true`) == 2 &&
			strings.Contains(text, `"marks":[{"target":"node-1","drain":true,"cordon":true,"by":"operator API"`) // read before the workers
	}, func() string { return text })
	for _, act := range []string{"undrain", "uncordon"} {
		_, err = operate(t, act, "node-1", "--router", s.fronts[1])
		require.NoError(t, err)
	}
	awaitReady(t, s.fronts[0], 4)
	worker := s.workers[3]
	_, err = operate(t, "drain", worker+"/", "--cluster", url)
	require.NoError(t, err)
	for _, front := range s.fronts {
		awaitReady(t, front, 3)
	}
	_, err = operate(t, "undrain", worker, "--cluster", url)
	require.NoError(t, err)
	awaitReady(t, s.fronts[0], 4)
	stop()
	assert.Zero(t, clients.failures(), "%s: a drain ends no answer and refuses no request", clients.first)
}

func TestClusterCommandsSayWhatIsWrong(t *testing.T) {
	t.Parallel() // it waits for a NATS that is not there
	_, err := command(t, "nodes", "--cluster", "127.0.0.1:4222")
	require.ErrorIs(t, err, cluster.ErrConfig)
	_, err = command(t, "drain", "--cluster", "nats://127.0.0.1:1")
	require.ErrorContains(t, err, "name a node or a worker's URL")
	_, err = command(t, "serve", "--cluster", "nats://127.0.0.1:1", "--cluster-listen", "127.0.0.1:0")
	require.ErrorIs(t, err, cluster.ErrConfig)
	_, err = command(t, "workers", "--cluster", "nats://"+freePorts(t, 1)[0])
	require.ErrorIs(t, err, cluster.ErrDown)
	require.ErrorContains(t, err, "is NATS running there")
}
