package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/fleet"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/testkit"
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
	log := &testkit.Text{}
	cfg := router.Config{
		Listen: "127.0.0.1:0", Sources: fleet.SourceConfig{KeyFile: keyFile(t, "", engineKey+"\n")}, Log: log.Log(),
	}
	cfg.Requests.Clients.Keys, cfg.Logs.Access = file, access
	unhurried(&cfg)
	_, base := startWith(t, clusterSize{workers: 1}, sim.Config{APIKey: engineKey, Log: slog.New(slog.DiscardHandler)}, cfg)
	ask := func(key string) (int, string) {
		return askWith(t, http.MethodPost, base+"/generate", `{"text":"hello","sampling_params":{"max_new_tokens":4}}`, "Bearer "+key)
	}
	for key, want := range map[string]int{alice: http.StatusOK, bob: http.StatusForbidden, "": http.StatusUnauthorized, engineKey: http.StatusUnauthorized} {
		status, text := ask(key)
		assert.Equal(t, want, status, text)
	}
	testkit.AwaitThat(t, func() bool { text, _ := os.ReadFile(access); return bytes.Contains(text, []byte(`"key":"alice"`)) }, func() string { return "no line in the access log" })
	_, metrics := askWith(t, http.MethodGet, base+"/metrics", "", "")
	assert.Contains(t, metrics, `warmpath_client_key_requests_total{key="alice"} 1`)
	assert.Contains(t, metrics, `warmpath_client_key_refused_total{key="bob",limit="model"} 1`)

	keyFile(t, file, other)
	testkit.AwaitThat(t, func() bool { status, _ := ask(alice); return status == http.StatusUnauthorized }, func() string { return "alice is still let in" })
	keyFile(t, file, "nonsense\n")
	testkit.AwaitThat(t, func() bool { return strings.Contains(log.String(), "cannot reload") }, func() string { return log.String() })
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

// TestClientTokens: a router starts while its issuer's URL is down, takes tokens by the keys at a URL or in a file, and none of a key
// that has been replaced.
func TestClientTokens(t *testing.T) {
	issuer := &tokenIssuer{t: t, keys: map[string]ed25519.PrivateKey{}}
	server := httptest.NewServer(issuer)
	t.Cleanup(server.Close)
	access := filepath.Join(t.TempDir(), "access")
	issuer.add("one")
	route := func(source string) (ask func(token string) int, log *testkit.Text) {
		log = &testkit.Text{}
		cfg := router.Config{Listen: "127.0.0.1:0", Log: log.Log()}
		c := &cfg.Requests.Clients
		c.JWKS, c.Issuer, c.TokenAudience, cfg.Logs.Access = source, "https://issuer", "warmpath", access
		unhurried(&cfg)
		_, base := startWith(t, clusterSize{workers: 1}, sim.Config{Log: slog.New(slog.DiscardHandler)}, cfg)
		return func(token string) int {
			status, _ := askWith(t, http.MethodPost, base+"/generate", `{"text":"hello","sampling_params":{"max_new_tokens":4}}`, "Bearer "+token)
			return status
		}, log
	}
	token := issuer.token("one", "alice")
	issuer.down.Store(true)
	ask, log := route(server.URL)
	assert.Equal(t, http.StatusServiceUnavailable, ask(token))
	assert.Equal(t, http.StatusUnauthorized, ask(""))
	assert.Contains(t, log.String(), "--client-jwks")

	issuer.down.Store(false)
	ask, _ = route(server.URL)
	assert.Equal(t, http.StatusOK, ask(token))
	assert.Equal(t, http.StatusUnauthorized, ask(""))
	assert.Equal(t, http.StatusUnauthorized, ask(issuer.token("one", "")))
	testkit.AwaitThat(t, func() bool { text, _ := os.ReadFile(access); return bytes.Contains(text, []byte(`"key":"jwt:alice"`)) }, func() string { return "no line in the access log" })

	file := keyFile(t, "", string(issuer.set()))
	ask, log = route(file)
	assert.Equal(t, http.StatusOK, ask(token))
	delete(issuer.keys, "one")
	issuer.add("two")
	fresh := issuer.token("two", "alice")
	assert.Equal(t, http.StatusUnauthorized, ask(fresh))
	keyFile(t, file, string(issuer.set()))
	testkit.AwaitThat(t, func() bool { return ask(fresh) == http.StatusOK }, log.String)
	assert.Equal(t, http.StatusUnauthorized, ask(token), "its key is gone")
	assert.NotContains(t, log.String(), token)
}

// tokenIssuer makes tokens and serves its keys.
type tokenIssuer struct {
	t    *testing.T
	down atomic.Bool
	keys map[string]ed25519.PrivateKey // by kid
}

func (i *tokenIssuer) add(kid string) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(i.t, err)
	i.keys[kid] = key
}

func (i *tokenIssuer) set() []byte {
	var set jose.JSONWebKeySet
	for kid, key := range i.keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: kid})
	}
	text, err := json.Marshal(set)
	require.NoError(i.t, err)
	return text
}

func (i *tokenIssuer) ServeHTTP(rw http.ResponseWriter, _ *http.Request) {
	if i.down.Load() {
		rw.WriteHeader(http.StatusBadGateway)
		return
	}
	_, _ = rw.Write(i.set())
}

func (i *tokenIssuer) token(kid, sub string) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: i.keys[kid]}, (&jose.SignerOptions{}).WithHeader("kid", kid))
	require.NoError(i.t, err)
	text, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: "https://issuer", Audience: jwt.Audience{"warmpath"}, Subject: sub, Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour)),
	}).Serialize()
	require.NoError(i.t, err)
	return text
}
