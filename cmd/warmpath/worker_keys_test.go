package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/fleet"
	workers "github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// The keys of simulated engines.
const (
	engineKey = "sk-engine-0123456789"
	adminKey  = "sk-admin-9876543210"
)

// keyFile writes a file of keys as an operator replaces it.
func keyFile(t *testing.T, file, text string) string {
	t.Helper()
	if file == "" {
		file = filepath.Join(t.TempDir(), "keys")
	}
	require.NoError(t, os.WriteFile(file+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
	return file
}

// askWith sends a request and returns the status and the whole answer, its head included.
func askWith(t *testing.T, method, url, body, authorization string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var all bytes.Buffer
	require.NoError(t, resp.Header.Write(&all))
	_, err = io.Copy(&all, resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, all.String()
}

// TestWorkersWithKeys: engines with --api-key and --admin-api-key are served blind while the router has another key, which it says
// with the flag to set, and exactly once the file has the right one. Nobody learns the keys from the router.
func TestWorkersWithKeys(t *testing.T) {
	for name, size := range map[string]clusterSize{"whole": {workers: 2}, "pairs": {prefill: 1, decode: 1}} {
		t.Run(name, func(t *testing.T) {
			log := &testkit.Text{}
			worker := pairWorker()
			worker.APIKey, worker.AdminAPIKey = engineKey, adminKey
			cfg := router.Config{
				Listen: "127.0.0.1:0", Sources: fleet.SourceConfig{KeyFile: keyFile(t, "", "wrong\n")}, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			}
			unhurried(&cfg)
			cl, err := newCluster(size, worker, cfg)
			require.NoError(t, err)
			base := runCluster(t, cl, max(size.workers, 1)) // the bootstrap port of a prefill worker is in its description
			testkit.AwaitThat(t, func() bool {
				all := cl.router.Status().Workers
				return len(all) == 2 && !slices.ContainsFunc(all, func(w admin.WorkerStatus) bool { return w.Error == "" })
			}, func() string { return fmt.Sprintf("a worker does not refuse: %+v", cl.router.Status().Workers) })
			shown := "" // all that the router has said
			get := func(path string) string {
				_, text := askWith(t, http.MethodGet, base+path, "", "")
				shown += text
				return text
			}
			for _, w := range cl.router.Status().Workers {
				assert.Contains(t, w.Error, "401")
				assert.Contains(t, w.Error, "--worker-api-key-file")
			}
			assert.Contains(t, get("/status"), "--worker-api-key-file")
			status, text := askWith(t, http.MethodPost, base+"/flush_cache", "", "")
			assert.Equal(t, http.StatusBadGateway, status)
			assert.Contains(t, text, "--worker-api-key-file")

			keyFile(t, cfg.Sources.KeyFile, "# rotated\n"+engineKey+" "+adminKey+"\n")
			testkit.AwaitThat(t, func() bool {
				for _, w := range cl.router.Status().Workers {
					if w.Error != "" || w.Engine != "" || w.State != "ready" || (w.Events.State != "live" && w.Role != "decode") {
						return false
					}
				}
				return true
			}, func() string { return get("/status") })
			body := `{"model":"` + worker.Model + `","text":"hello","sampling_params":{"max_new_tokens":4}}`
			if size.workers > 0 {
				ids := prompt(10*page, 1)
				assert.Equal(t, 0, generate(t, cl, ids, "").matched)
				assert.Equal(t, 9, generate(t, cl, ids, "").matched, "the events are followed")
			}
			status, text = askWith(t, http.MethodPost, base+"/generate", body, "")
			assert.Equal(t, http.StatusOK, status, text)
			shown += text
			status, text = askWith(t, http.MethodPost, base+"/generate", body, "Bearer of-a-client")
			assert.Equal(t, http.StatusUnauthorized, status, "a client's own key is the client's")
			shown += text
			status, text = askWith(t, http.MethodPost, base+"/generate", body, "Bearer "+engineKey)
			assert.Equal(t, http.StatusOK, status, text)
			status, text = askWith(t, http.MethodPost, base+"/v1/tokenize", `{"model":"`+worker.Model+`","prompt":"x"}`, "")
			assert.Equal(t, http.StatusOK, status, text)
			shown += text
			testkit.AwaitThat(t, func() bool { return busy(cl) == "" }, func() string { return busy(cl) })
			status, text = askWith(t, http.MethodPost, base+"/flush_cache", "", "")
			assert.Equal(t, http.StatusOK, status, text)
			shown += text
			before := strings.Count(log.String(), "refuses aborts")
			var long sync.WaitGroup
			enough := make(chan struct{})
			long.Go(func() { // some of these meet their abort
				for {
					askWith(t, http.MethodPost, base+"/generate", strings.Replace(body, `4}`, `2000,"ignore_eos":true},"rid":"x"`, 1), "")
					select {
					case <-enough:
						return
					default:
					}
				}
			})
			testkit.AwaitThat(t, func() bool {
				status, _ := askWith(t, http.MethodPost, base+"/abort_request", `{"rid":"x"}`, "")
				assert.Equal(t, http.StatusOK, status)
				return regexp.MustCompile("(?m)^warmpath_aborts_total [2-9]").MatchString(get("/metrics"))
			}, func() string { return "no aborts" })
			close(enough)
			long.Wait()
			assert.Equal(t, before, strings.Count(log.String(), "refuses aborts"))
			for _, path := range []string{"/status", "/workers", "/metrics", "/v1/models", "/model_info", "/ready", "/console"} {
				get(path)
			}
			for _, secret := range []string{engineKey, adminKey, "wrong\n"} {
				assert.NotContains(t, shown, secret)
				assert.NotContains(t, log.String(), secret)
			}
		})
	}
}

// TestDoctorKeys: doctor says what a refusal is, and examines the worker with its key.
func TestDoctorKeys(t *testing.T) {
	cl, _ := startWith(t, clusterSize{workers: 1}, sim.Config{APIKey: engineKey, Log: slog.New(slog.DiscardHandler)}, router.Config{Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	url := cl.sims[0].URL()
	for _, args := range [][]string{{url}, {url, "--worker-api-key-file", keyFile(t, "", "another\n")}} {
		found, failed := runDoctor(t, args...)
		require.ErrorIs(t, failed, errUnfit)
		f := find(t, found, url)
		assert.Equal(t, stateUnfit, f.State)
		assert.Contains(t, f.Detail, "401")
		assert.Contains(t, f.Detail, "--worker-api-key-file")
	}
	found, failed := runDoctor(t, url, "--worker-api-key-file", keyFile(t, "", url+" "+engineKey+"\n"))
	require.NoError(t, failed)
	assert.Equal(t, stateOK, find(t, found, url).State)
	assert.Equal(t, stateOK, find(t, found, url+" events").State)
}

// TestServerInfoIsNotForClients: an engine's description has its keys. However the path is written, no client gets it; another
// router still knows this one for a router.
func TestServerInfoIsNotForClients(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	cfg := router.Config{Listen: "127.0.0.1:0", Sources: fleet.SourceConfig{KeyFile: keyFile(t, "", engineKey+" "+adminKey)}, Log: quiet}
	unhurried(&cfg)
	_, base := startWith(t, clusterSize{workers: 1}, sim.Config{APIKey: engineKey, AdminAPIKey: adminKey, Log: quiet}, cfg)
	for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS"} {
		for _, path := range []string{
			"/server_info", "/get_server_info", "/server_info?x=1", "//server_info", "/%73erver_info", "/v1/models/../../server_info",
			"/v1/models/%2e%2e/%2e%2e/server_info", "/v1/models/..%2f..%2fserver_info", "/v1/models/../%73erver_info", "/server_info/", "/server_info%00",
		} {
			for _, key := range []string{"", "Bearer " + engineKey} {
				status, text := askWith(t, method, base+path, "", key)
				assert.Contains(t, []int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed}, status, "%s %s", method, path)
				assert.NotContains(t, text, engineKey)
				assert.NotContains(t, text, adminKey)
			}
		}
	}
	_, err := workers.Identify(t.Context(), base, workers.Config{Timeout: patience})
	require.ErrorIs(t, err, workers.ErrNotWorker)
	require.ErrorContains(t, err, "is a router")
	behind := router.Config{Listen: "127.0.0.1:0", Log: quiet}
	behind.Sources.Workers = []string{base}
	unhurried(&behind)
	front, err := router.New(behind)
	require.NoError(t, err)
	runTo(t, front.Run)
	testkit.AwaitThat(t, func() bool {
		all := front.Status().Workers
		return len(all) == 1 && all[0].Engine == "a Warmpath router"
	}, func() string { return fmt.Sprintf("%+v", front.Status().Workers) })
}
