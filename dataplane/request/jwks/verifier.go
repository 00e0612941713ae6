package jwks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// algorithms are those of signatures with public keys. There is no none and no HMAC.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

const (
	// leeway is how much the issuer's clock may differ.
	leeway = 30 * time.Second
	// maxDate is in the year 35,000,000, in seconds. A date that fits no int64 or time.Time comes
	// out as any other.
	maxDate = 1 << 50
	// MaxToken bounds a token in bytes, below the bound of heads.
	MaxToken = 8 << 10
)

// Config holds the settings of a Verifier. All but Transport are needed.
type Config struct {
	Source           string // file, or URL with https
	Issuer, Audience string // of all tokens
	Log              *slog.Logger
	Transport        http.RoundTripper // nil: http.DefaultTransport
}

// Check returns an error for settings that cannot be used.
func (c *Config) Check() error {
	if c.Issuer == "" || c.Audience == "" {
		return fmt.Errorf("%w: name the issuer and the audience, or tokens for others are taken", ErrSource)
	}
	_, err := parseSource(c.Source)
	return err
}

// Verifier verifies tokens.
type Verifier struct {
	cfg        Config
	url        *url.URL // nil: a file
	client     *http.Client
	set        atomic.Pointer[keySet]
	generation atomic.Uint64
	wanted     chan struct{} // has room for one: a token has an unknown kid
	up         atomic.Bool   // the last look succeeded
}

// Token is the content of a token.
type Token struct {
	Subject string
	Expires time.Time
	Limits  json.RawMessage // the claim "warmpath"; nil: there is none
}

// TokenError is a token that is refused.
type TokenError struct {
	Cause string // for operators: it would help to make a better one
	Later bool   // the token may be good: nobody can tell now
}

// Error says why.
func (e *TokenError) Error() string { return "jwks: " + e.Cause }

// The causes of refusals.
var (
	errTooLong     = &TokenError{Cause: "token_too_long"}
	errMalformed   = &TokenError{Cause: "token_malformed"}
	errNoKeys      = &TokenError{Cause: "token_no_keys", Later: true} // the set has never been had
	errUnknownKey  = &TokenError{Cause: "token_unknown_kid"}
	errAlgorithm   = &TokenError{Cause: "token_wrong_algorithm"}
	errSignature   = &TokenError{Cause: "token_wrong_signature"}
	errExpired     = &TokenError{Cause: "token_expired"}
	errNotYetValid = &TokenError{Cause: "token_not_yet_valid"}
	errIssuer      = &TokenError{Cause: "token_wrong_issuer"}
	errAudience    = &TokenError{Cause: "token_wrong_audience"}
	errClaims      = &TokenError{Cause: "token_without_claims"} // exp or sub
)

// New reads the set for the first time. A file must be usable; a URL may follow later.
func New(ctx context.Context, cfg Config) (*Verifier, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	v := &Verifier{cfg: cfg, wanted: make(chan struct{}, 1), client: &http.Client{
		Transport: cfg.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if v.url, _ = parseSource(cfg.Source); v.url == nil {
		tlsconfig.WarnWritable(cfg.Log, cfg.Source)
	}
	v.set.Store(&keySet{})
	v.up.Store(true)
	err := v.look(ctx)
	if err != nil && v.url == nil {
		return nil, err
	}
	v.looked(err)
	return v, nil
}

// Run follows the set until ctx ends.
func (v *Verifier) Run(ctx context.Context) error {
	every, least := refreshEvery, retryAfter
	if v.url == nil {
		every, least = lookEvery, lookEvery
	}
	for {
		wait := every
		if !v.Up() {
			wait = least
		}
		if !v.sleep(ctx, least, nil) || !v.sleep(ctx, wait-least, v.wanted) {
			return nil
		}
		if err := v.look(ctx); ctx.Err() == nil {
			v.looked(err)
		}
	}
}

// sleep waits for d, or less where the set is wanted; false: ctx has ended.
func (v *Verifier) sleep(ctx context.Context, d time.Duration, wanted <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-wanted:
	}
	return true
}

// look reads the set.
func (v *Verifier) look(ctx context.Context) error {
	text, err := v.get(ctx)
	if err != nil {
		return err
	}
	if before := v.set.Load(); len(before.byKID) > 0 && bytes.Equal(text, before.text) {
		return nil
	}
	fresh, err := parseSet(text)
	if err != nil {
		return err
	}
	v.set.Store(fresh)
	v.generation.Add(1)
	v.cfg.Log.Info("keys of --client-jwks", "keys", len(fresh.byKID))
	return nil
}

// looked notes the result of a look, and logs the first failure of a row and the end of the row.
func (v *Verifier) looked(err error) {
	switch before := v.up.Swap(err == nil); {
	case err != nil && before:
		v.cfg.Log.Warn("cannot read the keys of --client-jwks; trying again, with the earlier ones in use", "earlier", len(v.set.Load().byKID), "error", err)
	case err == nil && !before:
		v.cfg.Log.Info("the keys of --client-jwks can be read again")
	}
}

// Up reports whether the last look at the set succeeded.
func (v *Verifier) Up() bool { return v.up.Load() }

// Generation counts the changes of the set. A token that was verified before one may not be valid.
func (v *Verifier) Generation() uint64 { return v.generation.Load() }

// Verify checks a token. An error is a *TokenError.
func (v *Verifier) Verify(token []byte, now time.Time) (Token, error) {
	if len(token) > MaxToken {
		return Token{}, errTooLong
	}
	parsed, err := jwt.ParseSigned(string(token), algorithms)
	var unexpected *jose.ErrUnexpectedSignatureAlgorithm
	switch {
	case errors.As(err, &unexpected):
		return Token{}, errAlgorithm
	case err != nil || len(parsed.Headers) != 1:
		return Token{}, errMalformed
	}
	header := parsed.Headers[0]
	set := v.set.Load()
	key, ok := set.find(header.KeyID)
	switch {
	case len(set.byKID) == 0:
		return Token{}, errNoKeys
	case !ok:
		select {
		case v.wanted <- struct{}{}:
		default:
		}
		return Token{}, errUnknownKey
	}
	if key.Algorithm != "" && key.Algorithm != header.Algorithm {
		return Token{}, errAlgorithm
	}
	var claims jwt.Claims
	var own struct {
		Limits json.RawMessage `json:"warmpath"`
	}
	if err := parsed.Claims(key.Key, &claims, &own); err != nil {
		if errors.Is(err, jose.ErrCryptoFailure) {
			return Token{}, errSignature
		}
		return Token{}, errMalformed
	}
	if claims.Expiry == nil || claims.Subject == "" {
		return Token{}, errClaims
	}
	for _, at := range []*jwt.NumericDate{claims.Expiry, claims.NotBefore, claims.IssuedAt} {
		if at != nil && (*at < 0 || *at > maxDate) { // else "nbf": 1e300 would be long ago
			return Token{}, errMalformed
		}
	}
	err = claims.ValidateWithLeeway(jwt.Expected{Issuer: v.cfg.Issuer, AnyAudience: jwt.Audience{v.cfg.Audience}, Time: now}, leeway)
	switch {
	case errors.Is(err, jwt.ErrExpired):
		return Token{}, errExpired
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return Token{}, errNotYetValid
	case errors.Is(err, jwt.ErrInvalidAudience):
		return Token{}, errAudience
	case err != nil:
		return Token{}, errIssuer
	}
	return Token{Subject: claims.Subject, Expires: claims.Expiry.Time().Add(leeway), Limits: own.Limits}, nil
}
