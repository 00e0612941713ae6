package discover_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/discover"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

func TestEtcd(t *testing.T) {
	server := startEtcd(t, etcdSettings{})
	client, addr := server.writer(), server.addr
	client.put("/workers/a", "http://a:1")
	client.put("/elsewhere/x", "http://x:1")
	d, s := follow(t, "etcd:"+addr+"/workers/")
	d.tells(t, "http://a:1")

	client.put("/workers/b", `{"url": "http://b:1", "role": "prefill", "bootstrap": 8998}`)
	got := d.tells(t, "http://a:1", "http://b:1")
	require.Equal(t, worker.Spec{URL: "http://b:1", Role: worker.RolePrefill, Bootstrap: worker.Bootstrap{Port: 8998}}, got[1])
	client.put("/workers/a", "http://a:2 nobody")
	troubled(t, s, "cannot use the value of /workers/a")
	client.put("/workers/c", "- http://c:1\n- http://d:1")
	troubled(t, s, "it has 2 workers")
	d.tells(t, "http://a:1", "http://b:1")
	client.put("/workers/a", "http://a:2")
	d.tells(t, "http://a:2", "http://b:1")
	client.remove("/workers/b", "")
	d.tells(t, "http://a:2")

	// A server that is away keeps the set; what changed meanwhile is seen when it is back.
	client.put("/workers/c", "http://c:1")
	d.tells(t, "http://a:2", "http://c:1")
	sets := d.count()
	server.kill()
	troubled(t, s, "/workers/")
	server.run()
	client.put("/workers/e", "http://e:1")
	d.tells(t, "http://a:2", "http://c:1", "http://e:1")
	d.mu.Lock()
	for _, set := range d.sets[sets : len(d.sets)-1] {
		require.Equal(t, []string{"http://a:2", "http://c:1"}, urlsOf(set))
	}
	d.mu.Unlock()
	troubled(t, s, "")

	client.remove("/workers/", "/workers0")
	d.tells(t)
}

// TestEtcdIsNotThere ends while no server answers.
func TestEtcdIsNotThere(t *testing.T) {
	d, s := follow(t, "etcd:127.0.0.1:1/workers")
	troubled(t, s, "cannot read keys")
	require.Zero(t, d.count())
}

// TestEtcdWithoutGateway wants advice in the error.
func TestEtcdWithoutGateway(t *testing.T) {
	addr := startEtcd(t, etcdSettings{noGateway: true}).addr
	_, s := follow(t, "etcd:"+addr+"/workers")
	troubled(t, s, "--enable-grpc-gateway")
}

// TestEtcdForgets has keys change while the source is away and etcd forget how: all is read
// again.
func TestEtcdForgets(t *testing.T) {
	server := startEtcd(t, etcdSettings{})
	client, addr := server.writer(), server.addr
	client.put("/w/a", "http://a:1")
	err := discover.WatchFromThePast("http://"+addr, "/w/", 1, time.Second)
	require.ErrorIs(t, err, context.DeadlineExceeded, "nothing is forgotten yet: it runs until its time is over")
	client.compact(client.put("/w/a", "http://a:2"))
	require.ErrorIs(t, discover.WatchFromThePast("http://"+addr, "/w/", 1, patience), discover.ErrGone)

	// The same end to end: the list is answered, and later changes are compacted before the
	// watch begins.
	relay := startRelay(t, addr)
	relay.beforeWatch = func() {
		client.put("/w/b", "http://b:1")
		client.compact(client.put("/w/c", "http://c:1"))
	}
	d, s := follow(t, "etcd:"+relay.addr()+"/w/")
	d.tells(t, "http://a:2", "http://b:1", "http://c:1")
	troubled(t, s, "")
	require.NotContains(t, d.logged(), "level=WARN")
}

// TestEtcdUsers has etcd require a user, and forget its tokens.
func TestEtcdUsers(t *testing.T) {
	server := startEtcd(t, etcdSettings{shortTokens: true})
	root, addr := server.writer(), server.addr
	root.put("/w/a", "http://a:1")
	root.askPasswords("/w/", "/w0")
	root.user, root.password = "root", "secret of root"

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
	server.kill()
	troubled(t, s, "/w/")
	server.run() // and knows no token
	root.put("/w/b", "http://b:1")
	d.tells(t, "http://a:1", "http://b:1")
	troubled(t, s, "")

	// A password that changes is read again.
	server.kill()
	root.password = "secret of root"
	server.run()
	root.must("/v3/auth/user/changepw", map[string]any{"name": "router", "password": "another"})
	troubled(t, s, "cannot log in as router")
	require.NoError(t, os.WriteFile(password, []byte("another\n"), 0o600))
	troubled(t, s, "")
	root.put("/w/c", "http://c:1")
	d.tells(t, "http://a:1", "http://b:1", "http://c:1")
}

// TestEtcdTroubleStays: a value that cannot be used is named until it is replaced, whatever becomes
// of other keys.
func TestEtcdTroubleStays(t *testing.T) {
	server := startEtcd(t, etcdSettings{})
	client := server.writer()
	d, s := follow(t, "etcd:"+server.addr+"/w/")
	client.put("/w/a", "http://a:1")
	d.tells(t, "http://a:1")
	client.put("/w/a", "nonsense")
	troubled(t, s, "/w/a")
	client.put("/w/b", "http://b:1")
	d.tells(t, "http://a:1", "http://b:1")
	troubled(t, s, "/w/a")
	client.put("/w/c", "more of it")
	troubled(t, s, "/w/c")
	troubled(t, s, "/w/a")
	client.put("/w/a", "http://a:2")
	d.tells(t, "http://a:2", "http://b:1")
	require.NotContains(t, s.(discover.Troubled).Trouble().Error(), "/w/a")
	client.remove("/w/c", "")
	troubled(t, s, "")
}

// TestEtcdTLS has an etcd that shows a certificate and asks for one.
func TestEtcdTLS(t *testing.T) {
	ours, foreign := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	own, mine, strange := ours.Issue("127.0.0.1"), ours.Issue("router"), foreign.Issue("router")
	server := startEtcd(t, etcdSettings{own: own, authority: ours.File})
	pair, err := tls.LoadX509KeyPair(mine.Cert, mine.Key)
	require.NoError(t, err)
	authority, err := os.ReadFile(ours.File)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(authority))
	client, addr := server.writer().overTLS(&tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots}), server.addr
	client.put("/w/a", "https://a:1")

	options := func(ca string, pair tlstest.Pair) string {
		return "etcd:" + addr + "/w/?ca=" + url.QueryEscape(ca) + "&cert=" + url.QueryEscape(pair.Cert) + "&key=" + url.QueryEscape(pair.Key)
	}
	d, _ := follow(t, options(ours.File, mine))
	d.tells(t, "https://a:1")
	client.put("/w/b", "https://b:1")
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

	// So are authorities.
	changed := filepath.Join(t.TempDir(), "ca.pem")
	for _, a := range []*tlstest.Authority{foreign, ours} {
		pem, err := os.ReadFile(a.File)
		require.NoError(t, err)
		write(t, changed, string(pem))
		if a == foreign {
			_, s = follow(t, options(changed, mine))
			troubled(t, s, "certificate signed by unknown authority")
		}
	}
	troubled(t, s, "")
}

// TestEtcdMembers has one of two members go away.
func TestEtcdMembers(t *testing.T) {
	server := startEtcd(t, etcdSettings{})
	client, addr := server.writer(), server.addr
	client.put("/w/a", "http://a:1")
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
	client.put("/w/b", "http://b:1")
	d.tells(t, "http://a:1", "http://b:1")
	// It is gone: the connection is reset, none is accepted.
	first.freeze(false)
	other := one
	if first == one {
		other = two
	}
	other.close()
	client.put("/w/c", "http://c:1")
	d.tells(t, "http://a:1", "http://b:1", "http://c:1")
	troubled(t, s, "")
}

// TestEtcdDeadWatch has something between hold a dead watch open, while etcd answers else.
func TestEtcdDeadWatch(t *testing.T) {
	server := startEtcd(t, etcdSettings{})
	client, addr := server.writer(), server.addr
	client.put("/w/a", "http://a:1")
	client.put("/w/b", "http://b:1")
	relay := startRelay(t, addr)
	d, _ := followTuned(t, "etcd:"+relay.addr()+"/w/", func(s discover.Source) { discover.CheckOften(s, 50*time.Millisecond, patience) })
	d.tells(t, "http://a:1", "http://b:1")
	relay.freezeWatches()
	client.remove("/w/a", "") // seen by the number of keys
	d.tells(t, "http://b:1")
	require.Contains(t, d.logged(), "the watch tells nothing")
	relay.freezeWatches()
	client.put("/w/b", "http://b:2") // seen by its revision
	d.tells(t, "http://b:2")
}
