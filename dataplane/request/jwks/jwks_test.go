package jwks_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/request/jwks"
)

var (
	quiet  = slog.New(slog.DiscardHandler)
	rsaKey = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	other  = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	weak   = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 1024)) })
	ecKey  = sync.OnceValue(func() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) })
	edKey  = sync.OnceValue(func() ed25519.PrivateKey { _, key, err := ed25519.GenerateKey(rand.Reader); return must(key, err) })
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// setOf is a set of public keys by their kids.
func setOf(keys map[string]crypto.Signer) string {
	var set jose.JSONWebKeySet
	for kid, key := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: kid})
	}
	return string(must(json.Marshal(set)))
}

func b64(v any) string {
	text, ok := v.(string)
	if !ok {
		text = string(must(json.Marshal(v)))
	}
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

type object = map[string]any

// claims are those of a good token, with changes; nil takes one away.
func claims(now time.Time, changes object) object {
	c := object{"iss": "https://issuer", "aud": "warmpath", "sub": "alice", "exp": now.Add(time.Hour).Unix()}
	for name, value := range changes {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	return c
}

// sign makes a token by hand, so that no library keeps it from being wrong.
func sign(key crypto.Signer, header object, payload any) string {
	text := b64(header) + "." + b64(payload)
	digest := sha256.Sum256([]byte(text))
	var signature []byte
	switch k := key.(type) {
	case *rsa.PrivateKey:
		signature = must(rsa.SignPKCS1v15(rand.Reader, k, crypto.SHA256, digest[:]))
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, k, digest[:])
		must(0, err)
		signature = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	case ed25519.PrivateKey:
		signature = ed25519.Sign(k, []byte(text))
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func hs256(secret []byte, header object, payload any) string {
	text := b64(header) + "." + b64(payload)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func verifier(t *testing.T, set string) (v *jwks.Verifier, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "jwks.json")
	require.NoError(t, os.WriteFile(file, []byte(set), 0o600))
	v, err := jwks.New(t.Context(), jwks.Config{Source: file, Issuer: "https://issuer", Audience: "warmpath", Log: quiet})
	require.NoError(t, err)
	return v, file
}

func cause(err error) string {
	if refused, ok := errors.AsType[*jwks.TokenError](err); ok {
		return refused.Cause
	}
	return ""
}

// TestTokens: good ones are taken, and none of the known attacks.
func TestTokens(t *testing.T) {
	v, _ := verifier(t, setOf(map[string]crypto.Signer{"r": rsaKey(), "e": ecKey(), "d": edKey()}))
	now := time.Now()
	rs := object{"alg": "RS256", "kid": "r"}
	der := must(x509.MarshalPKIXPublicKey(rsaKey().Public()))
	good := sign(rsaKey(), rs, claims(now, nil))
	parts := strings.Split(good, ".")
	jwkOf := func(key crypto.Signer) json.RawMessage {
		return must(json.Marshal(jose.JSONWebKey{Key: key.Public(), KeyID: "r"}))
	}
	for name, c := range map[string]struct{ token, want string }{
		"RSA":                      {good, ""},
		"EC":                       {sign(ecKey(), object{"alg": "ES256", "kid": "e"}, claims(now, nil)), ""},
		"Ed25519":                  {sign(edKey(), object{"alg": "EdDSA", "kid": "d"}, claims(now, nil)), ""},
		"one audience of several":  {sign(rsaKey(), rs, claims(now, object{"aud": []string{"x", "warmpath"}})), ""},
		"a clock 20 s behind":      {sign(rsaKey(), rs, claims(now, object{"exp": now.Add(-20 * time.Second).Unix()})), ""},
		"expired":                  {sign(rsaKey(), rs, claims(now, object{"exp": now.Add(-40 * time.Second).Unix()})), "token_expired"},
		"not yet valid":            {sign(rsaKey(), rs, claims(now, object{"nbf": now.Add(40 * time.Second).Unix()})), "token_not_yet_valid"},
		"of the future":            {sign(rsaKey(), rs, claims(now, object{"iat": now.Add(time.Hour).Unix()})), "token_not_yet_valid"},
		"without exp":              {sign(rsaKey(), rs, claims(now, object{"exp": nil})), "token_without_claims"},
		"exp of text":              {sign(rsaKey(), rs, claims(now, object{"exp": "never"})), "token_malformed"},
		"exp in an odd form":       {sign(rsaKey(), rs, claims(now, object{"exp": float64(now.Unix()) + 100.5})), ""},
		"exp of the far future":    {sign(rsaKey(), rs, claims(now, object{"exp": 1e15})), ""},
		"exp beyond all time":      {sign(rsaKey(), rs, claims(now, object{"exp": 1e18})), "token_malformed"},
		"exp beyond all numbers":   {sign(rsaKey(), rs, claims(now, object{"exp": 1e300})), "token_malformed"},
		"nbf beyond all time":      {sign(rsaKey(), rs, claims(now, object{"nbf": int64(math.MaxInt64)})), "token_malformed"},
		"nbf beyond all numbers":   {sign(rsaKey(), rs, claims(now, object{"nbf": 1e300})), "token_malformed"},
		"iat beyond all numbers":   {sign(rsaKey(), rs, claims(now, object{"iat": -1e300})), "token_malformed"},
		"audiences in a list":      {sign(rsaKey(), rs, claims(now, object{"aud": [][]string{{"warmpath"}}})), "token_malformed"},
		"a claim twice":            {sign(rsaKey(), rs, strings.Replace(string(must(json.Marshal(claims(now, nil)))), "{", `{"sub":"bob",`, 1)), "token_malformed"},
		"another payload's coding": {sign(rsaKey(), object{"alg": "RS256", "kid": "r", "crit": []string{"b64"}, "b64": false}, claims(now, nil)), "token_"},
		"without sub":              {sign(rsaKey(), rs, claims(now, object{"sub": nil})), "token_without_claims"},
		"other audience":           {sign(rsaKey(), rs, claims(now, object{"aud": "other"})), "token_wrong_audience"},
		"no audience":              {sign(rsaKey(), rs, claims(now, object{"aud": nil})), "token_wrong_audience"},
		"other issuer":             {sign(rsaKey(), rs, claims(now, object{"iss": "https://issuer.evil"})), "token_wrong_issuer"},
		"no issuer":                {sign(rsaKey(), rs, claims(now, object{"iss": nil})), "token_wrong_issuer"},
		"alg none":                 {b64(object{"alg": "none", "kid": "r"}) + "." + parts[1] + ".", "token_wrong_algorithm"},
		"alg None":                 {b64(object{"alg": "NoNe", "kid": "r"}) + "." + parts[1] + "." + parts[2], "token_wrong_algorithm"},
		"no alg":                   {b64(object{"kid": "r"}) + "." + parts[1] + "." + parts[2], "token_wrong_algorithm"},
		"no signature":             {parts[0] + "." + parts[1] + ".", "token_wrong_signature"},
		"HMAC with the key as PEM": {hs256(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), object{"alg": "HS256", "kid": "r"}, claims(now, nil)), "token_wrong_algorithm"},
		"HMAC with the key as DER": {hs256(der, object{"alg": "HS256", "kid": "r"}, claims(now, nil)), "token_wrong_algorithm"},
		"HMAC called RS256":        {hs256(der, rs, claims(now, nil)), "token_wrong_signature"},
		"alg of another key type":  {sign(rsaKey(), object{"alg": "ES256", "kid": "r"}, claims(now, nil)), "token_"},
		"another's key":            {sign(other(), rs, claims(now, nil)), "token_wrong_signature"},
		"another payload":          {parts[0] + "." + b64(claims(now, object{"sub": "bob"})) + "." + parts[2], "token_wrong_signature"},
		"key in the header":        {sign(other(), object{"alg": "RS256", "kid": "r", "jwk": jwkOf(other())}, claims(now, nil)), "token_wrong_signature"},
		"URL in the header":        {sign(other(), object{"alg": "RS256", "kid": "r", "jku": "https://evil/jwks"}, claims(now, nil)), "token_wrong_signature"},
		"kid of a path":            {sign(other(), object{"alg": "RS256", "kid": "../../dev/null"}, claims(now, nil)), "token_unknown_kid"},
		"kid of SQL":               {sign(other(), object{"alg": "RS256", "kid": "' UNION SELECT 'x'--"}, claims(now, nil)), "token_unknown_kid"},
		"no kid of three":          {sign(rsaKey(), object{"alg": "RS256"}, claims(now, nil)), "token_unknown_kid"},
		"critical extension":       {sign(rsaKey(), object{"alg": "RS256", "kid": "r", "crit": []string{"x"}, "x": 1}, claims(now, nil)), "token_"},
		"too long":                 {sign(rsaKey(), rs, claims(now, object{"x": strings.Repeat("x", 8<<10)})), "token_too_long"},
		"no JSON":                  {sign(rsaKey(), rs, "nonsense"), "token_malformed"},
		"encrypted":                {"a.b.c.d.e", "token_malformed"},
		"whitespace":               {" " + good, "token_malformed"},
		"empty":                    {"..", "token_"},
	} {
		got, err := v.Verify([]byte(c.token), now)
		if c.want == "" {
			require.NoError(t, err, name)
			assert.Equal(t, "alice", got.Subject, name)
			continue
		}
		assert.Contains(t, cause(err), c.want, name)
		assert.Zero(t, got, name)
	}
	_, err := v.Verify([]byte(good), now.Add(2*time.Hour))
	assert.Equal(t, "token_expired", cause(err))
}

// TestSets: only public keys for signatures are taken, and none that is too weak.
func TestSets(t *testing.T) {
	private := string(must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: rsaKey(), KeyID: "r"}}})))
	twice := strings.Replace(setOf(map[string]crypto.Signer{"r": rsaKey(), "x": other()}), `"kid":"x"`, `"kid":"r"`, 1)
	for name, set := range map[string]string{
		"empty": "", "no keys": `{"keys":[]}`, "no object": `[]`, "a secret": `{"keys":[{"kty":"oct","kid":"r","k":"c2VjcmV0"}]}`,
		"private": private, "weak": setOf(map[string]crypto.Signer{"r": weak()}), "one kid twice": twice,
		"endless":        `{"keys":[{"kty":"RSA","kid":"r","e":"AQAB","n":"` + strings.Repeat("_", 12_000) + `"}]}`,
		"off its curve":  `{"keys":[{"kty":"EC","crv":"P-256","kid":"e","x":"` + b64(strings.Repeat("x", 32)) + `","y":"` + b64(strings.Repeat("y", 32)) + `"}]}`,
		"for encryption": strings.Replace(setOf(map[string]crypto.Signer{"r": rsaKey()}), `"kid"`, `"use":"enc","kid"`, 1),
		"huge":           `{"keys":[]` + strings.Repeat(" ", 300<<10) + `}`, "many": `{"keys":[` + strings.Repeat(`{"kty":"x"},`, 100) + `{}]}`,
	} {
		file := filepath.Join(t.TempDir(), "jwks.json")
		require.NoError(t, os.WriteFile(file, []byte(set), 0o600))
		_, err := jwks.New(t.Context(), jwks.Config{Source: file, Issuer: "i", Audience: "a", Log: quiet})
		assert.ErrorIs(t, err, jwks.ErrSource, name)
	}
	mixed := strings.Replace(setOf(map[string]crypto.Signer{"r": rsaKey()}), `{"keys":[`, `{"keys":[{"kty":"future"},{"kty":"oct","kid":"o","k":"c2VjcmV0"},`, 1)
	v, _ := verifier(t, mixed)
	now := time.Now()
	_, err := v.Verify([]byte(sign(rsaKey(), object{"alg": "RS256"}, claims(now, nil))), now)
	require.NoError(t, err, "no kid is for the only key")
	_, err = v.Verify([]byte(hs256([]byte("secret"), object{"alg": "HS256", "kid": "o"}, claims(now, nil))), now)
	assert.Equal(t, "token_wrong_algorithm", cause(err))
	for _, cfg := range []jwks.Config{
		{Source: "http://issuer.example/jwks", Issuer: "i", Audience: "a"},
		{Source: "https://issuer/jwks", Issuer: "i"},
		{Source: "https://issuer/jwks", Audience: "a"},
		{Source: t.TempDir(), Issuer: "i", Audience: "a"},
		{Source: "/dev/zero", Issuer: "i", Audience: "a"},
	} {
		cfg.Log = quiet
		_, err := jwks.New(t.Context(), cfg)
		assert.ErrorIs(t, err, jwks.ErrSource, cfg.Source)
	}
	_, err = jwks.New(t.Context(), jwks.Config{Source: "https:/issuer/jwks", Issuer: "i", Audience: "a", Log: quiet})
	assert.ErrorContains(t, err, "want https://", "a URL with a mistake is no file")
}

// server is an issuer as a transport of HTTP.
type server struct {
	asked  atomic.Int64
	mu     sync.Mutex
	answer func(*http.Request) (*http.Response, error) // guarded by mu
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked.Add(1)
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	return answer(r)
}

func (s *server) answers(answer func(*http.Request) (*http.Response, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// says answers with a status and a body.
func says(status int, body io.Reader) func(*http.Request) (*http.Response, error) {
	text := must(io.ReadAll(body))
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader(text)), Header: http.Header{"Location": {"https://evil/"}}}, nil
	}
}

func saysSet(keys map[string]crypto.Signer) func(*http.Request) (*http.Response, error) {
	return says(200, strings.NewReader(setOf(keys)))
}

// endless is a body that never ends.
type endless struct{ read *atomic.Int64 }

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read.Add(int64(len(p)))
	return len(p), nil
}

// follow runs a verifier of a server on the fake clock.
func follow(t *testing.T, s *server, f func(v *jwks.Verifier)) {
	t.Helper()
	v, err := jwks.New(t.Context(), jwks.Config{Source: "https://issuer/jwks", Issuer: "https://issuer", Audience: "warmpath", Log: quiet, Transport: s})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = v.Run(ctx) })
	f(v)
	stop()
	running.Wait()
}

// TestIssuerFails: whatever its server does, the last good set stays in use, and a new one is taken soon after.
func TestIssuerFails(t *testing.T) {
	rsaKey()
	other()
	var read atomic.Int64
	for name, bad := range map[string]func(*http.Request) (*http.Response, error){
		"down": func(*http.Request) (*http.Response, error) { return nil, errors.New("refused") },
		"slow": func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() },
		"huge": func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(endless{&read})}, nil
		},
		"garbage":    says(200, strings.NewReader("<html>")),
		"no keys":    says(200, strings.NewReader(`{"keys":[]}`)),
		"an error":   says(500, strings.NewReader(setOf(map[string]crypto.Signer{"x": other()}))),
		"a redirect": says(302, strings.NewReader("")),
	} {
		bubbletest.Test(t, func(t *testing.T) {
			s := &server{}
			s.answers(saysSet(map[string]crypto.Signer{"r": rsaKey()}))
			follow(t, s, func(v *jwks.Verifier) {
				s.answers(bad)
				token := []byte(sign(rsaKey(), object{"alg": "RS256", "kid": "r"}, claims(time.Now(), nil)))
				require.True(t, v.Up())
				for range 30 {
					time.Sleep(time.Minute)
					_, err := v.Verify(token, time.Now())
					require.NoError(t, err, name)
				}
				assert.False(t, v.Up(), name)
				assert.Less(t, s.asked.Load(), int64(30*6+2), name)
				s.answers(saysSet(map[string]crypto.Signer{"new": other()}))
				time.Sleep(21 * time.Second)
				assert.True(t, v.Up(), name)
				_, err := v.Verify([]byte(sign(other(), object{"alg": "RS256", "kid": "new"}, claims(time.Now(), nil))), time.Now())
				require.NoError(t, err, name)
				_, err = v.Verify([]byte(sign(rsaKey(), object{"alg": "RS256", "kid": "r"}, claims(time.Now(), nil))), time.Now())
				assert.Equal(t, "token_unknown_kid", cause(err), "%s: the key was taken out", name)
			})
		})
	}
	assert.Less(t, read.Load(), int64(200*(1<<20)))

	bubbletest.Test(t, func(t *testing.T) { // the issuer is down at the start
		s := &server{}
		s.answers(says(503, strings.NewReader("")))
		follow(t, s, func(v *jwks.Verifier) {
			token := []byte(sign(rsaKey(), object{"alg": "RS256", "kid": "r"}, claims(time.Now(), nil)))
			_, err := v.Verify(token, time.Now())
			assert.Equal(t, "token_no_keys", cause(err))
			assert.False(t, v.Up())
			s.answers(saysSet(map[string]crypto.Signer{"r": rsaKey()}))
			time.Sleep(11 * time.Second)
			_, err = v.Verify(token, time.Now())
			require.NoError(t, err)
		})
	})
}

// TestRotationUnderTraffic: tokens of the old key are taken as long as the set has it, those of the new one soon after it has that.
func TestRotationUnderTraffic(t *testing.T) {
	rsaKey()
	ecKey()
	bubbletest.Test(t, func(t *testing.T) {
		s := &server{}
		s.answers(saysSet(map[string]crypto.Signer{"r": rsaKey()}))
		follow(t, s, func(v *jwks.Verifier) {
			old := []byte(sign(rsaKey(), object{"alg": "RS256", "kid": "r"}, claims(time.Now(), nil)))
			fresh := []byte(sign(ecKey(), object{"alg": "ES256", "kid": "e"}, claims(time.Now(), nil)))
			time.Sleep(time.Minute)
			s.answers(saysSet(map[string]crypto.Signer{"r": rsaKey(), "e": ecKey()}))
			before := v.Generation()
			_, err := v.Verify(fresh, time.Now())
			require.Equal(t, "token_unknown_kid", cause(err), "no request waits for the issuer")
			for range 20 {
				time.Sleep(50 * time.Millisecond)
				_, err := v.Verify(old, time.Now())
				require.NoError(t, err)
			}
			_, err = v.Verify(fresh, time.Now())
			require.NoError(t, err)
			assert.Equal(t, before+1, v.Generation())
			s.answers(saysSet(map[string]crypto.Signer{"e": ecKey()}))
			time.Sleep(6 * time.Minute)
			_, err = v.Verify(old, time.Now())
			require.Error(t, err)
			assert.Equal(t, before+2, v.Generation())
		})
	})
}

// TestUnknownKidsDoNotHammer: a flood of tokens with unknown kids asks the issuer once in ten seconds.
func TestUnknownKidsDoNotHammer(t *testing.T) {
	rsaKey()
	bubbletest.Test(t, func(t *testing.T) {
		s := &server{}
		s.answers(saysSet(map[string]crypto.Signer{"r": rsaKey()}))
		follow(t, s, func(v *jwks.Verifier) {
			token := []byte(b64(object{"alg": "RS256", "kid": "x"}) + "." + b64(claims(time.Now(), nil)) + "." + b64("signature"))
			for range 6000 {
				_, err := v.Verify(token, time.Now())
				require.Equal(t, "token_unknown_kid", cause(err))
				time.Sleep(10 * time.Millisecond)
			}
			assert.LessOrEqual(t, s.asked.Load(), int64(7))
			assert.Greater(t, s.asked.Load(), int64(3))
		})
	})
}

// TestSecretsOfSourcesAreNotLogged: neither the log nor an error has the secrets of the set's URL.
func TestSecretsOfSourcesAreNotLogged(t *testing.T) {
	var log bytes.Buffer
	cfg := jwks.Config{
		Source: "http://secret:secret@127.0.0.1/keys?appid=1&token=secret", Issuer: "i", Audience: "a", Log: slog.New(slog.NewTextHandler(&log, nil)),
		Transport: refuser{},
	}
	_, err := jwks.New(t.Context(), cfg)
	require.NoError(t, err)
	require.Contains(t, log.String(), "nobody answers")
	require.NotContains(t, log.String(), "secret")
	cfg.Source = "https://h:secret/keys"
	_, err = jwks.New(t.Context(), cfg)
	require.ErrorIs(t, err, jwks.ErrSource)
	require.NotContains(t, err.Error(), "h:secret/")
}

// refuser is a transport without a network.
type refuser struct{}

func (refuser) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("nobody answers")
}

// TestFile: a file is followed, and one that cannot be used leaves the keys of before.
func TestFile(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		v, file := verifier(t, setOf(map[string]crypto.Signer{"r": rsaKey()}))
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = v.Run(ctx) })
		token := []byte(sign(ecKey(), object{"alg": "ES256", "kid": "e"}, claims(time.Now(), nil)))
		require.NoError(t, os.WriteFile(file, []byte(setOf(map[string]crypto.Signer{"e": ecKey()})), 0o600))
		time.Sleep(3 * time.Second)
		_, err := v.Verify(token, time.Now())
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, []byte("nonsense"), 0o600))
		time.Sleep(3 * time.Second)
		_, err = v.Verify(token, time.Now())
		require.NoError(t, err)
		stop()
		running.Wait()
	})
}
