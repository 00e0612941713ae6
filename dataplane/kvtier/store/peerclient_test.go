package store

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/nixl"
	"github.com/warmpath/warmpath/nixl/nixltest"
)

// fabrics are the transports between nodes; nil is TCP.
func fabrics() map[string]func() nixl.Fabric {
	return map[string]func() nixl.Fabric{
		"tcp":      func() nixl.Fabric { return nil },
		"loopback": func() nixl.Fabric { return nixltest.NewLoopback() },
	}
}

// pair serves two nodes that are peers.
func pair(t *testing.T, f nixl.Fabric) (a, b *Store) {
	t.Helper()
	a = serve(t, Config{Listen: "127.0.0.1:0", Node: "a", Fabric: f})
	b = serve(t, Config{Listen: "127.0.0.1:0", Node: "b", Fabric: f})
	meet(t, f, a, b)
	return a, b
}

// meet makes stores peers of each other, and waits until they are connected.
func meet(t *testing.T, f nixl.Fabric, tiers ...*Store) {
	t.Helper()
	for _, tier := range tiers {
		if f != nil {
			eventually(t, "NIXL", func() bool { return tier.Stats().NIXL })
		}
		var peers []Peer
		for _, other := range tiers {
			if other != tier {
				peers = append(peers, Peer{other.cfg.Node, other.Endpoint()})
			}
		}
		tier.SetPeers(peers)
	}
	for _, tier := range tiers {
		eventually(t, "the peers", func() bool { return tier.Stats().Peers == int64(len(tiers)-1) })
	}
}

func TestPagesFromAPeer(t *testing.T) {
	for name, fabric := range fabrics() {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, fabric())
			on, here := dialTier(t, a, "m"), dialTier(t, b, "m")
			hashes := on.store(1, 300)
			here.finds("without time to ask peers", 0, hashes, 0)
			here.finds("from the peer", 300, hashes, patience)
			here.reads("from the peer", 300, 1, hashes, patience)
			s := b.Stats()
			if s.Pulled != 300 || s.PulledBytes != 300*testBytes || a.Stats().Served != 300 || s.Quarantined != 0 {
				t.Errorf("pulled %d pages and %d bytes, served %d; want 300", s.Pulled, s.PulledBytes, a.Stats().Served)
			}
			eventually(t, "the source keeps no pins", func() bool { return a.Stats().Pins == 0 })
			here.reads("the second time", 300, 1, hashes, 0)
			if n := b.Stats().Pulled; n != 300 {
				t.Errorf("%d pages were pulled in all, want 300", n)
			}
		})
	}
}

func TestPrefixIsHereAndRestElsewhere(t *testing.T) {
	a, b := pair(t, nil)
	on, here := dialTier(t, a, "m"), dialTier(t, b, "m")
	hashes := on.store(1, 64)
	here.store(1, 10)
	here.finds("10 here and 40 more at a peer", 50, append(hashes[:50:50], chain(2, 3)...), patience)
	here.reads("10 here and 40 more at a peer", 50, 1, hashes[:50], patience)
	if n := b.Stats().Pulled; n != 40 {
		t.Errorf("%d pages were pulled, want the 40 that were not here", n)
	}
}

func TestHintBringsPages(t *testing.T) {
	a, b := pair(t, nil)
	name := `{"model":"tiny","rank":"0/1","tokens":4}`
	on, here := dialTier(t, a, name), dialTier(t, b, name)
	hashes := on.store(7, 25)
	post := func(body string) (int, string) {
		var ctx fasthttp.RequestCtx
		ctx.Request.SetRequestURI("/prefetch")
		ctx.Request.Header.SetMethod("POST")
		ctx.Request.SetBodyString(body)
		if !b.Handle(&ctx) {
			t.Fatal("the store has no such page")
		}
		return ctx.Response.StatusCode(), string(ctx.Response.Body())
	}
	ids := strings.Repeat("7,", 99) + "7"
	for model, want := range map[string]string{"tiny": `{"namespaces":1,"pages":25,"ready":25}`, "other": `{"namespaces":0,"pages":0,"ready":0}`} {
		if status, text := post(fmt.Sprintf(`{"model":%q,"input_ids":[%s]}`, model, ids)); status != 200 || text != want+"\n" {
			t.Fatalf("a hint for %s is answered %d, %s; want %s", model, status, text, want)
		}
	}
	eventually(t, "the pages are here before anybody asked for them", func() bool { return b.Stats().Pulled == 25 })
	here.reads("hinted", 25, 7, hashes, 0)
	for _, bad := range []string{"", "{}", `{"input_ids":["x"]}`} {
		if status, text := post(bad); status != 400 || !strings.Contains(text, "POST a hint") {
			t.Errorf("the hint %s is answered %d, %s", bad, status, text)
		}
	}
}

// A peer that dies or hangs costs its own pages only, and reconnects by itself.
func TestPeerDies(t *testing.T) {
	for name, fabric := range fabrics() {
		t.Run(name, func(t *testing.T) {
			f := fabric()
			a, stop := serveUntil(t, Config{Listen: natstest.Address(t), Node: "a", Fabric: f})
			defer stop()
			b := serve(t, Config{Listen: "127.0.0.1:0", Node: "b", Fabric: f})
			meet(t, f, a, b)
			on, here := dialTier(t, a, "m"), dialTier(t, b, "m")
			hashes := on.store(1, 64)
			here.exists(hashes[:10], patience)
			here.check(1, hashes[:10], patience)
			endpoint := a.Endpoint()
			stop()
			here.finds("after the peer's death", 10, hashes, patience)
			again := serve(t, Config{Listen: endpoint, Node: "a", Fabric: f})
			dialTier(t, again, "m").store(1, 64)
			if f != nil {
				eventually(t, "NIXL", func() bool { return again.Stats().NIXL })
			}
			eventually(t, "the peer is back", func() bool { return b.Stats().Peers == 1 })
			here.finds("of the peer that came back", 64, hashes, patience)
			here.reads("of the peer that came back", 64, 1, hashes, patience)
		})
	}
}

// A peer that is silent or sends garbage is not connected, and delays no question.
func TestMutePeers(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer mute.Close()
	garbage, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	defer all.Wait()
	defer garbage.Close()
	said := make(chan struct{}, 1)
	all.Go(func() {
		for {
			c, err := garbage.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\nand more than a header is long\r\n"))
			c.Close()
			select {
			case said <- struct{}{}:
			default:
			}
		}
	})
	b := serve(t, Config{})
	b.SetPeers([]Peer{{"mute", mute.Addr().String()}, {"garbage", garbage.Addr().String()}})
	<-said
	here := dialTier(t, b, "m")
	here.finds("of peers that do not speak the protocol", 0, chain(1, 5), patience)
	here.store(1, 5)
	if s := b.Stats(); s.Peers != 0 || s.Pages != 5 {
		t.Errorf("%d peers and %d pages, want 0 and 5", s.Peers, s.Pages)
	}
}

// The slots of an abandoned transfer are used for nothing else until it cannot write any more.
func TestQuarantine(t *testing.T) {
	f := nixltest.NewLoopback()
	a, b := pair(t, f)
	on, here := dialTier(t, a, "m"), dialTier(t, b, "m")
	hashes := on.store(1, 8)
	held, asked := make(chan struct{}), make(chan struct{}, 16)
	f.OnPost(func(nixltest.Request) nixltest.Outcome {
		asked <- struct{}{}
		return nixltest.Outcome{Until: held}
	})
	here.finds("from the peer", 8, hashes, patience)
	<-asked
	f.BlockDestroy(held) // else the agent's end would end the transfer at once
	b.SetPeers(nil)      // the operator takes the peer away in the middle
	eventually(t, "the transfer is in quarantine", func() bool { return b.Stats().Quarantined == 8 })
	here.reads("of a transfer that did not end", 0, 1, hashes, 0)
	const many = 512
	other := here.store(2, many) // which must not lie where the transfer writes
	f.OnPost(nil)
	f.BlockDestroy(nil)
	close(held)
	eventually(t, "the transfer has ended", func() bool { return b.Stats().Quarantined == 0 })
	here.reads("stored meanwhile", many, 2, other, 0)
}

func TestSelfIsNoPeer(t *testing.T) {
	a := serve(t, Config{Listen: "127.0.0.1:0"})
	b := serve(t, Config{Listen: "127.0.0.1:0"})
	a.SetPeers([]Peer{{"a", a.Endpoint()}, {"b", b.Endpoint()}})
	eventually(t, "the other one", func() bool { return a.Stats().Peers == 1 })
	dialTier(t, a, "m").exists(chain(1, 3), time.Second)
	if n := a.Stats().Peers; n != 1 {
		t.Errorf("%d peers, want 1", n)
	}
}
