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
	// maxTokenNames bounds the names of tokens that are counted.
	maxTokenNames = 8192
	// tokenPrefix begins the names of tokens; no line of the file has such a one.
	tokenPrefix = "jwt:"
	// tokenNames is the name of all of them in metrics.
	tokenNames = tokenPrefix + "*"
	// hashPrefix begins the rest of the name where the subject is hashed.
	hashPrefix = "sha256:"
	// forgetEvery is the least time between two looks through all names.
	forgetEvery = time.Second
)

// Secrets that are no client's. A token that is refused gets a *[jwks.TokenError].
var (
	ErrNoKey      = errors.New("clientkey: no key")
	errUnknownKey = errors.New("clientkey: unknown key")

	errBadLimits = &jwks.TokenError{Cause: "token_bad_limits"}
	errManyNames = &jwks.TokenError{Cause: "token_too_many_names", Later: true}
)

// tokens are the keys of clients with a JSON Web Token.
type tokens struct {
	verifier           *jwks.Verifier
	group              *group
	maxNames, maxKnown int

	mu    sync.RWMutex
	known map[hash]knownToken // guarded by mu, as is all below
	names map[string]*Key     // by name, of its last token
	gone  Counts              // of names that were forgotten
	swept time.Time           // all names were looked through
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
	k.tokens = &tokens{
		verifier: v, group: k.group, maxNames: maxTokenNames, maxKnown: maxTokens, known: map[hash]knownToken{}, names: map[string]*Key{},
	}
}

// Authenticate returns the key of a secret or a token.
func (k *Keys) Authenticate(secret []byte, now time.Time) (*Key, error) {
	if len(secret) == 0 {
		return nil, ErrNoKey
	}
	sum := sha256.Sum256(secret)
	if key := k.set.Load().by[sum]; key != nil {
		return key, nil
	}
	if k.tokens == nil || bytes.Count(secret, dot) != 2 {
		return nil, errUnknownKey
	}
	return k.tokens.find(sum, secret, now)
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
		return nil, errBadLimits
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if before := t.names[key.Name]; before != nil {
		key.used = before.used
	} else {
		if len(t.names) >= t.maxNames && !t.forgetLocked(now) {
			return nil, errManyNames
		}
		key.used = &usage{group: t.group}
	}
	if len(t.known) >= t.maxKnown {
		t.shrinkLocked(now)
	}
	t.names[key.Name] = key
	t.known[sum] = knownToken{key, found.Expires, generation}
	return key, nil
}

// tokenName returns the name for a subject: its own text where that suits logs and messages and is
// nobody else's hash.
func tokenName(subject string) string {
	name := tokenPrefix + subject
	if len(name) > maxName || subject == "*" || strings.HasPrefix(subject, hashPrefix) || strings.ContainsFunc(subject, func(r rune) bool { return r <= ' ' || r > '~' }) {
		sum := sha256.Sum256([]byte(subject))
		return tokenPrefix + hashPrefix + base64.RawURLEncoding.EncodeToString(sum[:])
	}
	return name
}

// parseClaim reads the limits in a token: an object with the names and values of the file. A list
// of models may be a list. A claim that is not understood grants nothing.
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
		if len(t.known) < t.maxKnown/2 {
			return
		}
		delete(t.known, sum)
	}
}

// forgetLocked forgets the names that use nothing, with their tokens, and reports whether there are
// any.
func (t *tokens) forgetLocked(now time.Time) bool {
	if since := now.Sub(t.swept); since >= 0 && since < forgetEvery {
		return false
	}
	t.swept = now
	for name, key := range t.names {
		if e := key.use(now); !e.inUse() {
			t.gone.add(key.Counts())
			delete(t.names, name)
		}
	}
	maps.DeleteFunc(t.known, func(_ hash, known knownToken) bool { return t.names[known.key.Name] == nil })
	return len(t.names) < t.maxNames
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
