package main

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
	"github.com/warmpath/warmpath/dataplane/sidecar"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

var metricsRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\| (.*?) \\| (.*) \\|$")

// TestMetricsPageIsTrue: what a router and a sidecar serve is in docs/reference/metrics.md, with that type, help and labels. The page is made of the
// code's text, and this is the code at work.
func TestMetricsPageIsTrue(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	require.NoError(t, err)
	rows := map[string][]string{}
	for _, row := range metricsRow.FindAllStringSubmatch(string(page), -1) {
		rows[row[1]] = row[2:]
	}
	log, dir := slog.New(slog.DiscardHandler), t.TempDir()
	cfg := router.Config{
		Listen: "127.0.0.1:0", Log: log, Logs: config.Logs{Access: filepath.Join(dir, "access.jsonl"), LintSample: 1},
		Snapshot: config.Snapshot{File: filepath.Join(dir, "snapshot")},
	}
	unhurried(&cfg)
	cl, err := newCluster(clusterSize{workers: 1, prefill: 1, decode: 1}, sim.Config{TimeScale: 1000, Log: log}, cfg)
	require.NoError(t, err)
	runCluster(t, cl, 3)
	for range 3 {
		resp, err := http.Post("http://"+cl.router.Addr()+"/generate", "application/json", strings.NewReader(`{"text":"x","sampling_params":{"max_new_tokens":2}}`))
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	testkit.AwaitThat(t, func() bool { return busy(cl) == "" }, func() string { return busy(cl) })
	seen := checkPage(t, rows, "http://"+cl.router.OperatorAddr()+"/metrics")
	require.Greater(t, seen, 60)

	node, err := sidecar.New(sidecar.Config{Name: "n", Listen: "127.0.0.1:0", NoDiscovery: true, Workers: []string{cl.sims[0].URL()}, Log: log})
	require.NoError(t, err)
	runTo(t, node.Run)
	checkPage(t, rows, "http://"+node.Addr()+"/metrics")
}

// checkPage compares the series of Warmpath at a URL with the page, and returns their number.
func checkPage(t *testing.T, rows map[string][]string, url string) (seen int) {
	t.Helper()
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	require.NoError(t, err)
	for name, f := range families {
		if !strings.HasPrefix(name, "warmpath_") {
			continue
		}
		seen++
		row := rows[name]
		require.NotNil(t, row, "%s is not in docs/reference/metrics.md", name)
		assert.Equal(t, strings.ToLower(f.GetType().String()), row[0], name)
		assert.Equal(t, strings.ReplaceAll(f.GetHelp(), "|", "\\|"), row[2], name)
		var labels []string
		for _, pair := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+pair.GetName()+"`")
		}
		want := strings.Fields(row[1])
		slices.Sort(labels)
		slices.Sort(want)
		assert.Equal(t, want, append([]string{}, labels...), name)
	}
	return seen
}
