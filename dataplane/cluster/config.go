package cluster

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/secrets"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// Config holds the address of NATS and this process's identity there; zero fields take the
// defaults. Without URLs the server runs in this process.
type Config struct {
	// Nats://, tls:// or ws:// URLs of the operator's servers, with user:password@ or token@;
	// none: embedded.
	URLs     []string
	Listen   string // embedded: where other processes join; default 127.0.0.1 and any port
	StoreDir string // embedded: folder that keeps marks and records; "": memory
	// Shown to NATS; embedded: the cluster's secret, required from joiners, as nats://TOKEN@host:port,
	// off loopback. Joiners may have a token of RoleToken instead.
	Token string
	// TokenOf is asked for the token at each connection to URLs, where Token is empty; "" is none.
	TokenOf     func() string
	Credentials string // file with the user's JWT and key, as nsc writes it
	NKey        string // file with the seed of the user's key
	TLS         TLS
	// Of buckets and subjects, so that clusters can share a NATS; default warmpath.
	Prefix   string
	Replicas int    // copies of the buckets in a NATS cluster; default 1
	Name     string // of this process, as NATS shows connections; default warmpath
	Log      *slog.Logger

	lookEvery time.Duration // 0 is the constant of that name; tests set it, and maxHeld
	maxHeld   int
}

// TLS names PEM files. The embedded server shows Cert and Key; with CA it asks joiners for
// certificates.
type TLS struct {
	CA   string // authorities of NATS's certificate; "": the system's
	Cert string // shown to NATS
	Key  string
}

// Errors of Open and of calls that need NATS.
var (
	ErrConfig  = errors.New("cluster: unusable settings")
	ErrDown    = errors.New("cluster: NATS is out of reach")
	ErrRecord  = errors.New("cluster: unusable record")
	ErrNoReply = errors.New("cluster: no process answers")
	ErrDenied  = errors.New("cluster: the token's role does not allow it")
)

// prefixForm matches names that both buckets and subjects may have.
var prefixForm = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func (c *Config) setDefaults() {
	c.Prefix = cmp.Or(c.Prefix, "warmpath")
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:0")
	c.Name = cmp.Or(c.Name, "warmpath")
	c.Replicas = cmp.Or(c.Replicas, 1)
	c.lookEvery, c.maxHeld = cmp.Or(c.lookEvery, lookEvery), cmp.Or(c.maxHeld, maxHeld)
	c.tokenOfURLs()
	if c.Log == nil {
		c.Log = slog.Default()
	}
}

// Check returns an error for settings that Open would refuse, as far as no file or socket is
// needed.
func (c Config) Check() error {
	c.setDefaults()
	switch {
	case !prefixForm.MatchString(c.Prefix):
		return fmt.Errorf("%w: prefix %q: want up to 64 letters, digits, - and _", ErrConfig, c.Prefix)
	case c.Replicas < 1 || c.Replicas > 5:
		return fmt.Errorf("%w: %d replicas of the buckets: want 1 to 5", ErrConfig, c.Replicas)
	case (c.TLS.Cert == "") != (c.TLS.Key == ""):
		return fmt.Errorf("%w: a certificate needs its key, and a key its certificate", ErrConfig)
	case c.Credentials != "" && c.NKey != "":
		return fmt.Errorf("%w: credentials and an nkey: want one of them", ErrConfig)
	case len(c.URLs) > 0:
		return checkURLs(c.URLs)
	}
	return c.checkEmbedded()
}

func checkURLs(urls []string) error {
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			return fmt.Errorf("%w: NATS URL %q: want nats://host:4222 or tls://host:4222", ErrConfig, secrets.MaskURL(text))
		}
	}
	return nil
}

func (c *Config) checkEmbedded() error {
	host, port, err := net.SplitHostPort(c.Listen)
	switch {
	case err != nil || port == "":
		return fmt.Errorf("%w: the embedded NATS cannot listen on %q: want host:port", ErrConfig, c.Listen)
	case c.Credentials != "" || c.NKey != "":
		return fmt.Errorf("%w: credentials and nkeys are for a NATS of your own: give its URL", ErrConfig)
	case isRoleToken(c.Token):
		return fmt.Errorf("%w: the token is that of a role; the embedded NATS needs the cluster's secret, from which it is made", ErrConfig)
	case c.Replicas > 1:
		return fmt.Errorf("%w: %d replicas need a NATS cluster: give its URLs", ErrConfig, c.Replicas)
	}
	if tlsconfig.Loopback(host) {
		return nil
	}
	if c.Token == "" && (c.TLS.Cert == "" || c.TLS.CA == "") {
		return fmt.Errorf("%w: the embedded NATS on %s would be open to the network: give a token, or a certificate and the authority of the joiners", ErrConfig, c.Listen)
	}
	return nil
}

func isRoleToken(token string) bool {
	_, _, ok := TokenHolder(token)
	return ok
}

// tokenOfURLs takes a role's token out of the URLs: NATS is shown its key instead.
func (c *Config) tokenOfURLs() {
	for i, text := range c.URLs {
		u, err := url.Parse(text)
		if err != nil || u.User == nil || !isRoleToken(u.User.Username()) {
			continue
		}
		c.Token, u.User = u.User.Username(), nil
		c.URLs = slices.Clone(c.URLs)
		c.URLs[i] = u.String()
	}
}

// NewInstance draws an identity for a process.
func NewInstance() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}
