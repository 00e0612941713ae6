package clientkey_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/request/clientkey"
	"github.com/warmpath/warmpath/dataplane/request/jwks"
)

// issuer makes tokens.
type issuer struct {
	t    *testing.T
	key  ed25519.PrivateKey
	file string
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t, file: filepath.Join(t.TempDir(), "jwks.json")}
	i.rotate()
	return i
}

// rotate replaces the key.
func (i *issuer) rotate() {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(i.t, err)
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "k"}}})
	require.NoError(i.t, err)
	require.NoError(i.t, os.WriteFile(i.file+".new", set, 0o600))
	require.NoError(i.t, os.Rename(i.file+".new", i.file))
	i.key = key
}

func (i *issuer) verifier() *jwks.Verifier {
	v, err := jwks.New(i.t.Context(), jwks.Config{Source: i.file, Issuer: "i", Audience: "a", Log: slog.New(slog.DiscardHandler)})
	require.NoError(i.t, err)
	return v
}

// causeOf is the cause of a refusal.
func causeOf(err error) string {
	if err == nil {
		return ""
	}
	_, cause, _ := strings.Cut(err.Error(), ": ")
	return cause
}

// token makes a token; id tells it from others of the name.
func (i *issuer) token(sub string, expires time.Time, id, limits string) []byte {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: i.key}, (&jose.SignerOptions{}).WithHeader("kid", "k"))
	require.NoError(i.t, err)
	builder := jwt.Signed(signer).Claims(jwt.Claims{Issuer: "i", Audience: jwt.Audience{"a"}, Subject: sub, Expiry: jwt.NewNumericDate(expires), ID: id})
	if limits != "" {
		builder = builder.Claims(map[string]any{"warmpath": json.RawMessage(limits)})
	}
	text, err := builder.Serialize()
	require.NoError(i.t, err)
	return []byte(text)
}

// TestTokensAreKeys: a token's claims are the limits of a key, which all tokens of its subject share; others refuse it.
func TestTokensAreKeys(t *testing.T) {
	i, now := newIssuer(t), time.Now()
	k := read(t, "alice "+hashOf("a")+" concurrency=1")
	k.AcceptTokens(i.verifier())
	later := now.Add(time.Hour)
	find := func(token []byte) *clientkey.Key {
		key, err := k.Authenticate(token, now)
		require.NoError(t, err)
		return key
	}
	all := find(i.token("alice", later, "1", `{"models":["llama","qwen:fr"],"requests-per-minute":2,"priority":-3,"deadline":"30s","cache-salt":"own"}`))
	assert.Equal(t, []any{"jwt:alice", -3, true, 30 * time.Second, true}, []any{all.Name, all.Priority, all.HasPriority, all.Deadline, all.OwnSalt})
	assert.True(t, all.Allows("qwen", "fr") && all.Allows("llama", "") && !all.Allows("qwen", ""))
	fromFile, _ := k.Authenticate([]byte("a"), now)
	require.NoError(t, fromFile.Begin(now))
	require.NoError(t, all.Begin(now), "the file's alice is another client")
	assert.NotEqual(t, fromFile.Salt(nil), all.Salt(nil))
	again := find(i.token("alice", later, "2", `{"requests-per-minute":2}`))
	require.NoError(t, again.Begin(now))
	assert.Error(t, again.Begin(now), "another token of the name has the same rate")
	assert.NoError(t, find(i.token("bob", later, "", "")).Begin(now))
	assert.False(t, find(i.token("bob", later, "", "")).HasPriority)

	for _, limits := range []string{`{"models":[]}`, `{"models":[1]}`, `{"rpm":1}`, `{"priority":true}`, `{"concurrency":0}`, `{"concurrency":-1}`, `[]`, `"x"`, `{"deadline":30}`, `{"models":null}`, `null`} {
		key, err := k.Authenticate(i.token("eve", later, "", limits), now)
		assert.Nil(t, key, limits)
		assert.Equal(t, "token_bad_limits", causeOf(err), limits)
	}
	for _, sub := range []string{"*", "a b", "a\nb", "ä", strings.Repeat("x", 100), "a\x00"} {
		name := find(i.token(sub, later, "", "")).Name
		assert.Regexp(t, `^jwt:sha256:[-\w]{43}$`, name)
		assert.LessOrEqual(t, len(name), 64)
	}
	for secret, want := range map[string]string{"": "no key", "x": "unknown key", "a.b": "unknown key", "a.b.c": "token_malformed", "a.b.c.d.e": "unknown key"} {
		key, err := k.Authenticate([]byte(secret), now)
		assert.Nil(t, key)
		assert.Equal(t, want, causeOf(err), secret)
	}
	key, err := k.Authenticate(i.token("alice", now.Add(-time.Hour), "", ""), now)
	assert.Nil(t, key)
	assert.Equal(t, "token_expired", causeOf(err))

	metrics := prometheus.NewRegistry()
	require.NoError(t, metrics.Register(k))
	families, err := metrics.Gather()
	require.NoError(t, err)
	text := fmt.Sprint(families)
	assert.Contains(t, text, `jwt:*`)
	assert.NotContains(t, text, "jwt:alice", "an issuer makes any number of names")
}

// TestKnownTokens end with their time and with the keys that signed them.
func TestKnownTokens(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		i := newIssuer(t)
		k, v := read(t, "x "+hashOf("x")), i.verifier()
		k.AcceptTokens(v)
		var running sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		running.Go(func() { _ = v.Run(ctx) })
		token := i.token("alice", time.Now().Add(time.Hour), "", "")
		ask := func() string { _, err := k.Authenticate(token, time.Now()); return causeOf(err) }
		for range 60 {
			require.Empty(t, ask())
			time.Sleep(time.Minute)
		}
		time.Sleep(31 * time.Second)
		assert.Equal(t, "token_expired", ask())
		token = i.token("alice", time.Now().Add(time.Hour), "", "")
		require.Empty(t, ask())
		i.rotate()
		time.Sleep(3 * time.Second)
		assert.Equal(t, "token_wrong_signature", ask(), "its key was taken out")
		stop()
		running.Wait()
	})
}

// TestManyTokens: tokens and names are bounded, and names that are in use are kept: others are told to come later.
func TestManyTokens(t *testing.T) {
	i, now := newIssuer(t), time.Now()
	k := read(t, "x "+hashOf("x"))
	k.AcceptTokens(i.verifier())
	k.BoundTokens(50, 100)
	find := func(sub, id string) (*clientkey.Key, error) {
		now = now.Add(time.Second)
		return k.Authenticate(i.token(sub, now.Add(time.Hour), id, `{"concurrency":1}`), now)
	}
	busy, err := find("busy", "")
	require.NoError(t, err)
	require.NoError(t, busy.Begin(now))
	for n := range 200 {
		_, err := find("n"+strconv.Itoa(n), "")
		require.NoError(t, err)
		_, err = find("busy", strconv.Itoa(n))
		require.NoError(t, err)
	}
	names, tokens := k.Tokens()
	assert.LessOrEqual(t, names, 50)
	assert.LessOrEqual(t, tokens, 100)
	again, err := find("busy", "again")
	require.NoError(t, err)
	assert.Error(t, again.Begin(now))

	var all []*clientkey.Key
	for n := range 49 {
		key, err := find(fmt.Sprint("m", n), "")
		require.NoError(t, err)
		require.NoError(t, key.Begin(now))
		all = append(all, key)
	}
	_, err = find("more", "")
	var later *jwks.TokenError
	require.ErrorAs(t, err, &later)
	assert.True(t, later.Later)
	all[0].End()
	_, err = find("more", "")
	require.NoError(t, err)
}

// TestNamesOfTokensAreApart: no subject has the name that the hash of another one gives.
func TestNamesOfTokensAreApart(t *testing.T) {
	i, now := newIssuer(t), time.Now()
	k := read(t, "x "+hashOf("x"))
	k.AcceptTokens(i.verifier())
	long, err := k.Authenticate(i.token(strings.Repeat("x", 100), now.Add(time.Hour), "", ""), now)
	require.NoError(t, err)
	taken, err := k.Authenticate(i.token(strings.TrimPrefix(long.Name, "jwt:"), now.Add(time.Hour), "", ""), now)
	require.NoError(t, err)
	assert.NotEqual(t, long.Name, taken.Name)
}

// TestTokensWithOtherLimits: a name's token without a rate does not stop the rate of its other one from coming back.
func TestTokensWithOtherLimits(t *testing.T) {
	i, now := newIssuer(t), time.Now()
	k := read(t, "x "+hashOf("x"))
	k.AcceptTokens(i.verifier())
	find := func(limits string) *clientkey.Key {
		key, err := k.Authenticate(i.token("alice", now.Add(time.Hour), "", limits), now)
		require.NoError(t, err)
		return key
	}
	limited := find(`{"requests-per-minute":1}`)
	require.NoError(t, limited.Begin(now))
	limited.End()
	require.Error(t, limited.Begin(now))
	free := find("")
	for range 120 {
		now = now.Add(time.Second)
		free.Known(now) // as each message to other routers does
	}
	require.NoError(t, limited.Begin(now))
}
