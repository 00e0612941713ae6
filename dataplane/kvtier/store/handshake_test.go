package store

import (
	"bytes"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/tlsconfig"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

// sharedKeyTLS returns PeerTLS by a shared key.
func sharedKeyTLS(key *tlsconfig.SharedKey) PeerTLS {
	return PeerTLS{Server: key.Server(), Client: func(string) *tls.Config { return key.Client() }}
}

func keyed(t *testing.T, letter string) PeerTLS {
	t.Helper()
	key, err := tlsconfig.SharedKeyOf(strings.Repeat(letter, tlsconfig.MinKey))
	require.NoError(t, err)
	return sharedKeyTLS(key)
}

// certificateTLS returns PeerTLS by a certificate of an authority for the loopback address.
func certificateTLS(t *testing.T, a *tlstest.Authority) PeerTLS {
	t.Helper()
	p := a.Issue("127.0.0.1")
	log := slog.New(slog.DiscardHandler)
	server, err := tlsconfig.Server(tlsconfig.ServerFiles{Cert: p.Cert, Key: p.Key, ClientCA: a.File}, log)
	require.NoError(t, err)
	client, err := tlsconfig.NewClient(tlsconfig.ClientFiles{CA: a.File, Cert: p.Cert, Key: p.Key}, log)
	require.NoError(t, err)
	return PeerTLS{server, client.Config}
}

// logged is a log that can be read while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

func (l *logged) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// Peers that trust each other move pages, by TCP and by NIXL.
func TestTrustedPeers(t *testing.T) {
	authority := tlstest.NewAuthority(t)
	trusts := map[string][2]PeerTLS{
		"one key": {keyed(t, "a"), keyed(t, "a")}, "certificates of one authority": {certificateTLS(t, authority), certificateTLS(t, authority)},
	}
	for how, trust := range trusts {
		for name, fabric := range fabrics() {
			t.Run(how+" "+name, func(t *testing.T) {
				f := fabric()
				a := serve(t, Config{Listen: "127.0.0.1:0", Node: "a", Fabric: f, PeerTLS: trust[0]})
				b := serve(t, Config{Listen: "127.0.0.1:0", Node: "b", Fabric: f, PeerTLS: trust[1]})
				meet(t, f, a, b)
				on, here := dialTier(t, a, "m"), dialTier(t, b, "m")
				hashes := on.store(1, 300)
				here.finds("from the peer", 300, hashes, patience)
				here.reads("from the peer", 300, 1, hashes, patience)
				if s := a.Stats(); s.Untrusted != 0 || s.Refused != 0 {
					t.Errorf("of trusted peers %d connections are not trusted, %d refused", s.Untrusted, s.Refused)
				}
			})
		}
	}
}

// Peers that do not trust each other move nothing and warn once in both logs; their engines
// notice nothing.
func TestUntrustedPeers(t *testing.T) {
	mine, other := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	tests := []struct {
		name                  string
		asked, asking         PeerTLS
		askedSays, askingSays string
	}{
		{"two keys", keyed(t, "a"), keyed(t, "b"), adviceTheirs, adviceOurs},
		{"the asking one has no key", keyed(t, "a"), PeerTLS{}, advicePlain, advicePlain},
		{"the asked one has no key", PeerTLS{}, keyed(t, "a"), advicePlain, advicePlain},
		{"two authorities", certificateTLS(t, mine), certificateTLS(t, other), adviceTheirs, adviceOurs},
		{"a key and a certificate", keyed(t, "a"), certificateTLS(t, mine), adviceTheirs, adviceOurs},
		{"a certificate and a key", certificateTLS(t, mine), keyed(t, "a"), adviceTheirs, adviceOurs},
		{"only the asking one is not believed", keyed(t, "a"), PeerTLS{Client: believing(t, "b")}, adviceOurs, adviceTheirs},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var askedLog, askingLog logged
			begun := time.Now()
			clock := func() time.Time { return begun } // a minute lasts as long as the test
			a := serve(t, Config{Listen: "127.0.0.1:0", Node: "a", PeerTLS: tt.asked, Log: askedLog.log(), Now: clock})
			b := serve(t, Config{Node: "b", PeerTLS: tt.asking, Log: askingLog.log(), Now: clock})
			b.SetPeers([]Peer{{"a", a.Endpoint()}})
			eventually(t, "both have met twice", func() bool { return a.Stats().Untrusted > 1 && b.Stats().Untrusted > 1 })
			if n := askedLog.count("level=WARN"); n != 1 || askedLog.count(tt.askedSays) != 1 || askedLog.count("peer=127.0.0.1") != 1 {
				t.Errorf("the asked one warns %d times, want once with %q and the peer's address:\n%s", n, tt.askedSays, askedLog.text.String())
			}
			if n := askingLog.count("level=WARN"); n != 1 || askingLog.count(tt.askingSays) != 1 || askingLog.count("peer=a") != 1 {
				t.Errorf("the asking one warns %d times, want once with %q and the peer's name:\n%s", n, tt.askingSays, askingLog.text.String())
			}
			on, here := dialTier(t, a, "m"), dialTier(t, b, "m")
			hashes := on.store(1, 5)
			here.finds("of a peer that is not trusted", 0, hashes, patience)
			here.store(1, 5)
			here.reads("its own", 5, 1, hashes, 0)
			if s := a.Stats(); s.Served != 0 || s.Clients != 1 {
				t.Errorf("%d pages were served to a stranger, %d clients", s.Served, s.Clients)
			}
		})
	}
}

// believing shows a key of its own, and trusts all peers.
func believing(t *testing.T, letter string) func(string) *tls.Config {
	t.Helper()
	cfg := keyed(t, letter).Client("").Clone()
	cfg.VerifyConnection = nil
	return func(string) *tls.Config { return cfg }
}

// A stranger that connects and is silent, or leaves in the middle, delays no other connection and
// causes no warning: ports are scanned.
func TestScansAreQuiet(t *testing.T) {
	var log logged
	a := serve(t, Config{Listen: "127.0.0.1:0", Node: "a", PeerTLS: keyed(t, "a"), Log: log.log()})
	for _, text := range []string{"", "\x16\x03\x01", "\x16\x03\x01\x02\x00\x01\x00"} {
		c, err := net.Dial("tcp", a.Endpoint())
		require.NoError(t, err)
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if text == "" {
			continue // stays
		}
		c.Close()
	}
	b := serve(t, Config{Node: "b", PeerTLS: keyed(t, "a")})
	b.SetPeers([]Peer{{"a", a.Endpoint()}})
	eventually(t, "the peer", func() bool { return b.Stats().Peers == 1 })
	if log.count("level=WARN") != 0 {
		t.Errorf("a scan is told of: %s", log.text.String())
	}
}

// An exposed address needs authentication, or the operator's insistence.
func TestExposedListenIsRefused(t *testing.T) {
	open := Config{Bytes: minBytes, Socket: filepath.Join(t.TempDir(), "s"), Listen: "0.0.0.0:0"}
	tier, err := New(open)
	if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "--kv-tier-key-file") || !strings.Contains(err.Error(), "--kv-tier-insecure") {
		t.Errorf("New(%s) = %v, want %v and what to do", open.Listen, err, ErrConfig)
	}
	if err == nil {
		tier.Close()
	}
	insist, trusting := open, open
	insist.Insecure, trusting.PeerTLS = true, keyed(t, "a")
	for _, cfg := range []Config{insist, trusting, {Bytes: minBytes, Listen: "127.0.0.1:0"}, {Bytes: minBytes, Listen: "localhost:0"}, {Bytes: minBytes}} {
		tier, err := New(cfg)
		if err != nil {
			t.Errorf("New(%q, insecure %v) = %v", cfg.Listen, cfg.Insecure, err)
			continue
		}
		tier.Close()
	}
}

func TestWarningsAreRare(t *testing.T) {
	now := time.Now()
	h := handshaker{now: func() time.Time { return now }}
	at := func(d time.Duration, peer string) bool {
		defer func(was time.Time) { now = was }(now)
		now = now.Add(d)
		return h.due(peer)
	}
	if !at(0, "a") || at(warningPeriod-1, "a") || !at(0, "b") || !at(warningPeriod, "a") {
		t.Error("a warning is not due once a minute")
	}
	for i := range 3 * maxWarnings {
		at(0, string(rune(i)))
	}
	if n := len(h.logged); n > maxWarnings {
		t.Errorf("%d peers are remembered, want %d at most", n, maxWarnings)
	}
}
