package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// A request to a node whose tier lacks what another node's has makes it pull the pages, before any engine has asked.
func TestARequestBringsItsPages(t *testing.T) {
	nats, addrs, dir := natstest.Start(t), freePorts(t, 4), socketDir(t)
	s := &tierSite{
		t: t, front: addrs[2], workers: []string{"http://" + addrs[0], "http://" + addrs[1]},
		sockets: []string{filepath.Join(dir, "first.sock"), filepath.Join(dir, "second.sock")},
	}
	gone := newProcess(t, "sim", "--listen", addrs[0], "--time-scale", "10")
	newProcess(t, "sim", "--listen", addrs[1], "--time-scale", "10")
	s.first = newProcess(t, "node", "--cluster", nats.URL(), "--listen", "127.0.0.1:0", "--name", "first", "--no-find", "--worker", s.workers[0],
		"--kv-tier", "16MiB", "--kv-tier-socket", s.sockets[0], "--kv-tier-no-nixl", "--link-every", "0")
	pages := s.runSecond(nats.URL(), true)
	newProcess(t, serveArgs("--cluster", nats.URL(), "--listen", s.front)...)
	newProcess(t, serveArgs("--cluster", nats.URL(), "--listen", addrs[3], "--kv-hints", "off")...)
	other := *s
	other.front = addrs[3]

	dialTierEngine(t, s.sockets[1], "0/1") // and asks for nothing
	engine := dialTierEngine(t, s.sockets[0], "0/1")
	ids, later := prompt(4000, 1), prompt(1600, 2)
	engine.store(ids)
	engine.store(later)
	for _, router := range []*tierSite{s, &other} {
		router.await(ids, tierOverlap{tier: 3984}, tierOverlap{remote: 3984})
		router.await(later, tierOverlap{tier: 1584}, tierOverlap{remote: 1584})
	}
	testkit.AwaitThat(t, func() bool { return pages.Stats().Peers == 1 }, func() string { return "the tiers do not know each other" })
	gone.kill() // the worker next to the pages
	ask := func(router *tierSite, ids []uint32) {
		t.Helper()
		body := must(json.Marshal(map[string]any{"input_ids": ids, "sampling_params": map[string]any{"max_new_tokens": 1}}))
		require.Contains(t, fetch(http.MethodPost, "http://"+router.front+"/generate", string(body)), "meta_info")
	}
	ask(&other, later) // by the router that tells nobody
	ask(s, ids)
	testkit.AwaitThat(t, func() bool { return pages.Stats().Hints.Pulled == 249 }, func() string { return string(must(json.Marshal(pages.Stats()))) })
	got := pages.Stats()
	assert.Zero(t, got.Lookups, "an engine has asked")
	assert.EqualValues(t, 1, got.Hints.Received, "the other router has told, too")
	assert.EqualValues(t, 249, got.Pulled)
	text := ""
	testkit.AwaitThat(t, func() bool { // routers know that they are there
		text = fetch(http.MethodGet, "http://"+s.front+"/metrics", "")
		return strings.Contains(text, `warmpath_shelf_node_pages{node="second"} 249`)
	}, func() string { return text })
	for _, want := range []string{
		"warmpath_kv_hints_sent_total 1\n", "warmpath_kv_hinted_tokens_total 3984\n", `warmpath_kv_hints_dropped_total{why="overflow"} 0`,
		`warmpath_expected_fetch_tokens_total{from="peer"} 3984`,
		`warmpath_fetched_tokens_total 0`, // simulated workers ask no tier
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, fetch(http.MethodGet, "http://"+other.front+"/metrics", ""), "warmpath_kv_hints_sent_total")
}
