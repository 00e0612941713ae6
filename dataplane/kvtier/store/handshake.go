package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// PeerTLS makes the TLS settings of connections between stores, in both directions. Each side must
// authenticate the other; package tlsconfig makes such settings from a shared key or from
// certificates. NIXL's metadata goes over these connections too, so NIXL is for trusted peers only.
// The zero value leaves connections in the clear, for any client.
type PeerTLS struct {
	Server *tls.Config
	Client func(host string) *tls.Config
}

// ErrUntrusted is a peer that does not trust this store, or that this store does not trust.
var ErrUntrusted = errors.New("store: peers do not trust each other")

// Advice for operators, in the logs of both sides.
const (
	advicePlain   = "one side has a key or certificate for KV tiers and the other has none: give all nodes the same --kv-tier-key-file, or --kv-tier-tls-cert, -key and -ca"
	adviceTheirs  = "the peer does not trust this node's key or certificate: give all nodes the same --kv-tier-key-file, or certificates of one authority"
	adviceOurs    = "this node does not trust the peer's key or certificate: give all nodes the same --kv-tier-key-file, or certificates of one authority"
	adviceExposed = "any client could read pages, and so prompts: give all nodes the same --kv-tier-key-file (32 characters or more, as of `openssl rand -hex 32`) " +
		"or --kv-tier-tls-cert, -key and -ca; or say --kv-tier-insecure on a network of the cluster's own"
)

// checkExposed refuses a listener that other machines reach without authentication.
func checkExposed(cfg *Config, l net.Listener) error {
	addr, ok := l.Addr().(*net.TCPAddr)
	if cfg.PeerTLS.Server != nil || cfg.Insecure || ok && addr.IP.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%w: cannot give KV pages to other nodes in the clear at %s: %s", ErrConfig, cfg.Listen, adviceExposed)
}

// handshaker authenticates peers, and logs refusals.
type handshaker struct {
	tls    PeerTLS
	log    *slog.Logger
	now    func() time.Time
	counts *tally

	mu     sync.Mutex
	logged map[string]time.Time // last warning by peer; guarded by mu
}

// accept does the handshake with a client.
func (s *handshaker) accept(ctx context.Context, c net.Conn) (net.Conn, error) {
	if s.tls.Server == nil {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, frameTimeout)
	defer cancel()
	secured := tls.Server(c, s.tls.Server)
	err := secured.HandshakeContext(ctx)
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) && plain.Conn != nil {
		// The client may speak our protocol without TLS: tell it in a message of the protocol. It
		// may have left.
		h := header{op: opPeerHello, status: statusFailed, seq: 1}
		_ = writeFrame(plain.Conn, time.Now().Add(time.Second), h, []byte(advicePlain))
	}
	return secured, explainHandshake(err)
}

// connect does the handshake with a server.
func (s *handshaker) connect(ctx context.Context, c net.Conn, endpoint string) (net.Conn, error) {
	if s.tls.Client == nil {
		return c, nil
	}
	host, _, err := net.SplitHostPort(endpoint)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	secured := tls.Client(c, s.tls.Client(host))
	err = secured.HandshakeContext(ctx)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		// As from a peer without TLS.
		return secured, fmt.Errorf("%w: %s: %w", ErrUntrusted, advicePlain, err)
	}
	return secured, explainHandshake(err)
}

// explainHandshake adds advice to the error of a handshake, or of a first message: with TLS 1.3 a
// client learns only then that it was refused.
func explainHandshake(err error) error {
	var plain tls.RecordHeaderError
	var remote *net.OpError
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &plain):
		return fmt.Errorf("%w: %s: %w", ErrUntrusted, advicePlain, err)
	case errors.Is(err, tlsconfig.ErrKey), errors.As(err, &certificate), errors.As(err, &authority):
		return fmt.Errorf("%w: %s: %w", ErrUntrusted, adviceOurs, err)
	case errors.As(err, &remote) && remote.Op == "remote error":
		return fmt.Errorf("%w: %s: %w", ErrUntrusted, adviceTheirs, err)
	default:
		return err
	}
}

const (
	// warningPeriod is the interval of equal warnings about a peer.
	warningPeriod = time.Minute
	maxWarnings   = 1024 // peers; with more, all may be logged again
)

// due reports whether a warning is not a repetition.
func (s *handshaker) due(warning string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if last, logged := s.logged[warning]; logged && now.Sub(last) < warningPeriod {
		return false
	}
	if s.logged == nil || len(s.logged) >= maxWarnings {
		s.logged = map[string]time.Time{}
	}
	s.logged[warning] = now
	return true
}

// refused logs a failed connection: missing trust as a warning, other failures, as of a port
// scan, for debugging.
func (s *handshaker) refused(text, peer string, err error) {
	level := slog.LevelDebug
	if errors.Is(err, ErrUntrusted) {
		s.counts.add(func(c *Stats) { c.Untrusted++ })
		if s.due(text + peer) {
			level = slog.LevelWarn
		}
	}
	s.log.Log(context.Background(), level, text, "peer", peer, "error", err) //nolint:sloglint // One place for all refusals.
}

// hostOf returns the host of a connection's client.
func hostOf(c net.Conn) string {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().String()
	}
	return host
}
