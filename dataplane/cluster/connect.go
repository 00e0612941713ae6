package cluster

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Times of the connection.
const (
	// A NATS that comes back is tried again after firstRetry to lastRetry, so that all processes
	// are back within the leases' grace, and not all at once.
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Second
	// pingTimeout closes a connection that is silent for twice as long: half-open ones, and
	// hanging servers.
	pingTimeout = 2 * time.Second
	// writeTimeout bounds a write into a connection that the server does not read.
	writeTimeout = 2 * time.Second
)

// retryDelay spreads the attempts of many processes.
func retryDelay(attempts int) time.Duration {
	most := min(firstRetry<<min(attempts, 10), lastRetry)
	return firstRetry + rand.N(most)
}

// connect makes the connection, which heals by itself for ever. It returns before it stands.
func connect(c *Cluster) (*nats.Conn, error) {
	opts := []nats.Option{
		nats.Name(c.cfg.Name), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(retryDelay), nats.PingInterval(pingTimeout), nats.MaxPingsOutstanding(2),
		nats.Timeout(writeTimeout), nats.FlusherTimeout(writeTimeout),
		// Nothing is kept for a server that is away: old beats would be lies.
		nats.ReconnectBufSize(-1),
		// The reader asks for missing records.
		nats.ReconnectHandler(func(*nats.Conn) { c.counts.reconnects.Add(1) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { c.lostConnection(err) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { c.lostConnection(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) { c.asyncError(s, err) }),
	}
	opts, err := identity(&c.cfg, c.server != nil, opts)
	if err != nil {
		return nil, err
	}
	url := strings.Join(c.cfg.URLs, ",")
	if c.server != nil {
		url = "nats://" + c.server.now.Load().Addr().String() // never tls://: there is no socket in between
		opts = append(opts, nats.InProcessServer(c.server))
	}
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nc, nil
}

// identity adds this process's credentials and the trusted authorities.
func identity(cfg *Config, embedded bool, opts []nats.Option) ([]nats.Option, error) {
	if h, pair, ok := parseToken(cfg.Token); ok {
		public, err := pair.PublicKey()
		if err != nil {
			return nil, fmt.Errorf("%w: token: %w", ErrConfig, err)
		}
		opts = append(opts, nats.Nkey(public, pair.Sign), nats.UserInfo(h.user(), ""))
	} else if cfg.Token != "" {
		opts = append(opts, nats.Token(cfg.Token))
	} else if cfg.TokenOf != nil {
		// TokenOf has looked at our own URLs alone.
		opts = append(opts, nats.TokenHandler(cfg.TokenOf), nats.IgnoreDiscoveredServers())
	}
	for _, file := range []string{cfg.Credentials, cfg.TLS.CA} {
		// NATS would read them at each attempt only.
		if file == "" {
			continue
		}
		if _, err := os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrConfig, err)
		}
	}
	if cfg.Credentials != "" {
		opts = append(opts, nats.UserCredentials(cfg.Credentials))
	}
	if cfg.NKey != "" {
		key, err := nats.NkeyOptionFromSeed(cfg.NKey)
		if err != nil {
			return nil, fmt.Errorf("%w: nkey seed %s: %w", ErrConfig, cfg.NKey, err)
		}
		opts = append(opts, key)
	}
	if embedded { // in process: TLS would be with ourselves
		return opts, nil
	}
	if cfg.TLS.CA != "" {
		opts = append(opts, nats.RootCAs(cfg.TLS.CA))
	}
	if cfg.TLS.Cert != "" {
		if _, err := tls.LoadX509KeyPair(cfg.TLS.Cert, cfg.TLS.Key); err != nil {
			return nil, fmt.Errorf("%w: certificate for NATS: %w", ErrConfig, err)
		}
		opts = append(opts, nats.ClientCert(cfg.TLS.Cert, cfg.TLS.Key))
	}
	return opts, nil
}
