package config

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/origin"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
	"github.com/warmpath/warmpath/dataplane/tracing"
)

var (
	// ErrExposed is an operators' API that anyone on the network could use.
	ErrExposed = errors.New("router: the operators' API would be open to the network")
	// ErrLimit is a number that makes no sense.
	ErrLimit = errors.New("router: bad limit")
	// ErrTokenize is a Tokenize.By that does not exist.
	ErrTokenize = errors.New("router: unknown tokenizer")
)

// Check returns the errors in c, defaults included. It opens no file for writing and binds no
// port.
func Check(c Config) error {
	c.SetDefaults()
	_, policyErr := c.Policy.New()
	_, _, tlsErr := c.LoadTLS()
	return errors.Join(c.Check(), policyErr, tlsErr)
}

// Check returns the errors in settings that have their defaults, as far as no file needs to be
// read.
func (c *Config) Check() error {
	_, sourceErr := c.Sources.Sources(c.Log)
	_, originErr := c.Requests.AllowedOrigins()
	return errors.Join(
		c.checkAddresses(),
		checkOneOf("--kv-hints", c.Cluster.Hints, HintsAuto, HintsOff),
		checkOneOf("--replicas", c.Cluster.Peers, PeersAuto, PeersOff),
		c.checkAudience(), c.checkNumbers(), c.Requests.checkTrust(), c.checkTLS(), ingest.CheckSnapshot(c.Snapshot.File), tracing.CheckEndpoint(c.Logs.Traces), c.Tokenize.check(), sourceErr, originErr,
	)
}

// AllowedOrigins reads Origins.
func (r *Requests) AllowedOrigins() (*origin.Allowed, error) {
	a, err := origin.ParseAllowed(r.Origins)
	if err != nil {
		return nil, fmt.Errorf("--cors-allowed-origins: %w", err)
	}
	return a, nil
}

// New returns the policy with these options.
func (p *Policy) New() (policy.Policy, error) {
	choice, err := policy.New(p.Name, *p.Options)
	if err == nil && p.SessionAffinity {
		choice = policy.Sticky{Policy: choice}
	}
	return choice, err
}

// checkAddresses refuses bad addresses and an exposed operators' API, which adds and removes
// workers.
func (c *Config) checkAddresses() error {
	addr, flag := c.Operator.Listen, "--operator-listen"
	if addr == "" {
		addr, flag = c.Listen, "--listen"
	}
	for _, a := range []string{c.Listen, addr} {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return fmt.Errorf("cannot listen on %q: want host:port, such as 127.0.0.1:8000: %w", a, err)
		}
	}
	host, _, _ := net.SplitHostPort(addr)
	if c.Operator.Key != "" || tlsconfig.Loopback(host) {
		return nil
	}
	return fmt.Errorf("cannot listen on %s %s: %w: set --operator-key, or keep the operator API local with --operator-listen 127.0.0.1:8001",
		flag, addr, ErrExposed)
}

func checkOneOf(flag, value, a, b string) error {
	if value != a && value != b {
		return fmt.Errorf("cannot use %s %q: want %s or %s", flag, value, a, b)
	}
	return nil
}

func (t *Tokenize) check() error {
	if t.By != TokenizeAuto && t.By != TokenizeByWorkers {
		return fmt.Errorf("cannot use --tokenize %q: %w: want %s or %s", t.By, ErrTokenize, TokenizeAuto, TokenizeByWorkers)
	}
	for _, p := range t.AllowedPaths {
		if !filepath.IsAbs(p) {
			return fmt.Errorf("cannot use --allow-model-path %q: want an absolute path", p)
		}
	}
	_, err := tokens.ParseFolders(t.ModelPaths)
	return err
}

// checkTrust refuses trust in all clients where each key has its own, salts of keys without keys,
// and tokens for anybody.
func (r *Requests) checkTrust() error {
	c := &r.Clients
	keyed := c.Keys != "" || c.JWKS != ""
	if given := c.Issuer != "" && c.TokenAudience != ""; given != (c.JWKS != "") || given != (c.Issuer != "" || c.TokenAudience != "") {
		return fmt.Errorf("cannot use --client-jwks: %w: it goes with --client-jwt-issuer and --client-jwt-audience, all three or none", ErrLimit)
	}
	if c.CacheSalt && !keyed {
		return fmt.Errorf("cannot use --client-cache-salt: %w: it needs --client-keys or --client-jwks", ErrLimit)
	}
	if r.TrustPriority && keyed {
		return fmt.Errorf("cannot use --trust-priority with --client-keys or --client-jwks: %w: give keys that may ask for one a limit, priority=N", ErrLimit)
	}
	return nil
}

func (c *Config) checkAudience() error {
	switch c.Requests.Audience {
	case AudienceAll, AudienceOperators, AudienceNone:
		return nil
	}
	return fmt.Errorf("cannot use --answer-headers %q: want %s, %s or %s", c.Requests.Audience, AudienceAll, AudienceOperators, AudienceNone)
}
