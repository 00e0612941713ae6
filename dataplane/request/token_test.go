package request_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
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

	"github.com/warmpath/warmpath/dataplane/request/clientkey"
	"github.com/warmpath/warmpath/dataplane/request/jwks"
)

// issuer makes tokens.
type issuer struct {
	t   *testing.T
	key *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return &issuer{t, key}
}

// set is the issuer's JWKS.
func (i *issuer) set() []byte {
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: "k"}}})
	require.NoError(i.t, err)
	return text
}

// keys are keys of clients by tokens of the set at source, with those of a file.
func (i *issuer) keys(source string, lines ...string) *clientkey.Keys {
	v, err := jwks.New(i.t.Context(), jwks.Config{Source: source, Issuer: "https://issuer", Audience: "warmpath", Log: slog.New(slog.DiscardHandler)})
	require.NoError(i.t, err)
	keys := keysOf(i.t, append(lines, "file")...)
	keys.AcceptTokens(v)
	return keys
}

// withTokens has the router take tokens by a file.
func (i *issuer) withTokens() option {
	file := filepath.Join(i.t.TempDir(), "jwks.json")
	require.NoError(i.t, os.WriteFile(file, i.set(), 0o600))
	return withKeys(i.keys(file))
}

// token makes a token with the claims of a good one and changes.
func (i *issuer) token(sub string, changes map[string]any) string {
	return i.tokenBy("k", sub, changes)
}

func (i *issuer) tokenBy(kid, sub string, changes map[string]any) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: i.key}, (&jose.SignerOptions{}).WithHeader("kid", kid))
	require.NoError(i.t, err)
	claims := map[string]any{"iss": "https://issuer", "aud": "warmpath", "sub": sub, "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(claims, changes)
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	require.NoError(i.t, err)
	return text
}

// unsigned joins the parts of a token with an HMAC by a secret; nil: with no signature.
func unsigned(header string, token string, secret []byte) string {
	text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + strings.Split(token, ".")[1]
	if secret == nil {
		return text + "."
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// TestTokensThatAreRefused: the client learns that its token is not valid and no more. The log and the metrics have the cause, and no
// worker hears of the request.
func TestTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	i, other := newIssuer(t), newIssuer(t)
	access, lines := withAccessLog(t)
	w, heads := headWorker(t)
	h := start(t, []*fakeWorker{w}, access, i.withTokens())
	good, now := i.token("alice", nil), time.Now()
	public, err := x509.MarshalPKIXPublicKey(i.key.Public())
	require.NoError(t, err)
	causes := map[string]string{} // by name of the request
	for token, want := range map[string]string{
		i.token("alice", map[string]any{"exp": now.Add(-time.Hour).Unix()}): "token_expired",
		i.token("alice", map[string]any{"nbf": now.Add(time.Hour).Unix()}):  "token_not_yet_valid",
		i.token("alice", map[string]any{"iss": "https://evil"}):             "token_wrong_issuer",
		i.token("alice", map[string]any{"aud": "another"}):                  "token_wrong_audience",
		i.token("", nil): "token_without_claims",
		i.token("alice", map[string]any{"warmpath": map[string]any{"rpm": 1}}): "token_bad_limits",
		i.tokenBy("x", "alice", nil):                                              "token_unknown_kid",
		other.token("alice", nil):                                                 "token_wrong_signature",
		unsigned(`{"alg":"none","kid":"k"}`, good, nil):                           "token_wrong_algorithm",
		unsigned(`{"alg":"HS256","kid":"k"}`, good, public):                       "token_wrong_algorithm",
		unsigned(`{"alg":"ES256","kid":"k"}`, good, nil):                          "token_wrong_signature",
		i.token("alice", map[string]any{"x": strings.Repeat("x", jwks.MaxToken)}): "token_too_long",
		"a.b.c": "token_malformed", "nonsense": "unknown_key",
	} {
		for _, header := range [][]string{{"Authorization", "Bearer " + token}, {"X-Api-Key", token}} {
			for _, path := range []string{"/generate", "/v1/messages"} {
				resp, got := h.Do(http.MethodPost, h.Base+path, `{"text":"x","max_tokens":1,"messages":[{"role":"user","content":"x"}]}`, header...)
				require.Equal(t, http.StatusUnauthorized, resp.StatusCode, want)
				challenge, reason := `Bearer error="invalid_token"`, "invalid_token"
				if want == "unknown_key" {
					challenge, reason = "Bearer", "unknown_key"
				}
				assert.Equal(t, challenge, resp.Header.Get("WWW-Authenticate"), want)
				assert.Contains(t, got, `"reason":"`+reason+`"`, want)
				assert.NotContains(t, got, "token_", "what is wrong with it is nobody's business")
				causes[resp.Header.Get("X-Request-Id")] = want
			}
		}
	}
	resp, _, err := h.Try(http.MethodPost, h.Base+"/generate", `{"text":"x"}`, "Authorization", "Bearer "+strings.Repeat("e.", 1)+strings.Repeat("x", 1<<20))
	if err == nil { // else the router closed the connection while the client still sent its head
		assert.Equal(t, http.StatusRequestHeaderFieldsTooLarge, resp.StatusCode)
	}
	assert.Empty(t, heads)
	h.AwaitIdle()
	metrics, got := h.Metrics(), byName(t, lines())
	for name, cause := range causes {
		assert.Equal(t, cause, got[name]["refused"])
		assert.NotContains(t, got[name], "key", "nobody has proved this name")
		assert.Contains(t, metrics, fmt.Sprintf(`warmpath_errors_total{reason="%s",status="401"}`, cause))
	}
	assert.NotContains(t, fmt.Sprint(got), good)
}

// TestTokensOfClients: claims are the limits of a key, the name is in the log, and no worker gets the token.
func TestTokensOfClients(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	access, lines := withAccessLog(t)
	w, heads := headWorker(t)
	h := start(t, []*fakeWorker{w}, access, i.withTokens())
	ask := func(token, body string) (*http.Response, string) {
		resp, got := h.Do(http.MethodPost, h.Base+"/generate", body, "Authorization", "Bearer "+token)
		return resp, got
	}
	limited := func(sub, limits string) string {
		return i.token(sub, map[string]any{"warmpath": json.RawMessage(limits)})
	}
	names := map[string]string{}
	good := func(name, token, body string) {
		t.Helper()
		resp, got := ask(token, body)
		require.Equal(t, http.StatusOK, resp.StatusCode, got)
		head := <-heads
		assert.Empty(t, head.Values("Authorization"))
		assert.NotContains(t, fmt.Sprint(head), token)
		names[resp.Header.Get("X-Request-Id")] = name
	}
	good("jwt:alice", i.token("alice", nil), `{"text":"x","priority":9}`)
	assert.Contains(t, w.LastBody(), `"priority":null`, "a token without limits has no priority")
	good("jwt:carol", limited("carol", `{"priority":5}`), `{"text":"x","priority":9}`)
	assert.Contains(t, w.LastBody(), `"priority":5`)
	good("file", "secret-of-file", `{"text":"x"}`)
	resp, got := h.Do(http.MethodGet, h.Base+"/v1/models", "", "X-Api-Key", limited("dave", `{"models":["none"]}`))
	require.Equal(t, http.StatusOK, resp.StatusCode)
	assert.NotContains(t, got, "tiny", "a client that may use certain models is told of no others")
	resp, _ = ask(limited("dave", `{"models":["none"]}`), `{"model":"tiny","text":"x"}`)
	assert.Equal(t, http.StatusForbidden, resp.StatusCode)
	names[resp.Header.Get("X-Request-Id")] = "jwt:dave"

	good("jwt:erin", limited("erin", `{"requests-per-minute":1}`), `{"text":"x"}`)
	again := i.token("erin", map[string]any{"jti": "another", "warmpath": json.RawMessage(`{"requests-per-minute":1}`)})
	resp, _ = ask(again, `{"text":"x"}`)
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode, "another token of a client has the same rate")
	assert.NotEmpty(t, resp.Header.Get("Retry-After"))
	names[resp.Header.Get("X-Request-Id")] = "jwt:erin"

	h.AwaitIdle()
	metrics, logged := h.metricsBy("Authorization", "Bearer secret-of-file"), byName(t, lines())
	for name, key := range names {
		assert.Equal(t, key, logged[name]["key"])
	}
	assert.Contains(t, metrics, `warmpath_client_key_requests_total{key="jwt:*"}`)
	assert.NotContains(t, metrics, "jwt:alice")
}

// TestTokensWithoutAnIssuer: as long as the keys could not be had, a token gets 503, which its client tries again, and keys of the file
// are taken.
func TestTokensWithoutAnIssuer(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	var up atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			rw.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = rw.Write(i.set())
	}))
	defer server.Close()
	w, heads := headWorker(t)
	h := start(t, []*fakeWorker{w}, withKeys(i.keys(server.URL)))
	resp, got := h.Do(http.MethodPost, h.Base+"/generate", `{"text":"x"}`, "Authorization", "Bearer "+i.token("alice", nil))
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, got)
	assert.NotEmpty(t, resp.Header.Get("Retry-After"))
	metrics := h.metricsBy("Authorization", "Bearer secret-of-file")
	assert.Contains(t, metrics, `warmpath_errors_total{reason="token_no_keys",status="503"} 1`)
	assert.Contains(t, metrics, "warmpath_client_jwks_up 0\n")
	resp, _ = h.askBy("file", "/generate", `{"text":"x"}`)
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	<-heads
}
