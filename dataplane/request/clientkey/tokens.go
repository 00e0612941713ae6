package clientkey

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/request/jwks"
)

const (
	// maxTokens bounds the tokens that are known to be good. One beyond them is verified again.
	maxTokens = 16384
	// maxTokenNames bounds the names of tokens whose use is counted.
	maxTokenNames = 8192
	// tokenPrefix begins the names of tokens; no line of the file has such a one.
	tokenPrefix = "jwt:"
	// tokenNames is the name of all of them in metrics.
	tokenNames = tokenPrefix + "*"
)

// tokens are the keys of clients with a JSON Web Token.
type tokens struct {
	verifier *jwks.Verifier
	group    *group

	mu    sync.RWMutex
	known map[hash]knownToken // guarded by mu, as is all below
	names map[string]*Key     // by name, of its last token
	gone  Counts              // of names that were forgotten
}

var dot = []byte(".")

type knownToken struct {
	key        *Key
	expires    time.Time
	generation uint64 // of the set of keys that verified it
}

// AcceptTokens has clients show a token in place of a key of the file. It is called before the keys
// are used.
func (k *Keys) AcceptTokens(v *jwks.Verifier) {
	k.tokens = &tokens{verifier: v, group: k.group, known: map[hash]knownToken{}, names: map[string]*Key{}}
}

// Authenticate returns the key of a secret, or of a token; nil: there is none, for the cause.
func (k *Keys) Authenticate(secret []byte, now time.Time) (key *Key, cause string) {
	if len(secret) == 0 {
		return nil, "no_key"
	}
	sum := sha256.Sum256(secret)
	if key := k.set.Load().by[sum]; key != nil {
		return key, ""
	}
	if k.tokens == nil || bytes.Count(secret, dot) != 2 {
		return nil, "unknown_key"
	}
	key, err := k.tokens.find(sum, secret, now)
	if err == nil {
		return key, ""
	}
	cause = "unknown_key"
	var refused *jwks.TokenError
	if errors.As(err, &refused) {
		cause = refused.Cause
	}
	return nil, cause
}

// find returns the key of a token. A known one is not verified again.
func (t *tokens) find(sum hash, token []byte, now time.Time) (*Key, error) {
	generation := t.verifier.Generation()
	t.mu.RLock()
	known, ok := t.known[sum]
	t.mu.RUnlock()
	if ok && known.generation == generation && now.Before(known.expires) {
		return known.key, nil
	}
	found, err := t.verifier.Verify(token, now)
	if err != nil {
		return nil, err
	}
	key := &Key{Name: tokenName(found.Subject)}
	key.salt = saltOf(key.Name, nil)
	if key.parseClaim(found.Limits) != nil {
		return nil, &jwks.TokenError{Cause: "token_bad_limits"}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if before := t.names[key.Name]; before != nil {
		key.used = before.used
	} else {
		if len(t.names) >= maxTokenNames && !t.forgetLocked(now) {
			return nil, &jwks.TokenError{Cause: "token_too_many_names"}
		}
		key.used = &usage{group: t.group}
	}
	if len(t.known) >= maxTokens {
		t.shrinkLocked(now)
	}
	t.names[key.Name] = key
	t.known[sum] = knownToken{key, found.Expires, generation}
	return key, nil
}

// tokenName returns the name for a subject: its own text where that suits logs and messages.
func tokenName(subject string) string {
	name := tokenPrefix + subject
	if len(name) > maxName || subject == "*" || strings.ContainsFunc(subject, func(r rune) bool { return r <= ' ' || r > '~' }) {
		sum := sha256.Sum256([]byte(subject))
		return tokenPrefix + "sha256:" + base64.RawURLEncoding.EncodeToString(sum[:])
	}
	return name
}

// parseClaim reads the limits in a token: an object with the names and values of the file. A list of
// models may be a list. A claim that is not understood grants nothing.
func (k *Key) parseClaim(claim json.RawMessage) error {
	if len(claim) == 0 {
		return nil
	}
	var limits map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(claim)))
	decoder.UseNumber()
	if err := decoder.Decode(&limits); err != nil || limits == nil {
		return errLimit
	}
	var fields []string
	for name, value := range limits {
		switch v := value.(type) {
		case string:
			fields = append(fields, name+"="+v)
		case json.Number:
			fields = append(fields, name+"="+v.String())
		case []any:
			list := make([]string, len(v))
			for i := range v {
				list[i], _ = v[i].(string)
			}
			fields = append(fields, name+"="+strings.Join(list, ","))
		default:
			return errLimit
		}
	}
	return k.parseLimits(fields)
}

// shrinkLocked forgets the tokens that have expired, or else half of all.
func (t *tokens) shrinkLocked(now time.Time) {
	maps.DeleteFunc(t.known, func(_ hash, known knownToken) bool { return !now.Before(known.expires) })
	for sum := range t.known {
		if len(t.known) < maxTokens/2 {
			return
		}
		delete(t.known, sum)
	}
}

// forgetLocked forgets the names that use nothing, with their tokens, and reports whether there are
// any.
func (t *tokens) forgetLocked(now time.Time) bool {
	for name, key := range t.names {
		if e := key.use(now); !e.inUse() {
			t.gone.add(key.Counts())
			delete(t.names, name)
		}
	}
	maps.DeleteFunc(t.known, func(_ hash, known knownToken) bool { return t.names[known.key.Name] == nil })
	return len(t.names) < maxTokenNames
}

// all returns a key for each name.
func (t *tokens) all() []*Key {
	if t == nil {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Values(t.names))
}

// named returns the key of a name; nil: it is not known.
func (k *Keys) named(name []byte) *Key {
	if key := k.set.Load().names[string(name)]; key != nil || k.tokens == nil {
		return key
	}
	k.tokens.mu.RLock()
	defer k.tokens.mu.RUnlock()
	return k.tokens.names[string(name)]
}

// counts returns the totals of all names of tokens.
func (t *tokens) counts() Counts {
	t.mu.RLock()
	defer t.mu.RUnlock()
	sum := t.gone
	for _, key := range t.names {
		sum.add(key.Counts())
	}
	return sum
}

func (c *Counts) add(o Counts) {
	c.InFlight += o.InFlight
	c.Requests, c.PromptTokens, c.Completion = c.Requests+o.Requests, c.PromptTokens+o.PromptTokens, c.Completion+o.Completion
	for i := range c.Refused {
		c.Refused[i] += o.Refused[i]
	}
}
