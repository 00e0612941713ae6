package clientkey

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/regularfile"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// ErrFile is a file of clients' keys that cannot be used. Its text has no hash.
var ErrFile = errors.New("clientkey: unusable file of clients' keys")

const (
	// lookEvery is the time between two looks at the file.
	lookEvery = time.Second
	// maxFile bounds the file, and with it the names in metrics: 10,000 lines of 100 bytes.
	maxFile = 1 << 20
	// maxName bounds a name, which is in metrics and in each line of the access log.
	maxName = 64
	// operatorName is the name of requests with the operators' key, which no line may have.
	operatorName = "operator"
)

// hash is the SHA-256 of a key.
type hash [sha256.Size]byte

// keySet is the content of the file.
type keySet struct {
	by    map[hash]*Key
	names map[string]*Key
	keys  []*Key // in the order of the file
}

// Keys are the keys of a file.
type Keys struct {
	file    string
	current func() *keySet
	set     atomic.Pointer[keySet]
	known   map[string]*Key // by name, in the file or with use yet; of the goroutine that reads it
	others  *Key            // of requests with the operators' key
	group   *group
	tokens  *tokens // nil: none are accepted
}

// Read reads a file of keys; "": there is none. Run follows it.
func Read(file string, log *slog.Logger) (*Keys, error) {
	k := &Keys{file: file, known: make(map[string]*Key), group: newGroup()}
	k.others = &Key{Name: operatorName, used: &usage{group: k.group}}
	k.others.Priority, k.others.HasPriority, k.others.OwnSalt = maxPriority, true, true
	if file == "" {
		k.set.Store(new(keySet))
		k.current = k.set.Load
		return k, nil
	}
	tlsconfig.WarnWritable(log, file)
	var err error
	if k.current, err = tlsconfig.Follow(log, "clients' keys", file, k.load); err != nil {
		return nil, fmt.Errorf("cannot use --client-keys: %w", err)
	}
	k.set.Store(k.current())
	return k, nil
}

// Run follows the file until ctx ends. A file that cannot be used leaves the keys of before.
func (k *Keys) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			k.set.Store(k.current())
		}
	}
}

// Find returns the key of a secret; nil: there is none. It looks up the secret's hash, whose bytes
// a client cannot choose, so the time of a look-up does not reveal how much of a guess is right.
func (k *Keys) Find(secret []byte) *Key {
	if len(secret) == 0 {
		return nil
	}
	return k.set.Load().by[sha256.Sum256(secret)]
}

// Operator returns the key of requests with the operators' key, which has no limits.
func (k *Keys) Operator() *Key { return k.others }

// All returns the keys of the file, and that of operators.
func (k *Keys) All() []*Key { return append(slices.Clone(k.set.Load().keys), k.others) }

func (k *Keys) load() (*keySet, error) {
	text, err := regularfile.Read(k.file, maxFile)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	set, err := parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFile, k.file, err)
	}
	// A name that is taken out and put back goes on with its use: its rates may be in debt.
	now := time.Now()
	maps.DeleteFunc(k.known, func(name string, key *Key) bool { e := key.use(now); return set.names[name] == nil && !e.inUse() })
	for _, key := range set.keys {
		if before := k.known[key.Name]; before != nil {
			key.used = before.used
		} else {
			key.used = &usage{group: k.group}
		}
		k.known[key.Name] = key
	}
	return set, nil
}

// Errors of a line. They do not quote it.
var (
	errLine      = errors.New("want NAME HASH [LIMIT=VALUE …], with spaces between them, as `warmpath key new NAME` prints it")
	errName      = fmt.Errorf("a name has 1 to %d letters, digits, dots, dashes and underscores, and is not %q", maxName, operatorName)
	errHash      = errors.New("want the SHA-256 of the key in 64 hex digits, as `warmpath key new NAME` prints it")
	errNameTwice = errors.New("this name has a line before; put two hashes on one line, HASH,HASH, to change a key")
	errHashTwice = errors.New("this key is there before")
	errLimit     = errors.New("want models=NAME,…, requests-per-minute=N, tokens-per-minute=N, concurrency=N, priority=N, deadline=DURATION or cache-salt=own, each once, " +
		"with N and DURATION above 0, but for priority")
	errEmpty = errors.New("it has no key") // as a file is for a moment that someone is writing
)

func parse(text string) (*keySet, error) {
	set := &keySet{by: make(map[hash]*Key), names: make(map[string]*Key)}
	number := 0
	for line := range strings.Lines(text) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		key, hashes, err := parseLine(fields)
		if err == nil && set.names[key.Name] != nil {
			err = errNameTwice
		}
		for _, h := range hashes {
			if set.by[h] != nil {
				err = errors.Join(err, errHashTwice)
				break
			}
			set.by[h] = key
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		set.names[key.Name] = key
		set.keys = append(set.keys, key)
	}
	if len(set.keys) == 0 {
		return nil, errEmpty
	}
	return set, nil
}

func parseLine(fields []string) (*Key, []hash, error) {
	if len(fields) < 2 {
		return nil, nil, errLine
	}
	key := &Key{Name: fields[0]}
	if !validName(key.Name) {
		return nil, nil, errName
	}
	var hashes []hash
	for text := range strings.SplitSeq(fields[1], ",") {
		raw, err := hex.DecodeString(text)
		if err != nil || len(raw) != len(hash{}) {
			return nil, nil, errHash
		}
		hashes = append(hashes, hash(raw))
	}
	key.salt = saltOf(key.Name, nil)
	return key, hashes, key.parseLimits(fields[2:])
}

func validName(name string) bool {
	return name != "" && len(name) <= maxName && name != operatorName && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(".-_", r)
	})
}

// parseLimits reads "LIMIT=VALUE …".
func (k *Key) parseLimits(fields []string) error {
	seen := make(map[string]bool)
	for _, field := range fields {
		name, value, ok := strings.Cut(field, "=")
		if !ok || value == "" || seen[name] {
			return errLimit
		}
		seen[name] = true
		count, err := strconv.ParseInt(value, 10, 32)
		positive := err == nil && count > 0
		switch name {
		case "models":
			k.models = strings.Split(value, ",")
			ok = !slices.Contains(k.models, "")
		case "requests-per-minute":
			k.requests, ok = float64(count), positive
		case "tokens-per-minute":
			k.tokens, ok = float64(count), positive
		case "concurrency":
			k.concurrency, ok = int(count), positive
		case "priority":
			k.Priority, k.HasPriority, ok = int(count), true, err == nil
		case "deadline":
			k.Deadline, err = time.ParseDuration(value)
			ok = err == nil && k.Deadline > 0
		case "cache-salt":
			k.OwnSalt, ok = true, value == "own"
		default:
			ok = false
		}
		if !ok {
			return errLimit
		}
	}
	return nil
}

// Line makes a key and its line for the file, with limits as they are written there.
func Line(name string, limits []string) (secret, line string, err error) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	secret = "wpk-" + base64.RawURLEncoding.EncodeToString(random[:])
	sum := sha256.Sum256([]byte(secret))
	fields := append([]string{name, hex.EncodeToString(sum[:])}, limits...)
	line = strings.Join(fields, " ")
	if len(strings.Fields(line)) != len(fields) || strings.HasPrefix(name, "#") {
		return "", "", fmt.Errorf("cannot make a key: %w", errName)
	}
	if _, _, err := parseLine(fields); err != nil {
		return "", "", fmt.Errorf("cannot make a key: %w", err)
	}
	return secret, line, nil
}
