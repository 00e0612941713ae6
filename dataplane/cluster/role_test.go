package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

const secret = "a secret of the cluster with 32 characters"

func token(t *testing.T, role cluster.Role, name string) string {
	t.Helper()
	text, err := cluster.RoleToken(secret, role, name)
	require.NoError(t, err)
	return text
}

// holder joins with a role's token.
func holder(t *testing.T, url string, role cluster.Role, name string) *cluster.Cluster {
	t.Helper()
	c := open(t, cluster.Config{URLs: []string{url}, Token: token(t, role, name)})
	up(t, c)
	return c
}

// attacker is a NATS client with a role's token and none of our manners.
type attacker struct {
	*nats.Conn
	t *testing.T

	mu      sync.Mutex
	refused []string // what NATS says of subjects; guarded by mu
}

func attack(t *testing.T, url, text string) *attacker {
	t.Helper()
	a := &attacker{t: t}
	dot := strings.LastIndexByte(text, '.')
	pair, err := nkeys.FromSeed([]byte(text[dot+1:]))
	require.NoError(t, err)
	public, err := pair.PublicKey()
	require.NoError(t, err)
	a.Conn, err = nats.Connect(url, nats.Nkey(public, pair.Sign), nats.UserInfo(text[:dot], ""), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.refused = append(a.refused, strings.ToLower(err.Error()))
	}))
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return a
}

// publishes reports whether NATS takes a message.
func (a *attacker) publishes(subject string) bool {
	a.t.Helper()
	require.NoError(a.t, a.PublishRequest(subject, "warmpath.cluster.reply.nobody.x", []byte("{}")))
	a.settle()
	return !a.heardOf(`publish to "` + subject + `"`)
}

// hears reports whether NATS lets it subscribe.
func (a *attacker) hears(subject string) bool {
	a.t.Helper()
	s, err := a.SubscribeSync(subject)
	require.NoError(a.t, err)
	a.settle()
	_ = s.Unsubscribe()
	return !a.heardOf(`subscription to "` + subject + `"`)
}

func (a *attacker) heardOf(refusal string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.refused, func(text string) bool { return strings.Contains(text, strings.ToLower(refusal)) })
}

// settle waits until the library has told of all that NATS refused: it tells in order, and NATS refuses this subject.
func (a *attacker) settle() {
	a.t.Helper()
	nobody := "nobody." + cluster.NewInstance()
	require.NoError(a.t, a.Publish(nobody, nil))
	testkit.AwaitThat(a.t, func() bool { return a.heardOf(`publish to "` + nobody + `"`) }, func() any { return "NATS does not refuse a subject that is nobody's" })
}

// servers are an embedded NATS, and one of an operator with the users that NATSUser describes.
func servers(t *testing.T, users ...string) map[string]*cluster.Cluster {
	t.Helper()
	embedded := open(t, cluster.Config{Token: secret})
	up(t, embedded)
	list := []string{"{ user: full, password: pass }"}
	for _, text := range users {
		u, err := cluster.NATSUser(text, "warmpath")
		require.NoError(t, err)
		assert.NotContains(t, u, text[strings.LastIndexByte(text, '.')+1:])
		list = append(list, u)
	}
	s := natstest.Start(t, "-c", write(t, "nats.conf", "authorization { users: [\n"+strings.Join(list, "\n")+"\n] }\n"))
	own := open(t, cluster.Config{URLs: []string{strings.Replace(s.URL(), "nats://", "nats://full:pass@", 1)}})
	up(t, own)
	require.NoError(t, own.AnnounceRouter(cluster.Router{ID: "r", Addr: "127.0.0.1:1"}))
	return map[string]*cluster.Cluster{"embedded": embedded, "an operator's": own}
}

func write(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// plain is the URL of a cluster's NATS without credentials.
func plain(c *cluster.Cluster) string {
	_, host, found := strings.Cut(c.URL(), "@")
	if !found {
		return c.URL()
	}
	return "nats://" + host
}

// TestRolesDoTheirWork has members with tokens of roles do what a member with the secret can.
func TestRolesDoTheirWork(t *testing.T) {
	for name, full := range servers(t, token(t, cluster.RoleNode, "gpu.1"), token(t, cluster.RoleNode, "gpu2"), token(t, cluster.RoleRouter, "front"), token(t, cluster.RoleOperator, "ann")) {
		t.Run(name, func(t *testing.T) {
			url := plain(full)
			one, two := holder(t, url, cluster.RoleNode, "gpu.1"), holder(t, url, cluster.RoleNode, "gpu2")
			router, other, operator := holder(t, url, cluster.RoleRouter, "front"), holder(t, url, cluster.RoleRouter, "front"), holder(t, url, cluster.RoleOperator, "ann")
			require.NoError(t, one.AnnounceNode(node("gpu.1")))
			require.NoError(t, two.AnnounceNode(node("gpu2")))
			for _, r := range []*cluster.Cluster{router, other} {
				require.NoError(t, r.AnnounceRouter(cluster.Router{ID: r.Instance(), Addr: "127.0.0.1:2"}))
			}
			everybody := []*cluster.Cluster{full, one, two, router, other, operator}
			own := len(full.View().Routers)
			for _, c := range everybody {
				sees(t, c, "gpu.1", "gpu2")
				shows(t, c, func(v *cluster.View) bool { return len(v.Routers) >= own+2 })
			}
			require.NoError(t, setMark(t.Context(), operator, cluster.Mark{Target: "gpu2", Drain: true}))
			require.NoError(t, setMark(t.Context(), router, cluster.Mark{Target: "gpu.1", Cordon: true}))
			for _, c := range everybody {
				shows(t, c, func(v *cluster.View) bool { return len(v.Marks) == 2 })
			}
			require.NoError(t, setMark(t.Context(), operator, cluster.Mark{Target: "gpu2"}))
			n := node("gpu.1")
			n.Workers, n.GPUs[0].Used = n.Workers[:1], 7<<30
			require.NoError(t, one.AnnounceNode(n))
			require.NoError(t, two.Close())
			for _, c := range []*cluster.Cluster{full, one, router, operator} {
				sees(t, c, "gpu.1")
				shows(t, c, func(v *cluster.View) bool {
					return len(v.Marks) == 1 && len(v.Nodes[0].Workers) == 1 && v.Nodes[0].GPUs[0].Used == 7<<30
				})
			}
			end, err := one.Reply("link.6770752e31", func([]byte) []byte { return []byte("offer") })
			require.NoError(t, err)
			defer end()
			testkit.AwaitThat(t, func() bool {
				answer, err := full.Request(t.Context(), "link.6770752e31", nil)
				return err == nil && string(answer) == "offer"
			}, func() any { return "a node does not answer" })
		})
	}
}

// TestRolesOutliveTheServer restarts the router that has the server inside, and its store in memory.
func TestRolesOutliveTheServer(t *testing.T) {
	addr := natstest.Address(t)
	first, err := cluster.Open(t.Context(), cluster.Config{Listen: addr, Token: secret, Log: quiet})
	require.NoError(t, err)
	up(t, first)
	a, operator := holder(t, first.URL(), cluster.RoleNode, "a"), holder(t, first.URL(), cluster.RoleOperator, "ann")
	require.NoError(t, a.AnnounceNode(node("a")))
	require.NoError(t, setMark(t.Context(), operator, cluster.Mark{Target: "a", Drain: true}))
	sees(t, first, "a")
	sees(t, operator, "a")
	require.NoError(t, first.Close())
	second := open(t, cluster.Config{Listen: addr, Token: secret})
	for _, c := range []*cluster.Cluster{second, a, operator} {
		sees(t, c, "a")
		shows(t, c, func(v *cluster.View) bool { return len(v.Marks) == 1 })
	}
}

// TestOwnSubjects: what comes in the name of a token comes from its holder; a node is asked by its name.
func TestOwnSubjects(t *testing.T) {
	full := open(t, cluster.Config{Token: secret})
	up(t, full)
	router, node := holder(t, plain(full), cluster.RoleRouter, "r"), holder(t, plain(full), cluster.RoleNode, "n.1")
	heard := make(chan string, 10)
	stop, err := router.SubscribeOwn("replica.state", func(owner string, data []byte) { heard <- owner + " " + string(data) })
	require.NoError(t, err)
	defer stop()
	stop, err = node.ReplyOwn("kvtier.question.7", func(data []byte) []byte { return append(data, '!') })
	require.NoError(t, err)
	defer stop()
	testkit.Await(t, "the node answers", func() bool {
		answer, err := router.RequestNode(t.Context(), "kvtier.question.7", "n.1", []byte("x"))
		return err == nil && string(answer) == "x!"
	})
	_, err = router.RequestNode(t.Context(), "kvtier.question.7", "n.2", nil)
	require.Error(t, err)
	require.NoError(t, router.PublishOwn("replica.state", []byte("1")))
	require.Equal(t, "r 1", <-heard)
	require.NoError(t, full.PublishOwn("replica.state", []byte("2")))
	require.Equal(t, " 2", <-heard)
}

// TestRolesDoNothingElse tries what a role has no business with, on NATS's own subjects and through the member that has all rights.
func TestRolesDoNothingElse(t *testing.T) {
	users := map[string]string{
		"node": token(t, cluster.RoleNode, "a"), "router": token(t, cluster.RoleRouter, "a"), "operator": token(t, cluster.RoleOperator, "a"),
	}
	const p = "warmpath.cluster."
	writes := []string{
		p + "beat.node.a", p + "beat.node.b", p + "beat.replica.a", p + "beat.replica.b", p + "store.node.a", p + "store.node.b", p + "store.router.a",
		p + "store.router.b", p + "store.operator.a", p + "store.operator.b", p + "reply.node.b.x", "warmpath.replica.state", "warmpath.replica.state.member",
		"warmpath.replica.state.router.a", "warmpath.replica.state.router.b", "warmpath.replica.keys.router.a", "warmpath.replica.ask.x",
		"warmpath.kvtier.report", "warmpath.kvtier.report.node.a", "warmpath.kvtier.report.node.b", "warmpath.kvtier.report.member", "warmpath.hint.62", "_INBOX.x", "$KV.warmpath-records.node.a", "$KV.warmpath-records.node.b", "$KV.warmpath-marks.b",
		"$JS.API.STREAM.INFO.KV_warmpath-records", "$JS.API.STREAM.DELETE.KV_warmpath-records", "$JS.API.STREAM.PURGE.KV_warmpath-marks",
		"$JS.API.STREAM.CREATE.x", "$JS.API.STREAM.UPDATE.KV_warmpath-marks", "$JS.API.STREAM.MSG.DELETE.KV_warmpath-marks",
		"$JS.API.CONSUMER.CREATE.KV_warmpath-records", "$JS.API.CONSUMER.CREATE.KV_warmpath-records.x.$KV.warmpath-records.>",
		"$JS.API.DIRECT.GET.KV_warmpath-records", "$SYS.REQ.SERVER.PING", "$JS.ACK.KV_warmpath-marks.x.1.1.1.1.0", "_R_.x",
	}
	reads := []string{
		">", "warmpath.>", p + "beat.>", p + "reply.>", p + "reply.node.a.*", p + "reply.node.b.*", p + "reply.router.a.*", p + "reply.operator.a.*", p + "store.>",
		"warmpath.replica.>", "warmpath.hint.>", "warmpath.hint.61", "warmpath.hint.62", "warmpath.link.62", "warmpath.kvtier.report.>", "warmpath.kvtier.question.*.node.a",
		"warmpath.kvtier.question.*.node.b", "warmpath.kvtier.question.>", "_INBOX.>", "$KV.>", "$JS.>", "$SYS.>",
	}
	may := map[string]string{
		"node":       p + "beat.node.a " + p + "store.node.a " + p + "reply.node.b.x warmpath.kvtier.report.node.a",
		"router":     p + "beat.replica.a " + p + "store.router.a warmpath.replica.state.router.a warmpath.replica.keys.router.a warmpath.hint.62",
		"operator":   p + "store.operator.a",
		"node hears": p + "beat.> " + p + "reply.node.a.* warmpath.hint.61 warmpath.kvtier.question.*.node.a", "router hears": p + "beat.> " + p + "reply.router.a.* warmpath.replica.> warmpath.kvtier.report.>",
		"operator hears": p + "beat.> " + p + "reply.operator.a.*",
	}
	for name, full := range servers(t, users["node"], users["router"], users["operator"]) {
		for role, text := range users {
			t.Run(name+" "+role, func(t *testing.T) {
				a := attack(t, plain(full), text)
				var got []string
				for _, subject := range writes {
					if a.publishes(subject) {
						got = append(got, subject)
					}
				}
				assert.Equal(t, may[role], strings.Join(got, " "))
				got = nil
				for _, subject := range reads {
					if a.hears(subject) {
						got = append(got, subject)
					}
				}
				assert.Equal(t, may[role+" hears"], strings.Join(got, " "))
			})
		}
	}
}

// TestStoreRefuses asks the member with all rights for what the asker may not do.
func TestStoreRefuses(t *testing.T) {
	full := open(t, cluster.Config{Token: secret})
	up(t, full)
	require.NoError(t, full.AnnounceNode(node("b")))
	require.NoError(t, full.AnnounceRouter(cluster.Router{ID: full.Instance(), Addr: "127.0.0.1:1"}))
	require.NoError(t, setMark(t.Context(), full, cluster.Mark{Target: "b", Cordon: true}))
	sees(t, full, "b")
	record := func(name string) []byte {
		return fmt.Appendf(nil, `{"v":1,"instance":"evil","seq":1,"node":{"name":%q,"workers":[]}}`, name)
	}
	mark := []byte(`{"v":1,"target":"b","drain":true}`)
	type request struct {
		Op       string `json:"op"`
		Bucket   string `json:"bucket"`
		Key      string `json:"key"`
		Data     []byte `json:"data,omitempty"`
		Revision uint64 `json:"revision,omitempty"`
		Deliver  string `json:"deliver,omitempty"`
	}
	refused := []request{
		{Op: "put", Bucket: "records", Key: "node.b", Data: record("b")},
		{Op: "put", Bucket: "records", Key: "replica." + full.Instance(), Data: record("b")},
		{Op: "create", Bucket: "records", Key: "node.b", Data: record("b")},
		{Op: "remove", Bucket: "records", Key: "node.b"},
		{Op: "put", Bucket: "records", Key: "node.a", Data: record("b")},
		{Op: "put", Bucket: "records", Key: "node.a", Data: []byte("junk")},
		{Op: "put", Bucket: "records", Key: "node.a.b", Data: record("a")},
		{Op: "put", Bucket: "records", Key: "node.>", Data: record("b")},
		{Op: "remove", Bucket: "records", Key: "node.*"},
		{Op: "put", Bucket: "marks", Key: ">", Data: mark},
		{Op: "remove", Bucket: "marks", Key: "*"},
		{Op: "put", Bucket: "marks", Key: "c", Data: mark},
		{Op: "put", Bucket: "other", Key: "node.a", Data: record("a")},
		{Op: "purge", Bucket: "records", Key: "node.a", Data: record("a")},
		{Op: "watch", Bucket: "records", Deliver: "$KV.warmpath-marks.b"},
		{Op: "watch", Bucket: "records", Deliver: "warmpath.cluster.beat.node.b"},
		{Op: "watch", Bucket: "marks", Deliver: "warmpath.cluster.reply.node.b." + strings.Repeat("0", 32)},
		{},
	}
	node, router, operator := holderAsker(t, full.URL(), cluster.RoleNode), holderAsker(t, full.URL(), cluster.RoleRouter), holderAsker(t, full.URL(), cluster.RoleOperator)
	ask := func(c *asker, q request) string {
		data, err := json.Marshal(q)
		require.NoError(t, err)
		return c.ask(data)
	}
	for _, q := range refused {
		for _, c := range []*asker{node, router, operator} {
			if c == node || q.Bucket == "" {
				assert.NotEmpty(t, ask(c, q), "%s: %+v", c.user, q)
			} else if q.Key != "node.a" {
				assert.NotEmpty(t, ask(c, q), "%s: %+v", c.user, q)
			}
		}
	}
	for _, q := range []request{{Op: "put", Bucket: "marks", Key: "b", Data: mark}, {Op: "create", Bucket: "marks", Key: "n", Data: []byte(`{"v":1,"target":"n"}`)}, {Op: "remove", Bucket: "marks", Key: "b"}} {
		assert.Contains(t, ask(node, q), "does not allow", "%+v", q)
	}
	for _, c := range []*asker{router, operator} {
		assert.Contains(t, ask(c, request{Op: "put", Bucket: "records", Key: "node.a", Data: record("a")}), "does not allow")
	}
	assert.Empty(t, ask(node, request{Op: "put", Bucket: "records", Key: "node.a", Data: record("a")}))
	sees(t, full, "a", "b")
	v := full.View()
	assert.Equal(t, full.Instance(), v.Nodes[1].Instance)
	assert.Len(t, v.Marks, 1)
	assert.False(t, v.Marks[0].Drain)
	assert.Len(t, v.Routers, 1)
}

// asker asks the store as a holder, and hears its answers.
type asker struct {
	*attacker
	user string
}

func holderAsker(t *testing.T, url string, role cluster.Role) *asker {
	t.Helper()
	return &asker{attack(t, url, token(t, role, "a")), string(role) + ".a"}
}

// ask returns the error of an answer, "" for none.
func (a *asker) ask(data []byte) string {
	a.t.Helper()
	at := "warmpath.cluster.reply." + a.user + "." + cluster.NewInstance() + cluster.NewInstance()
	s, err := a.SubscribeSync(at)
	require.NoError(a.t, err)
	defer func() { _ = s.Unsubscribe() }()
	require.NoError(a.t, a.PublishRequest("warmpath.cluster.store."+a.user, at, data))
	m, err := s.NextMsg(patience)
	require.NoError(a.t, err)
	var answer struct {
		Error string `json:"error"`
	}
	require.NoError(a.t, json.Unmarshal(m.Data, &answer))
	return answer.Error
}

// TestHoldersFillNoStore: a router's token names any number of processes, and any mark. What it has in the buckets is bounded, so that others
// still have room, and what it writes again or takes back makes room for it.
func TestHoldersFillNoStore(t *testing.T) {
	full := open(t, cluster.MaxHeld(cluster.Config{Token: secret}, 8<<10))
	up(t, full)
	router := holderAsker(t, full.URL(), cluster.RoleRouter)
	put := func(op, bucket, key, data string) string {
		text, err := json.Marshal(map[string]any{"op": op, "bucket": bucket, "key": key, "data": []byte(data)})
		require.NoError(t, err)
		return router.ask(text)
	}
	long := strings.Repeat("x", 1<<10)
	record := func(n int) string {
		id := fmt.Sprintf("a-%016x", n)
		return put("put", "records", "replica."+id, fmt.Sprintf(`{"v":1,"instance":"i","seq":1,"replica":{"id":%q,"version":%q}}`, id, long))
	}
	kept := 0
	for kept < 8 && record(kept) == "" {
		kept++
	}
	assert.Equal(t, 6, kept)
	assert.Empty(t, record(0), "a record that is written again takes no more room")
	assert.Contains(t, record(kept), "8 KiB")
	mark := fmt.Sprintf(`{"v":1,"target":"b","by":%q}`, long)
	assert.Contains(t, put("put", "marks", "b", mark), "8 KiB")
	assert.Contains(t, put("create", "marks", "b", mark), "8 KiB")
	assert.Empty(t, put("remove", "records", "replica."+fmt.Sprintf("a-%016x", 0), ""))
	assert.Empty(t, record(kept))
	assert.Empty(t, put("remove", "records", "replica."+fmt.Sprintf("a-%016x", 1), ""))
	assert.Empty(t, put("create", "marks", "b", mark))
	node := holderAsker(t, full.URL(), cluster.RoleNode)
	text, err := json.Marshal(map[string]any{"op": "put", "bucket": "records", "key": "node.a", "data": []byte(`{"v":1,"instance":"i","seq":1,"node":{"name":"a","workers":[]}}`)})
	require.NoError(t, err)
	assert.Empty(t, node.ask(text), "others have room")
}

// TestRepliesAreNoWrites names foreign subjects for the replies of members with all rights.
func TestRepliesAreNoWrites(t *testing.T) {
	full := open(t, cluster.Config{Token: secret})
	up(t, full)
	end, err := full.Reply("link.62", func([]byte) []byte { return []byte(`{"v":1,"target":"c","drain":true}`) })
	require.NoError(t, err)
	defer end()
	heard := make(chan *nats.Msg, 16)
	watcher, err := nats.Connect(full.URL(), nats.Token(secret))
	require.NoError(t, err)
	defer watcher.Close()
	const victim = "$KV.warmpath-marks.c"
	_, err = watcher.ChanSubscribe(victim, heard)
	require.NoError(t, err)
	require.NoError(t, watcher.Flush())
	a := holderAsker(t, full.URL(), cluster.RoleNode)
	require.NoError(t, a.PublishRequest("warmpath.link.62", victim, nil))
	require.NoError(t, a.PublishRequest("warmpath.cluster.store.node.a", victim, []byte(`{"op":"state","bucket":"records"}`)))
	assert.Empty(t, a.ask([]byte(`{"op":"state","bucket":"records"}`)), "the store has seen both")
	// The replier answers in order.
	answered := make(chan struct{}, 1)
	stop, err := full.Subscribe("link.62", func([]byte) {
		select {
		case answered <- struct{}{}:
		default:
		}
	})
	require.NoError(t, err)
	defer stop()
	testkit.AwaitThat(t, func() bool {
		require.NoError(t, a.PublishRequest("warmpath.link.62", "warmpath.cluster.reply.node.a.x", nil))
		select {
		case <-answered:
			return true
		default:
			return false
		}
	}, func() any { return "not answered" })
	require.NoError(t, watcher.Flush())
	assert.Empty(t, heard)
	assert.Empty(t, full.View().Marks)
}

// TestForeignBeats has a node beat, and say goodbye, for another one and for a router.
func TestForeignBeats(t *testing.T) {
	full := open(t, cluster.Config{Token: secret})
	up(t, full)
	require.NoError(t, full.AnnounceNode(node("b")))
	require.NoError(t, full.AnnounceRouter(cluster.Router{ID: full.Instance(), Addr: "127.0.0.1:1"}))
	sees(t, full, "b")
	shows(t, full, func(v *cluster.View) bool { return len(v.Routers) == 1 })
	a := attack(t, full.URL(), token(t, cluster.RoleNode, "a"))
	before := full.Status().Skipped
	beats := []string{
		fmt.Sprintf(`{"v":1,"k":"node","n":"b","i":%q,"bye":true}`, full.Instance()), fmt.Sprintf(`{"v":1,"k":"node","n":"b","i":%q,"s":1,"f":[1,1,1,1,1,1,1,1,1]}`, full.Instance()),
		fmt.Sprintf(`{"v":1,"k":"replica","n":%q,"i":%q,"bye":true}`, full.Instance(), full.Instance()), `{"v":1,"k":"replica","n":"a","i":"x"}`,
	}
	for _, text := range beats {
		require.NoError(t, a.Publish("warmpath.cluster.beat.node.a", []byte(text)))
	}
	testkit.AwaitThat(t, func() bool { return full.Status().Skipped >= before+uint64(len(beats)) }, func() any { return full.Status() })
	v := full.View()
	assert.Equal(t, []string{"b"}, names(v))
	assert.EqualValues(t, 3<<30, v.Nodes[0].GPUs[0].Used)
	assert.Len(t, v.Routers, 1)
}

// TestFloodedStore has a node ask without end. Leases of others end all the same: what is lost are requests of holders, and no beats.
func TestFloodedStore(t *testing.T) {
	full := open(t, cluster.Config{Token: secret})
	up(t, full)
	a := attack(t, full.URL(), token(t, cluster.RoleNode, "a"))
	ctx, stop := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	defer flood.Wait()
	defer stop()
	at := "warmpath.cluster.reply.node.a." + strings.Repeat("0", 32)
	flood.Go(func() {
		for ctx.Err() == nil {
			for range 600 { // more than the store's queue holds
				_ = a.PublishRequest("warmpath.cluster.store.node.a", at, []byte(`{"op":"state","bucket":"records"}`))
			}
			_ = a.FlushTimeout(patience) // this process's PINGs come through, too
			time.Sleep(50 * time.Millisecond)
		}
	})
	testkit.AwaitThat(t, func() bool { return full.Status().Dropped > 0 }, func() any { return "the store keeps up" })
	member, err := nats.Connect(full.URL(), nats.Token(secret))
	require.NoError(t, err)
	defer member.Close()
	seq := 0
	testkit.AwaitThat(t, func() bool {
		seq++ // a new record: on a busy machine its lease may end before anybody looks
		_, err := member.Request("$KV.warmpath-records.node.b", fmt.Appendf(nil, `{"v":1,"instance":"i","seq":%d,"node":{"name":"b","workers":[]}}`, seq), patience)
		require.NoError(t, err)
		return len(full.View().Nodes) == 1
	}, func() any { return full.View() })
	testkit.AwaitThat(t, func() bool { return len(full.View().Nodes) == 0 }, func() any { return "a node that does not beat stays" })
}

func TestTokensOfRoles(t *testing.T) {
	full := open(t, cluster.Config{Token: secret})
	up(t, full)
	text := token(t, cluster.RoleNode, "gpu.1 é")
	role, name, ok := cluster.TokenHolder(text)
	assert.True(t, ok)
	assert.Equal(t, cluster.RoleNode, role)
	assert.Equal(t, "gpu.1 é", name)
	assert.NotContains(t, text, secret)
	inURL := open(t, cluster.Config{URLs: []string{strings.Replace(full.URL(), "nats://", "nats://"+text+"@", 1)}})
	up(t, inURL)
	assert.NotContains(t, inURL.URL(), text)
	require.NoError(t, inURL.AnnounceNode(cluster.Node{Name: "gpu.1 é"}))
	sees(t, full, "gpu.1 é")
	require.ErrorIs(t, inURL.AnnounceNode(node("gpu.2")), cluster.ErrDenied)
	require.ErrorIs(t, inURL.AnnounceRouter(cluster.Router{ID: "r"}), cluster.ErrDenied)
	require.ErrorIs(t, setMark(t.Context(), inURL, cluster.Mark{Target: "gpu.2", Drain: true}), cluster.ErrDenied)

	elsewhere, err := cluster.RoleToken("another secret, of more than 32 characters", cluster.RoleNode, "gpu.1 é")
	require.NoError(t, err)
	raised := strings.Replace(token(t, cluster.RoleNode, "a"), "node.a", "router.a", 1)
	renamed := strings.Replace(token(t, cluster.RoleNode, "a"), "node.a", "node.b", 1)
	for what, wrong := range map[string]string{"of another cluster": elsewhere, "of a higher role": raised, "of another name": renamed, "none": ""} {
		c := open(t, cluster.Config{URLs: []string{full.URL()}, Token: wrong})
		testkit.AwaitThat(t, func() bool { return strings.Contains(c.Status().Reason, "uthorization") }, func() any { return []any{what, c.Status()} })
	}
	for what, call := range map[string]func() (string, error){
		"a short secret": func() (string, error) { return cluster.RoleToken("short", cluster.RoleNode, "a") }, "no role": func() (string, error) { return cluster.RoleToken(secret, "king", "a") },
		"no name": func() (string, error) { return cluster.RoleToken(secret, cluster.RoleNode, "") }, "of a token": func() (string, error) { return cluster.RoleToken(text, cluster.RoleNode, "a") },
		"a router that looks like a process": func() (string, error) { return cluster.RoleToken(secret, cluster.RoleRouter, "a-0123456789abcdef") },
		"a router with a dot":                func() (string, error) { return cluster.RoleToken(secret, cluster.RoleRouter, "a.b") },
		"a user without a role":              func() (string, error) { return cluster.NATSUser(secret, "warmpath") },
	} {
		_, err := call()
		assert.Error(t, err, what)
	}
	require.ErrorIs(t, cluster.Config{Token: text}.Check(), cluster.ErrConfig, "the embedded server needs the secret itself")
}

// TestHoldersAreBounded has the holder of a token open connections and subscriptions without end.
// Those of another holder are not among them, and a place is free again when a connection ends.
func TestHoldersAreBounded(t *testing.T) {
	full := open(t, cluster.Config{Token: secret})
	up(t, full)
	url, node := plain(full), token(t, cluster.RoleNode, "gpu.1")
	connect := func(text string) (*nats.Conn, error) {
		dot := strings.LastIndexByte(text, '.')
		pair, err := nkeys.FromSeed([]byte(text[dot+1:]))
		require.NoError(t, err)
		public, err := pair.PublicKey()
		require.NoError(t, err)
		c, err := nats.Connect(url, nats.Nkey(public, pair.Sign), nats.UserInfo(text[:dot], ""), nats.NoReconnect())
		if err == nil {
			t.Cleanup(c.Close)
		}
		return c, err
	}
	var all []*nats.Conn
	for range 100 {
		c, err := connect(node)
		if err != nil {
			require.ErrorIs(t, err, nats.ErrAuthorization)
			break
		}
		all = append(all, c)
	}
	require.Len(t, all, 8)
	_, err := connect(token(t, cluster.RoleNode, "gpu2"))
	require.NoError(t, err)
	all[0].Close()
	testkit.AwaitThat(t, func() bool { _, err := connect(node); return err == nil }, func() any { return "no place is free" })

	one := all[1] // and has a bound of its own
	for i := range 10_000 {
		if _, err = one.SubscribeSync(fmt.Sprintf("warmpath.cluster.beat.%d", i)); err == nil && i%100 == 0 {
			err = one.Flush()
		}
		if err != nil {
			break
		}
	}
	require.ErrorContains(t, one.LastError(), "maximum subscriptions")
	up(t, holder(t, url, cluster.RoleNode, "gpu2"))
}
