package tlsconfig_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/testkit"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

// meet lets two configurations shake hands and returns both ends, each with the error that it
// ended with. Both also exchange a byte: with TLS 1.3 a client hears only then that its
// certificate was refused.
func meet(t *testing.T, server, client *tls.Config) (s, c *tls.Conn, serverErr, clientErr error) {
	t.Helper()
	dialed, accepted := testkit.TCPPair(t)
	for _, nc := range []net.Conn{dialed, accepted} {
		require.NoError(t, nc.SetDeadline(time.Now().Add(time.Minute)))
	}
	s, c = tls.Server(accepted, server), tls.Client(dialed, client)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if serverErr = s.Handshake(); serverErr == nil {
			_, serverErr = s.Write([]byte{1})
		} else {
			_ = accepted.Close()
		}
	}()
	if clientErr = c.Handshake(); clientErr == nil {
		_, clientErr = c.Read(make([]byte, 1))
	} else {
		_ = dialed.Close()
	}
	<-done
	return s, c, serverErr, clientErr
}

// sides are the settings of a router on both of its sides, of one authority.
func sides(t *testing.T, log *slog.Logger, files tlsconfig.ServerFiles, trust tlsconfig.ClientFiles) (server *tls.Config, client *tlsconfig.Client) {
	t.Helper()
	server, err := tlsconfig.Server(files, log)
	require.NoError(t, err)
	client, err = tlsconfig.NewClient(trust, log)
	require.NoError(t, err)
	return server, client
}

func TestHandshakes(t *testing.T) {
	ca, other := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	good, expired, named := ca.Issue("127.0.0.1", "worker.test"), ca.Expired("127.0.0.1"), ca.Issue("worker.test")
	files := func(p tlstest.Pair, clientCA string) tlsconfig.ServerFiles {
		return tlsconfig.ServerFiles{Cert: p.Cert, Key: p.Key, ClientCA: clientCA}
	}
	tests := []struct {
		name                   string
		server                 tlsconfig.ServerFiles
		client                 tlsconfig.ClientFiles
		host                   string
		serverSays, clientSays string // words of the server's and of the client's error; "" for none
		authorityError         bool
	}{
		{name: "address", server: files(good, ""), client: tlsconfig.ClientFiles{CA: ca.File}},
		{name: "name", server: files(named, ""), client: tlsconfig.ClientFiles{CA: ca.File}, host: "worker.test"},
		{name: "wrong name", server: files(named, ""), client: tlsconfig.ClientFiles{CA: ca.File}, serverSays: "bad certificate", clientSays: "127.0.0.1"},
		{name: "wrong name unchecked", server: files(named, ""), client: tlsconfig.ClientFiles{Insecure: true}},
		{name: "expired", server: files(expired, ""), client: tlsconfig.ClientFiles{CA: ca.File}, serverSays: "bad certificate", clientSays: "expired"},
		{name: "unknown authority", server: files(good, ""), client: tlsconfig.ClientFiles{CA: other.File}, serverSays: "bad certificate", authorityError: true},
		{name: "the system's authorities", server: files(good, ""), serverSays: "bad certificate", authorityError: true},
		{name: "mutual", server: files(good, ca.File), client: tlsconfig.ClientFiles{CA: ca.File, Cert: good.Cert, Key: good.Key}},
		{
			name: "no certificate", server: files(good, ca.File), client: tlsconfig.ClientFiles{CA: ca.File},
			serverSays: "didn't provide a certificate", clientSays: "certificate required",
		},
		{
			name: "certificate of another authority", server: files(good, other.File),
			client:     tlsconfig.ClientFiles{CA: ca.File, Cert: good.Cert, Key: good.Key},
			serverSays: "unknown authority", clientSays: "unknown certificate authority",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server, client := sides(t, slog.New(slog.DiscardHandler), tt.server, tt.client)
			host := tt.host
			if host == "" {
				host = "127.0.0.1"
			}
			_, c, serverErr, clientErr := meet(t, server, client.Config(host))
			if tt.authorityError {
				var unknown x509.UnknownAuthorityError
				assert.ErrorAs(t, clientErr, &unknown)
				return
			}
			if tt.serverSays == "" && tt.clientSays == "" {
				require.NoError(t, serverErr)
				require.NoError(t, clientErr)
				assert.Equal(t, "http/1.1", c.ConnectionState().NegotiatedProtocol)
				return
			}
			assert.ErrorContains(t, serverErr, tt.serverSays)
			assert.ErrorContains(t, clientErr, tt.clientSays)
		})
	}
}

func TestOldVersionsAreRefused(t *testing.T) {
	ca := tlstest.NewAuthority(t)
	pair := ca.Issue("127.0.0.1")
	server, _ := sides(t, slog.New(slog.DiscardHandler), tlsconfig.ServerFiles{Cert: pair.Cert, Key: pair.Key}, tlsconfig.ClientFiles{})
	_, _, _, err := meet(t, server, &tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1", MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10})
	require.ErrorContains(t, err, "protocol version")
	_, _, _, err = meet(t, server, &tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1", NextProtos: []string{"h2"}})
	require.ErrorContains(t, err, "no application protocol")
}

// TestResumption: a second connection needs no signature, and still makes the checks of the
// first.
func TestResumption(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		ca, other := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
		pair := ca.Issue("127.0.0.1")
		server, client := sides(t, slog.New(slog.DiscardHandler), tlsconfig.ServerFiles{Cert: pair.Cert, Key: pair.Key}, tlsconfig.ClientFiles{CA: ca.File})
		cfg := client.Config("127.0.0.1")
		cfg.MaxVersion = version
		for round := range 3 {
			_, c, serverErr, clientErr := meet(t, server, cfg)
			require.NoError(t, errors.Join(serverErr, clientErr))
			assert.Equal(t, round > 0, c.ConnectionState().DidResume, "connection %d", round)
		}
		data, err := os.ReadFile(other.File)
		require.NoError(t, err)
		replace(t, ca.File, data)
		_, _, _, err = meet(t, server, cfg)
		require.Error(t, err, "a session of an authority that is trusted no more")
	}
}

// TestClientsAreCheckedEachTime: with certificates of clients there are no tickets, by which
// one could come back.
func TestClientsAreCheckedEachTime(t *testing.T) {
	ca := tlstest.NewAuthority(t)
	pair := ca.Issue("127.0.0.1")
	server, client := sides(t, slog.New(slog.DiscardHandler),
		tlsconfig.ServerFiles{Cert: pair.Cert, Key: pair.Key, ClientCA: ca.File}, tlsconfig.ClientFiles{CA: ca.File, Cert: pair.Cert, Key: pair.Key})
	cfg := client.Config("127.0.0.1")
	for range 2 {
		_, c, serverErr, clientErr := meet(t, server, cfg)
		require.NoError(t, errors.Join(serverErr, clientErr))
		assert.False(t, c.ConnectionState().DidResume)
	}
}

// replace puts other bytes into a file as a tool that renews certificates does.
func replace(t *testing.T, file string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(file+".next", data, 0o600))
	require.NoError(t, os.Rename(file+".next", file))
}

func TestReload(t *testing.T) {
	log := &testkit.Text{}
	ca := tlstest.NewAuthority(t)
	pair := ca.Issue("127.0.0.1")
	server, client := sides(t, log.Log(), tlsconfig.ServerFiles{Cert: pair.Cert, Key: pair.Key}, tlsconfig.ClientFiles{CA: ca.File})
	serial := func() string {
		t.Helper()
		_, c, serverErr, clientErr := meet(t, server, client.Config("127.0.0.1"))
		require.NoError(t, errors.Join(serverErr, clientErr))
		return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	s, c, serverErr, clientErr := meet(t, server, client.Config("127.0.0.1"))
	require.NoError(t, errors.Join(serverErr, clientErr))
	first := serial()
	assert.Equal(t, first, serial())

	ca.Reissue(pair, time.Now().Add(time.Hour), "127.0.0.1")
	second := serial()
	assert.NotEqual(t, first, second, "the next handshake shows the new certificate")
	assert.Contains(t, log.String(), "reloaded")
	go func() { _, _ = s.Write([]byte{2}) }()
	_, err := c.Read(make([]byte, 1))
	require.NoError(t, err, "connections of before live on")

	replace(t, pair.Cert, []byte("nonsense"))
	assert.Equal(t, second, serial(), "what cannot be read changes nothing")
	assert.Contains(t, log.String(), "cannot reload")
	said := strings.Count(log.String(), "cannot reload")
	serial()
	assert.Equal(t, said, strings.Count(log.String(), "cannot reload"), "and is said once")
	require.NoError(t, os.Remove(pair.Key))
	assert.Equal(t, second, serial(), "nor does a file that is gone")

	ca.Reissue(pair, time.Now().Add(time.Hour), "127.0.0.1")
	assert.NotEqual(t, second, serial(), "what can be read again is")
}

func TestBadFiles(t *testing.T) {
	ca := tlstest.NewAuthority(t)
	pair, other := ca.Issue("127.0.0.1"), ca.Issue("127.0.0.1")
	missing, nonsense := filepath.Join(t.TempDir(), "missing.pem"), filepath.Join(t.TempDir(), "nonsense.pem")
	require.NoError(t, os.WriteFile(nonsense, []byte("nonsense"), 0o600))
	log := slog.New(slog.DiscardHandler)
	tests := []struct {
		name  string
		files tlsconfig.ServerFiles
		says  string
	}{
		{"no key", tlsconfig.ServerFiles{Cert: pair.Cert}, "give both the certificate and its key"},
		{"no certificate", tlsconfig.ServerFiles{Key: pair.Key}, "give both the certificate and its key"},
		{"another certificate's key", tlsconfig.ServerFiles{Cert: pair.Cert, Key: other.Key}, "private key does not match"},
		{"missing certificate", tlsconfig.ServerFiles{Cert: missing, Key: pair.Key}, "missing.pem"},
		{"missing key", tlsconfig.ServerFiles{Cert: pair.Cert, Key: missing}, "missing.pem"},
		{"certificate for a key", tlsconfig.ServerFiles{Cert: pair.Cert, Key: pair.Cert}, "found a certificate rather than a key"},
		{"missing authorities", tlsconfig.ServerFiles{Cert: pair.Cert, Key: pair.Key, ClientCA: missing}, "missing.pem"},
		{"no authorities", tlsconfig.ServerFiles{Cert: pair.Cert, Key: pair.Key, ClientCA: nonsense}, "holds no certificate"},
	}
	for _, tt := range tests {
		_, err := tlsconfig.Server(tt.files, log)
		require.ErrorIs(t, err, tlsconfig.ErrFiles, tt.name)
		assert.ErrorContains(t, err, tt.says, tt.name)
	}
	for _, files := range []tlsconfig.ClientFiles{{Cert: pair.Cert}, {CA: missing}, {CA: nonsense}, {Cert: pair.Cert, Key: other.Key}} {
		_, err := tlsconfig.NewClient(files, log)
		assert.ErrorIs(t, err, tlsconfig.ErrFiles)
	}
}

func TestExpiryIsLogged(t *testing.T) {
	ca, log := tlstest.NewAuthority(t), &testkit.Text{}
	expired, soon := ca.Expired("127.0.0.1"), ca.Issue("127.0.0.1")
	_, _ = sides(t, log.Log(), tlsconfig.ServerFiles{Cert: expired.Cert, Key: expired.Key}, tlsconfig.ClientFiles{Cert: soon.Cert, Key: soon.Key})
	assert.Contains(t, log.String(), "has expired")
	assert.Contains(t, log.String(), "expires soon")
}

func TestIsRecord(t *testing.T) {
	for _, record := range []string{"\x15\x03\x01\x00\x02\x02\x46", "\x16\x03\x03"} {
		assert.True(t, tlsconfig.IsRecord([]byte(record)))
	}
	for _, other := range []string{"", "\x15", "HTTP/1.1 200", "\x15HTTP", "\x17\x03\x03"} {
		assert.False(t, tlsconfig.IsRecord([]byte(other)), "%q", other)
	}
}

// TestPipesInPlaceOfFiles: a certificate, its key, authorities and a shared key that are pipes are refused.
func TestPipesInPlaceOfFiles(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	_, err := tlsconfig.NewClient(tlsconfig.ClientFiles{Cert: pipe, Key: pipe}, quiet)
	require.ErrorIs(t, err, tlsconfig.ErrFiles)
	_, err = tlsconfig.NewClient(tlsconfig.ClientFiles{CA: pipe}, quiet)
	require.ErrorIs(t, err, tlsconfig.ErrFiles)
	_, err = tlsconfig.NewSharedKey(pipe, quiet)
	require.ErrorIs(t, err, tlsconfig.ErrFiles)
}
