package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/regularfile"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// ErrKeys is a file of API keys that cannot be used. Its text has no key.
var ErrKeys = errors.New("worker: unusable file of API keys")

// Key holds the values of Authorization for a worker; the zero value has none. SGLang wants its
// --api-key on all routes but /ready, /health and /metrics. Routes that change it want its
// --admin-api-key instead, where it has one; of these the router uses /abort_request and
// /flush_cache.
type Key struct{ api, admin []byte }

// API returns the value for most routes; nil: none is sent.
func (k *Key) API() []byte { return k.api }

// Admin returns the value for the routes that change the worker.
func (k *Key) Admin() []byte {
	if len(k.admin) > 0 {
		return k.admin
	}
	return k.api
}

// noKey is for workers without a key.
var noKey = &Key{}

// Keys are the API keys of workers, from a file that is read again when it changes. A nil Keys has
// none.
type Keys struct {
	current func() *keyList

	mu   sync.Mutex
	list *keyList  // guarded by mu
	at   time.Time // of the last look at the file; guarded by mu
}

// keyList is the content of the file.
type keyList struct {
	all *Key
	by  map[string]*Key // by URL
}

const (
	// keysEvery is the time between two looks at the file: all monitors ask four times a second.
	keysEvery = time.Second
	// maxKeys bounds the file: 16,384 workers of 64 bytes.
	maxKeys = 1 << 20
)

// ReadKeys reads "[URL] KEY [ADMIN_KEY]" from each line of a file; "-" is no key, and # begins a
// comment. A line without a URL is for all workers that no other line names.
func ReadKeys(file string, log *slog.Logger) (*Keys, error) {
	tlsconfig.WarnReadable(log, file)
	current, err := tlsconfig.Follow(log, "API keys of workers", file, func() (*keyList, error) { return loadKeys(file) })
	if err != nil {
		return nil, fmt.Errorf("cannot use --worker-api-key-file: %w", err)
	}
	return &Keys{current: current}, nil
}

func loadKeys(file string) (*keyList, error) {
	text, err := regularfile.Read(file, maxKeys)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeys, err)
	}
	list := &keyList{all: noKey, by: map[string]*Key{}}
	number, found := 0, false
	for line := range strings.Lines(string(text)) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if err := list.add(fields); err != nil {
			return nil, fmt.Errorf("%w: %s: line %d: %w", ErrKeys, file, number, err)
		}
		found = true
	}
	if !found { // as a file is for a moment that someone is writing
		return nil, fmt.Errorf("%w: %s has no key", ErrKeys, file)
	}
	return list, nil
}

// Errors of a line. They do not quote it.
var (
	errKeyLine  = errors.New("want [URL] KEY [ADMIN_KEY], with spaces between them")
	errKeyTwice = errors.New("this worker, or all of them, has a line before")
	errKeyByte  = errors.New("a key has characters that HTTP's headers do not")
)

// add takes in the fields of a line.
func (l *keyList) add(fields []string) error {
	url := ""
	if strings.Contains(fields[0], "://") {
		spec, err := Spec{URL: fields[0]}.Normal()
		if err != nil {
			return err
		}
		url, fields = spec.URL, fields[1:]
	}
	if len(fields) < 1 || len(fields) > 2 {
		return errKeyLine
	}
	key := &Key{}
	for i, value := range []*[]byte{&key.api, &key.admin} {
		if i >= len(fields) || fields[i] == "-" {
			continue
		}
		if strings.ContainsFunc(fields[i], func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return errKeyByte
		}
		*value = []byte("Bearer " + fields[i])
	}
	switch {
	case url == "" && l.all != noKey, url != "" && l.by[url] != nil:
		return errKeyTwice
	case url == "":
		l.all = key
	default:
		l.by[url] = key
	}
	return nil
}

// Of returns the key of the worker at a URL, never nil. The same key is the same pointer until the
// file changes.
func (k *Keys) Of(url string) *Key {
	key, _ := k.find(url)
	return key
}

// Named reports whether a line names the worker at a URL.
func (k *Keys) Named(url string) bool {
	_, named := k.find(url)
	return named
}

func (k *Keys) find(url string) (key *Key, named bool) {
	if k == nil {
		return noKey, false
	}
	list := k.read(keysEvery)
	if key := list.by[url]; key != nil {
		return key, true
	}
	return list.all, false
}

// Reload reads the file again where it has changed.
func (k *Keys) Reload() {
	if k != nil {
		k.read(0)
	}
}

// read returns the list, as of the last look at the file unless that was so long ago.
func (k *Keys) read(every time.Duration) *keyList {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); k.list == nil || now.Sub(k.at) >= every {
		k.list, k.at = k.current(), now
	}
	return k.list
}

// refusedKey reports whether a status is the refusal of a key, or of none.
func refusedKey(status int) bool {
	return status == fasthttp.StatusUnauthorized || status == fasthttp.StatusForbidden
}

// keyRefusal explains a worker's refusal, with the remedy.
func keyRefusal(status int, key *Key) string {
	advice := "give its API key in --worker-api-key-file"
	if len(key.api) > 0 {
		advice = "it has another API key than --worker-api-key-file"
	}
	return fmt.Sprintf("a server that answers /server_info with %d: %s", status, advice)
}
