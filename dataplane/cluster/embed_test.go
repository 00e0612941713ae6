package cluster_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/testkit"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

func TestEmbeddedKeepsMarks(t *testing.T) {
	for name, dir := range map[string]string{"in a folder": t.TempDir(), "in memory": ""} {
		a, err := cluster.Open(t.Context(), cluster.Config{StoreDir: dir, Name: "warmpath serve", Log: quiet}) // NATS's names have no blanks
		require.NoError(t, err)
		up(t, a)
		assert.True(t, a.Status().Embedded)
		require.NoError(t, setMark(t.Context(), a, cluster.Mark{Target: "a", Cordon: true}))
		require.NoError(t, a.Close())
		require.NoError(t, a.Close())
		b, err := cluster.Open(t.Context(), cluster.Config{StoreDir: dir, Log: quiet})
		require.NoError(t, err)
		up(t, b)
		assert.Equal(t, dir != "", len(b.View().Marks) == 1, name)
		require.NoError(t, b.Close())
	}
}

func TestEmbeddedNeedsItsPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, err = cluster.Open(t.Context(), cluster.Config{Listen: l.Addr().String()})
	require.ErrorContains(t, err, "address already in use")
	_, err = cluster.Open(t.Context(), cluster.Config{StoreDir: filepath.Join(t.TempDir(), "file\x00")})
	require.Error(t, err)
}

func TestTokens(t *testing.T) {
	a := open(t, cluster.Config{Token: "secret"})
	up(t, a)
	for name, cfg := range map[string]cluster.Config{
		"in the URL": {URLs: []string{strings.Replace(a.URL(), "nats://", "nats://secret@", 1)}}, "apart": {URLs: []string{a.URL()}, Token: "secret"},
	} {
		c := open(t, cfg)
		up(t, c)
		assert.NotContains(t, c.URL(), "secret", name)
	}
	refused := open(t, cluster.Config{URLs: []string{a.URL()}, Token: "wrong"})
	testkit.AwaitThat(t, func() bool { return strings.Contains(refused.Status().Reason, "uthorization") }, func() any { return refused.Status() })
	assert.False(t, refused.View().Up)
}

// TestTLS has an embedded server that shows a certificate and asks for one.
func TestTLS(t *testing.T) {
	ours, foreign := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	server, client, stranger := ours.Issue("127.0.0.1"), ours.Issue("client"), foreign.Issue("client")
	a := open(t, cluster.Config{TLS: cluster.TLS{CA: ours.File, Cert: server.Cert, Key: server.Key}})
	up(t, a) // itself without TLS
	_, addr, _ := strings.Cut(a.URL(), "127.")
	url := "tls://127." + addr
	up(t, open(t, cluster.Config{URLs: []string{url}, TLS: cluster.TLS{CA: ours.File, Cert: client.Cert, Key: client.Key}}))
	for name, files := range map[string]cluster.TLS{
		"no certificate": {CA: ours.File}, "a stranger's": {CA: ours.File, Cert: stranger.Cert, Key: stranger.Key},
		"another authority": {CA: foreign.File, Cert: client.Cert, Key: client.Key},
	} {
		c := open(t, cluster.Config{URLs: []string{url}, TLS: files})
		testkit.AwaitThat(t, func() bool { return c.Status().Reason != "" }, func() any { return c.Status() })
		assert.False(t, c.View().Up, name)
	}
}

// TestNKeyAtARealServer joins a server of an operator with users.
func TestNKeyAtARealServer(t *testing.T) {
	user, err := nkeys.CreateUser()
	require.NoError(t, err)
	public, err := user.PublicKey()
	require.NoError(t, err)
	seed, err := user.Seed()
	require.NoError(t, err)
	dir := t.TempDir()
	conf, key := filepath.Join(dir, "nats.conf"), filepath.Join(dir, "user.nk")
	require.NoError(t, os.WriteFile(conf, []byte("authorization { users: [ { nkey: "+public+" }, { user: u, password: p } ] }\n"), 0o600))
	require.NoError(t, os.WriteFile(key, seed, 0o600))
	s := natstest.Start(t, "-c", conf)
	for _, cfg := range []cluster.Config{
		{URLs: []string{s.URL()}, NKey: key}, {URLs: []string{strings.Replace(s.URL(), "nats://", "nats://u:p@", 1)}},
	} {
		up(t, open(t, cfg))
	}
	_, err = cluster.Open(t.Context(), cluster.Config{URLs: []string{s.URL()}, NKey: conf})
	require.ErrorIs(t, err, cluster.ErrConfig)
}

// TestNATSWithoutJetStream wants the cause in the error.
func TestNATSWithoutJetStream(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(conf, []byte("accounts { A { users: [ { user: u, password: p } ] } }\n"), 0o600))
	s := natstest.Start(t, "-c", conf)
	c := open(t, cluster.Config{URLs: []string{strings.Replace(s.URL(), "nats://", "nats://u:p@", 1)}})
	testkit.AwaitThat(t, func() bool { return strings.Contains(c.Status().Reason, "-js") }, func() any { return c.Status() })
	assert.False(t, c.View().Up)
}

func TestPasswordsOfURLsAreNotPrinted(t *testing.T) {
	for _, url := range []string{"http://u:secret@x:1", "nats://u:sec/secret@x:1", "nats://u:sec@secret@x:bad", "u:secret@x:1"} {
		_, err := cluster.Open(t.Context(), cluster.Config{URLs: []string{url}})
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "sec")
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, cfg := range map[string]cluster.Config{
		"a URL of another kind": {URLs: []string{"http://x:1"}}, "no host": {URLs: []string{"nats://"}}, "no URL": {URLs: []string{"127.0.0.1:4222"}},
		"a prefix with a dot": {Prefix: "a.b"}, "a certificate without key": {TLS: cluster.TLS{Cert: "x"}}, "six replicas": {Replicas: 6},
		"replicas of one server": {Replicas: 3}, "open to the network": {Listen: "0.0.0.0:0"}, "no port": {Listen: "127.0.0.1"},
		"two identities": {URLs: []string{"nats://x:1"}, NKey: "a", Credentials: "b"}, "an nkey for ourselves": {NKey: "a"},
		"a missing seed": {URLs: []string{"nats://127.0.0.1:1"}, NKey: "/nowhere"}, "a bad port": {Listen: "127.0.0.1:x"},
		"a missing certificate":  {URLs: []string{"nats://127.0.0.1:1"}, TLS: cluster.TLS{Cert: "/nowhere", Key: "/nowhere"}},
		"missing credentials":    {URLs: []string{"nats://127.0.0.1:1"}, Credentials: "/nowhere"},
		"a missing authority":    {URLs: []string{"nats://127.0.0.1:1"}, TLS: cluster.TLS{CA: "/nowhere"}},
		"an embedded one's file": {TLS: cluster.TLS{Cert: "/nowhere", Key: "/nowhere"}},
	} {
		c, err := cluster.Open(t.Context(), cfg)
		if err == nil {
			c.Close()
		}
		assert.Error(t, err, name)
	}
	for _, cfg := range []cluster.Config{
		{}, {Listen: "[::1]:0"}, {Listen: "0.0.0.0:4222", Token: "x"}, {URLs: []string{"tls://a:1", "nats://b:2"}, Replicas: 3},
	} {
		assert.NoError(t, cfg.Check())
	}
	secret := cluster.Config{URLs: []string{"http://user:secret@x:1"}}
	assert.NotContains(t, secret.Check().Error(), "secret")
}

func TestAnnounceRefuses(t *testing.T) {
	c := open(t, cluster.Config{})
	large := node("a")
	large.Driver = strings.Repeat("x", 1<<20)
	twice := node("a")
	twice.Workers[1] = twice.Workers[0]
	for name, n := range map[string]cluster.Node{"no name": node(""), "a line break": node("a\nb"), "too large": large, "a worker twice": twice} {
		require.ErrorIs(t, c.AnnounceNode(n), cluster.ErrRecord, name)
	}
	require.ErrorIs(t, c.AnnounceRouter(cluster.Router{}), cluster.ErrRecord)
	require.ErrorIs(t, setMark(t.Context(), c, cluster.Mark{}), cluster.ErrRecord)
	require.ErrorIs(t, setMark(t.Context(), c, cluster.Mark{Target: ""}), cluster.ErrRecord)
	assert.Empty(t, c.View().Nodes)
}

func TestClosedClusterAnswers(t *testing.T) {
	c, err := cluster.Open(t.Context(), cluster.Config{Log: quiet})
	require.NoError(t, err)
	up(t, c)
	require.NoError(t, c.AnnounceNode(node("a")))
	require.NoError(t, c.Close())
	assert.NotNil(t, c.View())
	c.Withdraw()
	require.Error(t, c.Publish("x", nil))
	require.Error(t, setMark(t.Context(), c, cluster.Mark{Target: "x", Drain: true}))
	_, err = c.Subscribe("x", nil)
	require.Error(t, err)
	c.Watch(func(*cluster.View) {})()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.Error(t, errors.Join(c.WaitUp(ctx)))
}
