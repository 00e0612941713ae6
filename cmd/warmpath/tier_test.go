package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/kvtier/announce"
	"github.com/warmpath/warmpath/dataplane/kvtier/directory"
	"github.com/warmpath/warmpath/dataplane/kvtier/hint"
	"github.com/warmpath/warmpath/dataplane/kvtier/store"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// tierSite is two nodes with a worker and a KV tier each, and a router. The first node is a
// process; the second one is told of by the test, since only it can say that the link between
// them was measured where there is no NIXL.
type tierSite struct {
	t       *testing.T
	front   string
	workers []string // URLs
	first   *process
	sockets []string
}

// socketDir is a folder for sockets, whose paths may have 107 bytes: t.TempDir's has more where
// TMPDIR is long.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "warmpath-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func startTierSite(t *testing.T) *tierSite {
	t.Helper()
	nats := natstest.Start(t)
	addrs := freePorts(t, 3)
	dir := socketDir(t)
	s := &tierSite{
		t: t, front: addrs[2], workers: []string{"http://" + addrs[0], "http://" + addrs[1]},
		sockets: []string{filepath.Join(dir, "first.sock"), filepath.Join(dir, "second.sock")},
	}
	for _, addr := range addrs[:2] {
		newProcess(t, "sim", "--listen", addr, "--time-scale", "10")
	}
	s.first = newProcess(t, "node", "--cluster", nats.URL(), "--listen", "127.0.0.1:0", "--name", "first", "--no-find", "--worker", s.workers[0],
		"--kv-tier", "16MiB", "--kv-tier-socket", s.sockets[0], "--kv-tier-no-nixl", "--link-every", "0")
	s.runSecond(nats.URL(), false)
	newProcess(t, serveArgs("--cluster", nats.URL(), "--listen", s.front)...)
	return s
}

// runSecond runs the KV tier of the second node and writes its record, with a measured link to the
// first node. A tier that pulls knows its peers and hears pull hints.
func (s *tierSite) runSecond(url string, pulls bool) *store.Store {
	s.t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	joined, err := cluster.Open(s.t.Context(), cluster.Config{URLs: []string{url}, Log: quiet})
	require.NoError(s.t, err)
	pages, err := store.New(store.Config{Bytes: 16 << 20, Socket: s.sockets[1], Node: "second", AskTimeout: patience, Log: quiet})
	require.NoError(s.t, err)
	require.NoError(s.t, joined.AnnounceNode(cluster.Node{
		Name: "second", Workers: []cluster.Worker{{URL: s.workers[1]}}, Tier: pages.Record(),
		Links: []cluster.Link{{To: "first", Read: 50e9, Write: 50e9}},
	}))
	a := announce.New(announce.Config{Node: "second", Bus: joined, Source: pages.ChangeFeed(), Log: quiet})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	var stops []func()
	if pulls {
		stops = append(stops, joined.Watch(func(v *cluster.View) {
			var peers []store.Peer
			for i := range v.Nodes {
				if n := &v.Nodes[i]; n.Tier != nil && n.Name != "second" {
					peers = append(peers, store.Peer{Name: n.Name, Endpoint: n.Tier.Endpoint})
				}
			}
			pages.SetPeers(peers)
		}))
		silence, err := joined.Subscribe(hint.Subject("second"), pages.TakeHint)
		require.NoError(s.t, err)
		stops = append(stops, silence)
	}
	go func() { ended <- errors.Join(pages.Run(ctx), pages.Close()) }()
	go func() { a.Run(ctx); ended <- nil }()
	s.t.Cleanup(func() {
		for _, end := range stops {
			end()
		}
		stop()
		for range 2 {
			require.NoError(s.t, <-ended)
		}
		require.NoError(s.t, joined.Close())
	})
	return pages
}

// tierOverlap is the overlap of a worker's tier, and of remote tiers, with a prompt.
type tierOverlap struct{ tier, remote int }

// explain asks the router for its choice and the overlap of each worker.
func (s *tierSite) explain(ids []uint32) (winner string, got map[string]tierOverlap, text string) {
	s.t.Helper()
	body, err := json.Marshal(map[string]any{"input_ids": ids, "sampling_params": map[string]any{}})
	require.NoError(s.t, err)
	text = fetch(http.MethodPost, "http://"+s.front+"/explain", string(body))
	var said struct {
		Winner string
		Ranks  []struct {
			ID      string
			Overlap *struct{ Tier, Remote int }
		}
	}
	if json.Unmarshal([]byte(text), &said) != nil {
		return "", nil, text
	}
	got = map[string]tierOverlap{}
	for _, r := range said.Ranks {
		if r.Overlap != nil {
			got[r.ID] = tierOverlap{r.Overlap.Tier, r.Overlap.Remote}
		}
	}
	return said.Winner, got, text
}

// await waits until the router says this of the first and the second worker; a worker that it
// does not know counts as one that could fetch nothing.
func (s *tierSite) await(ids []uint32, first, second tierOverlap) {
	s.t.Helper()
	var last string
	testkit.AwaitThat(s.t, func() bool {
		var got map[string]tierOverlap
		_, got, last = s.explain(ids)
		return len(got) > 0 && got[s.workers[0]] == first && got[s.workers[1]] == second
	}, func() string { return last })
}

// A router knows the pages in tiers and sends prompts there; it forgets a killed node with all
// its pages.
func TestRoutersKnowWhatTiersHold(t *testing.T) {
	t.Parallel()
	s := startTierSite(t)
	ids, none := prompt(4000, 1), tierOverlap{}
	testkit.AwaitThat(t, func() bool { _, got, _ := s.explain(ids); return len(got) == 2 }, func() string { return "not both workers are known" })
	s.await(ids, none, none)

	// An engine of two ranks: pages of one rank alone are useless.
	ranks := []*tierEngine{dialTierEngine(t, s.sockets[0], "0/2"), dialTierEngine(t, s.sockets[0], "1/2")}
	other := dialTierEngine(t, s.sockets[1], "0/2")
	ranks[0].store(ids)
	ranks[1].store(ids[:1600])
	s.await(ids, tierOverlap{tier: 1600}, tierOverlap{remote: 1600})
	ranks[1].store(ids)
	s.await(ids, tierOverlap{tier: 3984}, tierOverlap{remote: 3984}) // whole pages, and never the last token
	for seed := range 20 {
		body := bytes.NewReader(must(json.Marshal(map[string]any{"input_ids": append(ids[:3200:3200], prompt(300, 50+seed)...), "sampling_params": map[string]any{}})))
		resp, err := http.Post("http://"+s.front+"/explain?seed="+string(rune('1'+seed%9)), "application/json", body)
		require.NoError(t, err)
		var said struct{ Winner string }
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&said))
		resp.Body.Close()
		assert.Equal(t, s.workers[0], said.Winner, "its tier has the prompt")
	}
	other.store(ids) // the second node has all of it itself
	s.await(ids, tierOverlap{tier: 3984}, tierOverlap{tier: 3984})
	text := fetch(http.MethodGet, "http://"+s.front+"/metrics", "")
	for _, want := range []string{
		`warmpath_shelf_node_pages{node="first"} 250`, `warmpath_shelf_node_pages{node="second"} 250`, "warmpath_shelf_pages 250", "warmpath_shelf_left_out_pages_total 0",
	} {
		assert.Contains(t, text, want)
	}

	var status struct{ Tiers directory.Status }
	require.NoError(t, json.Unmarshal([]byte(fetch(http.MethodGet, "http://"+s.front+"/status", "")), &status))
	require.Len(t, status.Tiers.Nodes, 2)
	assert.Equal(t, 250, status.Tiers.Nodes[0].Pages)
	assert.True(t, status.Tiers.Nodes[0].Known)

	began := time.Now()
	s.first.kill()
	s.await(ids, none, tierOverlap{tier: 3984})
	t.Logf("a killed node's tier is forgotten after %v", time.Since(began))
	s.first.start()
	testkit.AwaitThat(t, func() bool { _, got, _ := s.explain(ids); return len(got) == 2 }, func() string { return "the first worker is not back" })
	s.await(ids, none, tierOverlap{tier: 3984}) // nothing stale, and no engine that could take it from the other node
	ranks = []*tierEngine{dialTierEngine(t, s.sockets[0], "0/2"), dialTierEngine(t, s.sockets[0], "1/2")}
	s.await(ids, tierOverlap{remote: 3984}, tierOverlap{tier: 3984})
	began = time.Now()
	for _, rank := range ranks {
		rank.store(ids[:800])
	}
	s.await(ids, tierOverlap{tier: 800, remote: 3184}, tierOverlap{tier: 3984})
	t.Logf("stored pages are known after %v", time.Since(began))
	require.False(t, strings.Contains(s.first.log.String(), "level=ERROR"))
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// changeWeights changes the weights of an engine: its backend leaves the old name of its pages,
// and connects with another one.
func (e *tierEngine) changeWeights(socket, rank, weights string) *tierEngine {
	e.t.Helper()
	_, err := e.conn.Write(e.frame(tierRetire, nil))
	require.NoError(e.t, err)
	require.NoError(e.t, e.conn.Close())
	return dialTierWeights(e.t, socket, rank, weights)
}

// A router counts on pages of a tier only for engines with the weights that computed them, and on
// none after a clear.
func TestRoutersForgetPagesOfOtherWeights(t *testing.T) {
	t.Parallel()
	s := startTierSite(t)
	ids, none := prompt(400, 1), tierOverlap{}
	testkit.AwaitThat(t, func() bool { _, got, _ := s.explain(ids); return len(got) == 2 }, func() string { return "not both workers are known" })
	first, second := dialTierEngine(t, s.sockets[0], "0/1"), dialTierEngine(t, s.sockets[1], "0/1")
	first.store(ids)
	whole := (len(ids) - 1) / page * page // a prompt's last token is always computed
	s.await(ids, tierOverlap{tier: whole}, tierOverlap{remote: whole})

	second = second.changeWeights(s.sockets[1], "0/1", "second")
	s.await(ids, tierOverlap{tier: whole}, none)
	second.store(ids)
	s.await(ids, tierOverlap{tier: whole}, tierOverlap{tier: whole})
	first = first.changeWeights(s.sockets[0], "0/1", "second")
	s.await(ids, tierOverlap{remote: whole}, tierOverlap{tier: whole})

	first.store(ids)
	s.await(ids, tierOverlap{tier: whole}, tierOverlap{tier: whole})
	first.ask(tierClear, make([]byte, 4))
	second.ask(tierClear, make([]byte, 4)) // the two tiers of this site are no peers
	s.await(ids, none, none)
	second.store(ids)
	s.await(ids, tierOverlap{remote: whole}, tierOverlap{tier: whole})
}
