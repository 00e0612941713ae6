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

// Trust makes the settings of connections with other tiers, both ways. Both sides must show what the other one believes; package secure makes such settings, of
// a shared key or of certificates. What NIXL needs to reach the memory goes over these connections too, and is thus for trusted peers only. The zero
// value leaves connections in the clear, for whoever reaches them.
type Trust struct {
	Server *tls.Config
	Client func(host string) *tls.Config
}

// ErrTrust is a peer that does not trust this tier, or that this one does not.
var ErrTrust = errors.New("tier: peers do not trust each other")

// What an operator should do about it, as both sides' logs say.
const (
	sayPlain   = "one side has a key or certificate for KV tiers and the other has none: give all nodes the same --kv-tier-key-file, or --kv-tier-tls-cert, -key and -ca"
	sayTheirs  = "it does not believe this node's key or certificate: give all nodes the same --kv-tier-key-file, or certificates of one authority"
	sayOurs    = "its key or certificate is not one that this node believes: give all nodes the same --kv-tier-key-file, or certificates of one authority"
	sayExposed = "whoever reaches it would read pages, and so prompts: give all nodes the same --kv-tier-key-file (32 characters or more, as of `openssl rand -hex 32`) " +
		"or --kv-tier-tls-cert, -key and -ca; or say --kv-tier-insecure on a network that is the cluster's alone"
)

// exposed refuses an address that other machines reach, where nobody asks who they are.
func exposed(cfg *Config, l net.Listener) error {
	addr, ok := l.Addr().(*net.TCPAddr)
	if cfg.Trust.Server != nil || cfg.Insecure || ok && addr.IP.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%w: cannot give KV pages to other nodes in the clear at %s: %s", ErrConfig, cfg.Listen, sayExposed)
}

// greetPeer is the handshake with one who connects.
func (t *Tier) greetPeer(ctx context.Context, c net.Conn) (net.Conn, error) {
	if t.cfg.Trust.Server == nil {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, frameLimit)
	defer cancel()
	safe := tls.Server(c, t.cfg.Trust.Server)
	err := safe.HandshakeContext(ctx)
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) && plain.Conn != nil {
		// It speaks our protocol, maybe, and no TLS: it is told in words.
		_ = plain.Conn.SetWriteDeadline(time.Now().Add(time.Second))
		h := header{length: uint32(len(sayPlain)), op: opPeerHello, status: statusFailed, seq: 1}
		_, _ = plain.Conn.Write(append(h.append(nil), sayPlain...)) // it may be gone
	}
	return safe, explainTrust(err)
}

// meetPeer is the handshake with one that was connected to.
func (t *Tier) meetPeer(ctx context.Context, c net.Conn, endpoint string) (net.Conn, error) {
	if t.cfg.Trust.Client == nil {
		return c, nil
	}
	host, _, err := net.SplitHostPort(endpoint)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	safe := tls.Client(c, t.cfg.Trust.Client(host))
	err = safe.HandshakeContext(ctx)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) { // as a peer without TLS does
		return safe, fmt.Errorf("%w: %s: %w", ErrTrust, sayPlain, err)
	}
	return safe, explainTrust(err)
}

// explainTrust adds words to what a handshake failed with, or a first message: with TLS 1.3 a client hears only then that it was refused.
func explainTrust(err error) error {
	var plain tls.RecordHeaderError
	var remote *net.OpError
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &plain):
		return fmt.Errorf("%w: %s: %w", ErrTrust, sayPlain, err)
	case errors.Is(err, tlsconfig.ErrKey), errors.As(err, &certificate), errors.As(err, &authority):
		return fmt.Errorf("%w: %s: %w", ErrTrust, sayOurs, err)
	case errors.As(err, &remote) && remote.Op == "remote error":
		return fmt.Errorf("%w: %s: %w", ErrTrust, sayTheirs, err)
	default:
		return err
	}
}

// complaints lets a log say a thing about a peer once a minute.
type complaints struct {
	mu   sync.Mutex
	last map[string]time.Time // by peer; guarded by mu
}

const (
	complaintPeriod = time.Minute
	maxComplaints   = 1024 // peers; with more, all may be told of again
)

func (c *complaints) due(peer string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last, told := c.last[peer]; told && now.Sub(last) < complaintPeriod {
		return false
	}
	if c.last == nil || len(c.last) >= maxComplaints {
		c.last = map[string]time.Time{}
	}
	c.last[peer] = now
	return true
}

// complain tells of a peer that was refused, or that refuses: of trust loudly and once a minute, of the rest, such as a scan of the port, to who debugs.
func (t *Tier) complain(text, peer string, err error) {
	level := slog.LevelDebug
	if errors.Is(err, ErrTrust) {
		t.counts.untrusted.Add(1)
		if t.complaints.due(text+peer, t.cfg.Now()) {
			level = slog.LevelWarn
		}
	}
	t.log.Log(context.Background(), level, text, "peer", peer, "error", err) //nolint:sloglint // One place for all refusals.
}

// hostOf is who a connection comes from, whatever its port.
func hostOf(c net.Conn) string {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().String()
	}
	return host
}
