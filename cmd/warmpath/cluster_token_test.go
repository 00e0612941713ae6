package main

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/sidecar"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// member opens a cluster as a command with these options does, until the test ends.
func member(t *testing.T, o clusterOptions) *cluster.Cluster {
	t.Helper()
	c, err := o.open(t.Context(), "warmpath test", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func reaches(t *testing.T, ok func() bool, c *cluster.Cluster) {
	t.Helper()
	testkit.AwaitThat(t, ok, func() string { return c.Status().Reason })
}

// TestStrangersOnLoopback has a process of another user, which does not see this user's files, at a cluster that was given no token.
func TestStrangersOnLoopback(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	addr := natstest.Address(t)
	router := member(t, clusterOptions{listen: addr})
	url := "nats://" + addr
	_, err := nats.Connect(url)
	require.ErrorIs(t, err, nats.ErrAuthorization, "anybody may write every record")
	own := member(t, clusterOptions{urls: []string{url}})
	reaches(t, func() bool { return own.View().Up }, own)
	require.NoError(t, own.AnnounceNode(cluster.Node{Name: "a"}))
	reaches(t, func() bool { return len(router.View().Nodes) == 1 }, router)

	t.Setenv("XDG_STATE_HOME", t.TempDir())
	stranger := member(t, clusterOptions{urls: []string{url}})
	reaches(t, func() bool { return strings.Contains(stranger.Status().Reason, "--cluster-token") }, stranger)
	assert.False(t, stranger.View().Up)
	assert.Len(t, router.View().Nodes, 1)
}

// TestOwnNATSOnLoopback joins a NATS that asks nothing, with a file from another cluster.
func TestOwnNATSOnLoopback(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	path, err := tokenFile()
	require.NoError(t, err)
	_, err = makeToken(path)
	require.NoError(t, err)
	c := member(t, clusterOptions{urls: []string{natstest.Start(t).URL()}})
	reaches(t, func() bool { return c.View().Up }, c)
}

func TestTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "warmpath", "cluster-token")
	var all sync.Map
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			token, err := makeToken(path)
			assert.NoError(t, err)
			all.Store(token, true)
		})
	}
	group.Wait()
	token, err := readToken(path)
	require.NoError(t, err)
	all.Range(func(made, _ any) bool { assert.Equal(t, token, made); return true })
	assert.GreaterOrEqual(t, len(token), cluster.MinSecret)
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, left, 1)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())

	link, folder := filepath.Join(t.TempDir(), "link"), t.TempDir()
	require.NoError(t, os.Symlink(path, link))
	for name, change := range map[string]func() error{
		"others may read it": func() error { return os.Chmod(path, 0o640) }, "it is short": func() error { return errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, []byte("x\n"), 0o600)) },
		"it is empty": func() error { return os.WriteFile(path, nil, 0o600) },
	} {
		require.NoError(t, change(), name)
		_, err = makeToken(path)
		assert.ErrorIs(t, err, errTokenFile, name)
		assert.ErrorContains(t, err, path)
	}
	_, err = makeToken(link)
	assert.Error(t, err, "a link leads to anybody's file")
	_, err = makeToken(folder)
	assert.Error(t, err)
}

// TestTokenIsNotShown has another user listen where this user's cluster was.
func TestTokenIsNotShown(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	var log bytes.Buffer
	var asked []string
	by, fails := "", error(nil)
	of := tokenOf([]string{"nats://localhost"}, func(url string) (string, bool, error) {
		asked = append(asked, url)
		return by, by != "", fails
	}, slog.New(slog.NewTextHandler(&log, nil)))
	assert.Empty(t, of(), "there is none yet")
	path, err := tokenFile()
	require.NoError(t, err)
	token, err := makeToken(path)
	require.NoError(t, err)
	assert.Equal(t, token, of())
	assert.Equal(t, []string{"nats://localhost:4222"}, asked)
	by = "mallory"
	assert.Empty(t, of())
	assert.Contains(t, log.String(), "user mallory listens at nats://localhost")
	log.Reset()
	assert.Empty(t, of())
	assert.Empty(t, log.String(), "it is said once")
	by, fails = "", errors.New("no table")
	assert.Empty(t, of())
	assert.NotContains(t, log.String(), token)
	for url, loopback := range map[string]bool{
		"nats://127.0.0.1:4222": true, "nats://localhost": true, "tls://[::1]:4222": true, "nats://10.0.0.1:4222": false, "nats://token@127.0.0.1:4222": false, "nats://": false,
	} {
		assert.Equal(t, loopback, anonymousLoopback(url), url)
	}
}

// TestTokenCommand makes tokens, and has each command refuse those of other roles.
func TestTokenCommand(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("WARMPATH_CLUSTER_TOKEN", "")
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		root := newRoot()
		root.SetArgs(args)
		root.SetOut(&out)
		err := root.ExecuteContext(t.Context())
		return strings.TrimSpace(out.String()), err
	}
	_, err := run("token", "node", "a")
	require.ErrorContains(t, err, "--cluster-token")
	path, err := tokenFile()
	require.NoError(t, err)
	secret, err := makeToken(path)
	require.NoError(t, err)
	byFile, err := run("token", "node", "a")
	require.NoError(t, err)
	byFlag, err := run("token", "node", "a", "--cluster-token", secret)
	require.NoError(t, err)
	assert.Equal(t, byFile, byFlag)
	role, name, ok := cluster.TokenHolder(byFile)
	assert.True(t, ok && role == cluster.RoleNode && name == "a", byFile)
	entry, err := run("token", "--nats", "node", "a")
	require.NoError(t, err)
	assert.Contains(t, entry, "nkey: U")
	assert.Contains(t, entry, `"warmpath.cluster.beat.node.a"`)
	for _, args := range [][]string{{"token"}, {"token", "king", "a"}, {"token", "node", "a", "--cluster-token", "short"}, {"token", "router", "a.b"}} {
		_, err := run(args...)
		assert.Error(t, err, args)
	}
	operator, err := run("token", "operator", "ann")
	require.NoError(t, err)
	for _, args := range [][]string{
		{"serve", "--listen", "127.0.0.1:0", "--cluster", "nats://127.0.0.1:1", "--cluster-token", byFile},
		{"up", "--listen", "127.0.0.1:0", "--cluster", "nats://" + byFile + "@127.0.0.1:1"},
		{"node", "--listen", "127.0.0.1:0", "--cluster", "nats://127.0.0.1:1", "--cluster-token", operator},
		{"node", "--listen", "127.0.0.1:0", "--name", "b", "--cluster", "nats://127.0.0.1:1", "--cluster-token", byFile},
		{"node", "--listen", "127.0.0.1:0", "--route", "--cluster", "nats://127.0.0.1:1", "--cluster-token", byFile},
		{"node", "--listen", "127.0.0.1:0", "--cluster-listen", "127.0.0.1:0", "--cluster-token", byFile},
	} {
		_, err := run(args...)
		require.Error(t, err, args)
		assert.NotContains(t, err.Error(), byFile)
	}
}

// TestNodeTakesItsName: the token names the node.
func TestNodeTakesItsName(t *testing.T) {
	text, err := cluster.RoleToken(strings.Repeat("s", cluster.MinSecret), cluster.RoleNode, "gpu-7")
	require.NoError(t, err)
	for _, o := range []nodeOptions{{cluster: clusterOptions{urls: []string{"nats://" + text + "@127.0.0.1:1"}}}, {cluster: clusterOptions{cfg: cluster.Config{Token: text}, urls: []string{"nats://127.0.0.1:1"}}}} {
		o.links.largest = "1MiB"
		cfg := sidecar.Config{}
		require.NoError(t, o.apply(&cfg, slog.New(slog.DiscardHandler)))
		assert.Equal(t, "gpu-7", cfg.Name)
		assert.Empty(t, cfg.Tier.Token, "nodes with tokens of their own have no secret in common")
	}
}
