package jwks

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/warmpath/warmpath/dataplane/regularfile"
	"github.com/warmpath/warmpath/dataplane/secrets"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// ErrSource is a set of keys that cannot be used.
var ErrSource = errors.New("jwks: unusable key set")

const (
	// refreshEvery is the time between two looks at a URL: issuers name a new key before they use
	// it.
	refreshEvery = 5 * time.Minute
	// lookEvery is the time between two looks at a file.
	lookEvery = time.Second
	// retryAfter is the least time between two looks at a URL.
	retryAfter = 10 * time.Second
	// fetchTimeout bounds an answer's time, and maxSet its size: issuers have two or three keys of
	// 2 KB with their certificates.
	fetchTimeout = 10 * time.Second
	maxSet       = 256 << 10
	maxKeys      = 64
	// minRSA and maxRSA bound the sizes of RSA keys: RFC 7518 3.3, and crypto/tls. A key of 800,000
	// bits takes 25 s of a processor for each token, whoever shows it.
	minRSA, maxRSA = 2048, 8192
)

// parseSource returns the URL of a source; nil: it is a file.
func parseSource(source string) (*url.URL, error) {
	u, err := url.Parse(source)
	if err != nil && strings.Contains(source, "://") {
		return nil, fmt.Errorf("%w: %w", ErrSource, secrets.URLError(err))
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return nil, nil //nolint:nilerr // what is no URL is a file
	}
	if u.Host == "" || u.Scheme == "http" && !tlsconfig.Loopback(u.Hostname()) {
		return nil, fmt.Errorf("%w: want https://, or http:// on loopback: whoever changes the answer makes tokens", ErrSource)
	}
	return u, nil
}

// get returns the text of the set.
func (v *Verifier) get(ctx context.Context) ([]byte, error) {
	if v.url == nil {
		text, err := regularfile.Read(v.cfg.Source, maxSet)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSource, err)
		}
		return text, nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url.String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSource, err)
	}
	resp, err := v.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrSource, secrets.MaskURL(v.url.String()), secrets.URLError(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: the answer has status %d", ErrSource, resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxSet+1))
	if err == nil && len(text) > maxSet {
		err = fmt.Errorf("it has more than %d bytes", maxSet)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSource, err)
	}
	return text, nil
}

// keySet is a set of public keys. It never changes.
type keySet struct {
	text  []byte
	byKID map[string]jose.JSONWebKey
}

// parseSet takes the public keys for signatures from a set, and leaves out all others.
func parseSet(text []byte) (*keySet, error) {
	var all struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("%w: want {\"keys\": [...]}: %w", ErrSource, err)
	}
	if len(all.Keys) > maxKeys {
		return nil, fmt.Errorf("%w: it has more than %d keys", ErrSource, maxKeys)
	}
	set := &keySet{text: bytes.Clone(text), byKID: map[string]jose.JSONWebKey{}}
	for _, raw := range all.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(raw) != nil || !key.IsPublic() || !key.Valid() || key.Use != "" && key.Use != "sig" || !suits(&key) {
			continue
		}
		if _, twice := set.byKID[key.KeyID]; twice {
			return nil, fmt.Errorf("%w: two keys have the kid %q: give each its own", ErrSource, key.KeyID)
		}
		set.byKID[key.KeyID] = key
	}
	if len(set.byKID) == 0 {
		return nil, fmt.Errorf("%w: it has no public RSA key of %d to %d bits, EC or Ed25519 key for signatures", ErrSource, minRSA, maxRSA)
	}
	return set, nil
}

func suits(key *jose.JSONWebKey) bool {
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= minRSA && k.N.BitLen() <= maxRSA
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	default:
		return false
	}
}

// find returns the key of a kid. A token without one is for the only key.
func (s *keySet) find(kid string) (jose.JSONWebKey, bool) {
	if key, ok := s.byKID[kid]; ok {
		return key, true
	}
	if kid == "" && len(s.byKID) == 1 {
		for _, key := range s.byKID {
			return key, true
		}
	}
	return jose.JSONWebKey{}, false
}
