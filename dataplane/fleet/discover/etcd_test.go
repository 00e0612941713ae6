package discover_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/fleet/discover"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

// startEtcd runs an etcd server on a folder; addr "" takes a free port. change may change its
// settings.
func startEtcd(t *testing.T, dir, addr string, change ...func(*embed.Config)) (*embed.Etcd, string) {
	t.Helper()
	if addr == "" { // its gateway connects to the address that it is told
		addr = natstest.Address(t)
	}
	cfg := embed.NewConfig()
	cfg.Dir, cfg.ZapLoggerBuilder = dir, embed.NewZapLoggerBuilder(zap.NewNop())
	client, peer := url.URL{Scheme: "http", Host: addr}, url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.UnsafeNoFsync = true
	cfg.BcryptCost = 4           // the least: passwords are checked again and again
	cfg.EnableGRPCGateway = true // as the program has it, unless it is told otherwise
	for _, c := range change {
		c(cfg)
	}
	server, err := embed.StartEtcd(cfg)
	require.NoError(t, err)
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(patience):
		t.Fatal("etcd does not start")
	}
	return server, server.Clients[0].Addr().String()
}

// etcdClient is etcd's own.
func etcdClient(t *testing.T, cfg clientv3.Config) *clientv3.Client {
	t.Helper()
	cfg.Logger = zap.NewNop()
	client, err := clientv3.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

func put(t *testing.T, client *clientv3.Client, key, value string) {
	t.Helper()
	await(t, "a write to etcd", func() bool { // the client does not wait for a starting server
		_, err := client.Put(t.Context(), key, value)
		return err == nil
	})
}

func TestEtcd(t *testing.T) {
	dir := t.TempDir()
	server, addr := startEtcd(t, dir, "")
	client := etcdClient(t, clientv3.Config{Endpoints: []string{addr}})
	put(t, client, "/workers/a", "http://a:1")
	put(t, client, "/elsewhere/x", "http://x:1")
	d, s := follow(t, "etcd:"+addr+"/workers/")
	d.tells(t, "http://a:1")

	put(t, client, "/workers/b", `{"url": "http://b:1", "role": "prefill", "bootstrap": 8998}`)
	got := d.tells(t, "http://a:1", "http://b:1")
	require.Equal(t, worker.Spec{URL: "http://b:1", Role: worker.RolePrefill, Bootstrap: worker.Bootstrap{Port: 8998}}, got[1])
	put(t, client, "/workers/a", "http://a:2 nobody")
	troubled(t, s, "cannot use the value of /workers/a")
	put(t, client, "/workers/c", "- http://c:1\n- http://d:1")
	troubled(t, s, "it has 2 workers")
	d.tells(t, "http://a:1", "http://b:1")
	put(t, client, "/workers/a", "http://a:2")
	d.tells(t, "http://a:2", "http://b:1")
	_, err := client.Delete(t.Context(), "/workers/b")
	require.NoError(t, err)
	d.tells(t, "http://a:2")

	// A server that is away keeps the set; changes meanwhile show when it is back.
	put(t, client, "/workers/c", "http://c:1")
	d.tells(t, "http://a:2", "http://c:1")
	sets := d.count()
	server.Close()
	troubled(t, s, "/workers/")
	server, _ = startEtcd(t, dir, addr)
	put(t, client, "/workers/e", "http://e:1")
	d.tells(t, "http://a:2", "http://c:1", "http://e:1")
	d.mu.Lock()
	for _, set := range d.sets[sets : len(d.sets)-1] {
		require.Equal(t, []string{"http://a:2", "http://c:1"}, urlsOf(set))
	}
	d.mu.Unlock()
	troubled(t, s, "")

	_, err = client.Delete(t.Context(), "/workers/", clientv3.WithPrefix())
	require.NoError(t, err)
	d.tells(t)
	server.Close()
}

// TestEtcdIsNotThere ends while no server answers.
func TestEtcdIsNotThere(t *testing.T) {
	d, s := follow(t, "etcd:127.0.0.1:1/workers")
	troubled(t, s, "cannot read keys")
	require.Zero(t, d.count())
}

// TestEtcdWithoutGateway wants advice in the error.
func TestEtcdWithoutGateway(t *testing.T) {
	server, addr := startEtcd(t, t.TempDir(), "", func(cfg *embed.Config) { cfg.EnableGRPCGateway = false })
	t.Cleanup(server.Close)
	_, s := follow(t, "etcd:"+addr+"/workers")
	troubled(t, s, "--enable-grpc-gateway")
}

// TestEtcdForgets has keys change while the source is away and etcd forget how: all is read
// again.
func TestEtcdForgets(t *testing.T) {
	server, addr := startEtcd(t, t.TempDir(), "")
	t.Cleanup(server.Close)
	client := etcdClient(t, clientv3.Config{Endpoints: []string{addr}})
	put(t, client, "/w/a", "http://a:1")
	err := discover.WatchFromThePast("http://"+addr, "/w/", 1, time.Second)
	require.ErrorIs(t, err, context.DeadlineExceeded, "nothing is forgotten yet: it runs until its time is over")
	put(t, client, "/w/a", "http://a:2")
	got, err := client.Get(t.Context(), "/w/a")
	require.NoError(t, err)
	_, err = client.Compact(t.Context(), got.Header.Revision)
	require.NoError(t, err)
	require.ErrorIs(t, discover.WatchFromThePast("http://"+addr, "/w/", 1, patience), discover.ErrGone)

	// The same end to end: the list is answered, and later changes are compacted before the
	// watch begins.
	relay := startRelay(t, addr)
	relay.beforeWatch = func() {
		put(t, client, "/w/b", "http://b:1")
		got, err := client.Get(t.Context(), "/w/b")
		require.NoError(t, err)
		put(t, client, "/w/c", "http://c:1")
		_, err = client.Compact(t.Context(), got.Header.Revision+1)
		require.NoError(t, err)
	}
	d, s := follow(t, "etcd:"+relay.addr()+"/w/")
	d.tells(t, "http://a:2", "http://b:1", "http://c:1")
	troubled(t, s, "")
	require.NotContains(t, d.logged(), "level=WARN")
}

// TestEtcdUsers has etcd require a user, and forget its tokens.
func TestEtcdUsers(t *testing.T) {
	dir := t.TempDir()
	server, addr := startEtcd(t, dir, "", func(cfg *embed.Config) { cfg.AuthTokenTTL = 1 })
	open := etcdClient(t, clientv3.Config{Endpoints: []string{addr}})
	put(t, open, "/w/a", "http://a:1")
	ctx := t.Context()
	_, err := open.RoleAdd(ctx, "reader")
	require.NoError(t, err)
	_, err = open.RoleGrantPermission(ctx, "reader", "/w/", clientv3.GetPrefixRangeEnd("/w/"), clientv3.PermissionType(clientv3.PermRead))
	require.NoError(t, err)
	for user, role := range map[string]string{"root": "root", "router": "reader"} {
		_, err = open.UserAdd(ctx, user, "secret of "+user)
		require.NoError(t, err)
		_, err = open.UserGrantRole(ctx, user, role)
		require.NoError(t, err)
	}
	_, err = open.AuthEnable(ctx)
	require.NoError(t, err)
	root := etcdClient(t, clientv3.Config{Endpoints: []string{addr}, Username: "root", Password: "secret of root"})

	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte("secret of router\n"), 0o600))
	wrong := filepath.Join(t.TempDir(), "wrong")
	require.NoError(t, os.WriteFile(wrong, []byte("guess"), 0o600))
	_, nobody := follow(t, "etcd:"+addr+"/w/")
	troubled(t, nobody, "user name is empty")
	_, stranger := follow(t, "etcd:"+addr+"/w/?user=router&password-file="+wrong)
	troubled(t, stranger, "cannot log in as router")
	require.NotContains(t, stranger.(discover.Troubled).Trouble().Error(), "guess")
	_, elsewhere := follow(t, "etcd:"+addr+"/x/?user=router&password-file="+password)
	troubled(t, elsewhere, "permission denied")

	d, s := followTuned(t, "etcd:"+addr+"/w/?user=router&password-file="+password, func(s discover.Source) {
		discover.CheckOften(s, 1500*time.Millisecond, patience) // longer than a token lasts: each check needs a new one
	})
	d.tells(t, "http://a:1")
	server.Close()
	troubled(t, s, "/w/")
	server, _ = startEtcd(t, dir, addr, func(cfg *embed.Config) { cfg.AuthTokenTTL = 1 }) // which knows no token
	t.Cleanup(server.Close)
	put(t, root, "/w/b", "http://b:1")
	d.tells(t, "http://a:1", "http://b:1")
	troubled(t, s, "")
}

// TestEtcdTLS has an etcd that shows a certificate and asks for one.
func TestEtcdTLS(t *testing.T) {
	ours, foreign := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	own, mine, strange := ours.Issue("127.0.0.1"), ours.Issue("router"), foreign.Issue("router")
	server, addr := startEtcd(t, t.TempDir(), "", func(cfg *embed.Config) {
		cfg.ListenClientUrls[0].Scheme, cfg.AdvertiseClientUrls[0].Scheme = "https", "https"
		cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = own.Cert, own.Key
		cfg.ClientTLSInfo.TrustedCAFile, cfg.ClientTLSInfo.ClientCertAuth = ours.File, true
	})
	t.Cleanup(server.Close)
	settings, err := server.Config().ClientTLSInfo.ClientConfig()
	require.NoError(t, err)
	client := etcdClient(t, clientv3.Config{Endpoints: []string{"https://" + addr}, TLS: settings})
	put(t, client, "/w/a", "https://a:1")

	options := func(ca string, pair tlstest.Pair) string {
		return "etcd:" + addr + "/w/?ca=" + url.QueryEscape(ca) + "&cert=" + url.QueryEscape(pair.Cert) + "&key=" + url.QueryEscape(pair.Key)
	}
	d, _ := follow(t, options(ours.File, mine))
	d.tells(t, "https://a:1")
	put(t, client, "/w/b", "https://b:1")
	d.tells(t, "https://a:1", "https://b:1")

	for words, text := range map[string]string{
		"certificate signed by unknown authority": options(foreign.File, mine),
		"tls: ":                        options(ours.File, strange),
		"certificate required":         "etcd:" + addr + "/w/?ca=" + url.QueryEscape(ours.File),
		"failed to verify certificate": "etcd:" + addr + "/w/?tls=true", // by the system's authorities
		"EOF":                          "etcd:" + addr + "/w/",          // not told that it has TLS
	} {
		refused, s := follow(t, text)
		troubled(t, s, words)
		require.Zero(t, refused.count(), text)

	}

	// A certificate that is renewed in its place is used from the next connection on.
	renewed := ours.Expired("router")
	_, s := follow(t, options(ours.File, renewed))
	troubled(t, s, "tls: ")
	ours.Reissue(renewed, time.Now().Add(time.Hour), "router")
	troubled(t, s, "")
}

// TestEtcdMembers has one of two members go away.
func TestEtcdMembers(t *testing.T) {
	server, addr := startEtcd(t, t.TempDir(), "")
	t.Cleanup(server.Close)
	client := etcdClient(t, clientv3.Config{Endpoints: []string{addr}})
	put(t, client, "/w/a", "http://a:1")
	one, two := startRelay(t, addr), startRelay(t, addr)
	d, s := followTuned(t, "etcd:"+strings.Join([]string{one.addr(), two.addr(), "127.0.0.1:1"}, ",")+"/w/", func(s discover.Source) {
		discover.CheckOften(s, 50*time.Millisecond, 2*time.Second)
	})
	d.tells(t, "http://a:1")
	used := func() []*relay {
		var in []*relay
		await(t, "a connection", func() bool {
			in = slices.DeleteFunc([]*relay{one, two}, func(r *relay) bool { return r.live() == 0 })
			return len(in) > 0
		})
		return in
	}
	// It says nothing more and keeps its connections open, old and new ones.
	first := used()[0]
	first.freeze(true)
	put(t, client, "/w/b", "http://b:1")
	d.tells(t, "http://a:1", "http://b:1")
	// It is gone: the connection is reset, none is accepted.
	first.freeze(false)
	other := one
	if first == one {
		other = two
	}
	other.close()
	put(t, client, "/w/c", "http://c:1")
	d.tells(t, "http://a:1", "http://b:1", "http://c:1")
	troubled(t, s, "")
}

// TestEtcdDeadWatch has something between hold a dead watch open, while etcd answers else.
func TestEtcdDeadWatch(t *testing.T) {
	server, addr := startEtcd(t, t.TempDir(), "")
	t.Cleanup(server.Close)
	client := etcdClient(t, clientv3.Config{Endpoints: []string{addr}})
	put(t, client, "/w/a", "http://a:1")
	put(t, client, "/w/b", "http://b:1")
	relay := startRelay(t, addr)
	d, _ := followTuned(t, "etcd:"+relay.addr()+"/w/", func(s discover.Source) { discover.CheckOften(s, 50*time.Millisecond, patience) })
	d.tells(t, "http://a:1", "http://b:1")
	relay.freezeWatches()
	_, err := client.Delete(t.Context(), "/w/a") // seen by the number of keys
	require.NoError(t, err)
	d.tells(t, "http://b:1")
	require.Contains(t, d.logged(), "the watch tells nothing")
	relay.freezeWatches()
	put(t, client, "/w/b", "http://b:2") // seen by its revision
	d.tells(t, "http://b:2")
}
