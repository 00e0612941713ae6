package discover_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/warmpath/warmpath/dataplane/worker"
)

// startEtcd runs an etcd server on a folder; addr "" takes a free port.
func startEtcd(t *testing.T, dir, addr string) (*embed.Etcd, string) {
	t.Helper()
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	cfg := embed.NewConfig()
	cfg.Dir, cfg.ZapLoggerBuilder = dir, embed.NewZapLoggerBuilder(zap.NewNop())
	client, peer := url.URL{Scheme: "http", Host: addr}, url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.UnsafeNoFsync = true
	server, err := embed.StartEtcd(cfg)
	require.NoError(t, err)
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(patience):
		t.Fatal("etcd does not start")
	}
	return server, server.Clients[0].Addr().String()
}

func TestEtcd(t *testing.T) {
	dir := t.TempDir()
	server, addr := startEtcd(t, dir, "")
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	require.NoError(t, err)
	defer client.Close()
	put := func(key, value string) {
		t.Helper()
		_, err := client.Put(t.Context(), key, value)
		require.NoError(t, err)
	}
	put("/workers/a", "http://a:1")
	put("/elsewhere/x", "http://x:1")
	d, s := follow(t, "etcd:"+addr+"/workers/")
	d.tells(t, "http://a:1")

	put("/workers/b", `{"url": "http://b:1", "role": "prefill", "bootstrap": 8998}`)
	got := d.tells(t, "http://a:1", "http://b:1")
	require.Equal(t, worker.Spec{URL: "http://b:1", Role: worker.RolePrefill, Bootstrap: worker.Bootstrap{Port: 8998}}, got[1])
	put("/workers/a", "http://a:2 nobody")
	troubled(t, s, "cannot use the value of /workers/a")
	put("/workers/c", "- http://c:1\n- http://d:1")
	troubled(t, s, "it has 2 workers")
	d.tells(t, "http://a:1", "http://b:1")
	put("/workers/a", "http://a:2")
	d.tells(t, "http://a:2", "http://b:1")
	_, err = client.Delete(t.Context(), "/workers/b")
	require.NoError(t, err)
	d.tells(t, "http://a:2")

	// A server that is away keeps the set; what changed meanwhile is seen when it is back.
	put("/workers/c", "http://c:1")
	d.tells(t, "http://a:2", "http://c:1")
	sets := d.count()
	server.Close()
	server, _ = startEtcd(t, dir, addr)
	require.Equal(t, sets, d.count())
	put("/workers/e", "http://e:1")
	d.tells(t, "http://a:2", "http://c:1", "http://e:1")
	troubled(t, s, "")

	// A watch whose revision is forgotten begins anew.
	_, err = client.Delete(t.Context(), "/workers/", clientv3.WithPrefix())
	require.NoError(t, err)
	d.tells(t)
	server.Close()
}

// TestEtcdIsNotThere ends while nobody answers.
func TestEtcdIsNotThere(t *testing.T) {
	d, s := follow(t, "etcd:127.0.0.1:1/workers")
	troubled(t, s, "cannot read keys")
	require.Zero(t, d.count())
}
