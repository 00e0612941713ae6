package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/fleet"
	"github.com/warmpath/warmpath/dataplane/router"
)

// newKey runs `warmpath key new` and returns the key and its line.
func newKey(t *testing.T, args ...string) (secret, line string) {
	t.Helper()
	var out, hint bytes.Buffer
	c := newRoot()
	c.SetArgs(append([]string{"key", "new"}, args...))
	c.SetOut(&out)
	c.SetErr(&hint)
	require.NoError(t, c.ExecuteContext(t.Context()))
	fields := strings.Fields(hint.String())
	secret = fields[len(fields)-1]
	assert.NotContains(t, out.String(), secret)
	return secret, out.String()
}

// TestClientKeys: engines with a key are served to clients with keys of their own, from the command that makes one to the change of the
// file that takes it away.
func TestClientKeys(t *testing.T) {
	alice, line := newKey(t, "alice", "requests-per-minute=1000")
	bob, other := newKey(t, "bob", "models=another")
	file, access := keyFile(t, "", line+other), filepath.Join(t.TempDir(), "access")
	log := &logText{}
	cfg := router.Config{
		Listen: "127.0.0.1:0", Sources: fleet.SourceConfig{KeyFile: keyFile(t, "", engineKey+"\n")}, Log: slog.New(slog.NewTextHandler(log, nil)),
	}
	cfg.Requests.Clients.Keys, cfg.Logs.Access = file, access
	unhurried(&cfg)
	cl, err := newCluster(clusterSize{workers: 1}, sim.Config{APIKey: engineKey, Log: slog.New(slog.DiscardHandler)}, cfg)
	require.NoError(t, err)
	base := runCluster(t, cl, 1)
	ask := func(key string) (int, string) {
		return askWith(t, http.MethodPost, base+"/generate", `{"text":"hello","sampling_params":{"max_new_tokens":4}}`, "Bearer "+key)
	}
	for key, want := range map[string]int{alice: http.StatusOK, bob: http.StatusForbidden, "": http.StatusUnauthorized, engineKey: http.StatusUnauthorized} {
		status, text := ask(key)
		assert.Equal(t, want, status, text)
	}
	awaitThat(t, func() bool { text, _ := os.ReadFile(access); return bytes.Contains(text, []byte(`"key":"alice"`)) }, func() string { return "no line in the access log" })
	_, metrics := askWith(t, http.MethodGet, base+"/metrics", "", "")
	assert.Contains(t, metrics, `warmpath_client_key_requests_total{key="alice"} 1`)
	assert.Contains(t, metrics, `warmpath_client_key_refused_total{key="bob",limit="model"} 1`)

	keyFile(t, file, other)
	awaitThat(t, func() bool { status, _ := ask(alice); return status == http.StatusUnauthorized }, func() string { return "alice is still let in" })
	keyFile(t, file, "nonsense\n")
	awaitThat(t, func() bool { return strings.Contains(log.String(), "cannot reload") }, func() string { return log.String() })
	status, _ := ask(bob)
	assert.Equal(t, http.StatusForbidden, status, "a bad file leaves the keys of before")
	for _, secret := range []string{alice, bob, engineKey} {
		assert.NotContains(t, log.String()+metrics, secret)
	}
}

// TestBadClientKeys: a router without usable keys does not start, and says why.
func TestBadClientKeys(t *testing.T) {
	cfg := router.Config{Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}
	cfg.Requests.Clients.Keys = keyFile(t, "", "alice not-a-hash\n")
	_, err := router.New(cfg)
	assert.ErrorContains(t, err, "--client-keys")
	assert.ErrorContains(t, err, "line 1")
	cfg.Requests.Clients.Keys, cfg.Requests.Proxies = "", []string{"10.0.0.0/99"}
	_, err = router.New(cfg)
	assert.ErrorContains(t, err, "--trusted-proxy")
}

// TestSaltsOfClientKeys: with --client-cache-salt, a client finds its own prompts in the workers' caches and no other's, and the
// router expects exactly that.
func TestSaltsOfClientKeys(t *testing.T) {
	alice, line := newKey(t, "alice")
	bob, other := newKey(t, "bob")
	cfg := router.Config{Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}
	cfg.Requests.Clients.Keys, cfg.Requests.Clients.CacheSalt = keyFile(t, "", line+other), true
	unhurried(&cfg)
	cl, err := newCluster(clusterSize{workers: 2}, pairWorker(), cfg)
	require.NoError(t, err)
	base := runCluster(t, cl, 2)
	ids, err := json.Marshal(prompt(10*page, 1))
	require.NoError(t, err)
	for i, c := range []struct {
		key, salt string
		want      int // pages of the prompt that are cached, of 9 that can be
	}{
		{alice, ``, 0}, {bob, ``, 0}, {alice, ``, 9}, {alice, `,"cache_salt":"x"`, 0}, {bob, `,"cache_salt":"x"`, 0}, {bob, ``, 9}, {alice, `,"cache_salt":"x"`, 9},
	} {
		settle(t, cl)
		status, text := askWith(t, http.MethodPost, base+"/generate", fmt.Sprintf(`{"input_ids":%s,"sampling_params":{"max_new_tokens":2}%s}`, ids, c.salt), "Bearer "+c.key)
		require.Equal(t, http.StatusOK, status, text)
		assert.Contains(t, text, fmt.Sprintf(`"cached_tokens":%d,`, c.want*page), i)
		assert.Regexp(t, fmt.Sprintf(`X-Warmpath-Overlap: %d/`, c.want), text, i)
	}
}
