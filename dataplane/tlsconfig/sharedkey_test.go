package tlsconfig_test

import (
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/testkit"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

var keyA, keyB = strings.Repeat("a", tlsconfig.MinKey), strings.Repeat("b", tlsconfig.MinKey)

func keyFile(t *testing.T, keys ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	writeKeys(t, file, keys...)
	return file
}

// writeKeys replaces a file as an operator's tools do.
func writeKeys(t *testing.T, file string, keys ...string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file+".new", []byte(strings.Join(keys, "\n")+"\n"), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
}

func sharedKey(t *testing.T, keys ...string) *tlsconfig.SharedKey {
	t.Helper()
	k, err := tlsconfig.NewSharedKey(keyFile(t, keys...), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return k
}

func TestSharedKey(t *testing.T) {
	authority := tlstest.NewAuthority(t)
	other := authority.Issue("127.0.0.1").TLS
	of, err := tlsconfig.SharedKeyOf(keyA)
	require.NoError(t, err)
	tests := []struct {
		name           string
		server, client *tls.Config
		trust          bool
	}{
		{"one key", sharedKey(t, keyA).Server(), sharedKey(t, keyA).Client(), true},
		{"a key that is no file's", of.Server(), sharedKey(t, keyA).Client(), true},
		{"two keys", sharedKey(t, keyA).Server(), sharedKey(t, keyB).Client(), false},
		{"the old one is still taken", sharedKey(t, keyB, keyA).Server(), sharedKey(t, keyA, keyB).Client(), true},
		{"the new one is not known yet", sharedKey(t, keyA).Server(), sharedKey(t, keyB, keyA).Client(), false},
		{"a client with a certificate of an authority", sharedKey(t, keyA).Server(), &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{other}}, false},
		{"a client without one", sharedKey(t, keyA).Server(), &tls.Config{InsecureSkipVerify: true}, false},
		{"a server with one of an authority", &tls.Config{Certificates: []tls.Certificate{other}}, sharedKey(t, keyA).Client(), false},
	}
	for _, tt := range tests {
		s, _, serverErr, clientErr := meet(t, tt.server, tt.client)
		if tt.trust {
			assert.NoError(t, serverErr, tt.name)
			assert.NoError(t, clientErr, tt.name)
			assert.Equal(t, uint16(tls.VersionTLS13), s.ConnectionState().Version, tt.name)
			continue
		}
		assert.Error(t, serverErr, tt.name)
		assert.Error(t, clientErr, tt.name)
	}
}

func TestSharedKeyFollowsItsFile(t *testing.T) {
	file := keyFile(t, keyA)
	k, err := tlsconfig.NewSharedKey(file, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	server := k.Server()
	writeKeys(t, file, keyB)
	_, _, serverErr, clientErr := meet(t, server, sharedKey(t, keyB).Client())
	assert.NoError(t, serverErr)
	assert.NoError(t, clientErr)
	_, _, _, clientErr = meet(t, server, sharedKey(t, keyA).Client())
	assert.ErrorIs(t, clientErr, tlsconfig.ErrKey)
	writeKeys(t, file, "short")
	_, _, serverErr, _ = meet(t, server, sharedKey(t, keyB).Client())
	assert.NoError(t, serverErr, "what cannot be read leaves what was there")
	assert.NotNil(t, k.Client())
}

func TestSharedKeyRefuses(t *testing.T) {
	for _, keys := range [][]string{{}, {"short"}, {keyA, "short"}} {
		_, err := tlsconfig.NewSharedKey(keyFile(t, keys...), slog.New(slog.DiscardHandler))
		assert.ErrorIs(t, err, tlsconfig.ErrFiles)
		assert.ErrorContains(t, err, "openssl rand")
	}
	_, err := tlsconfig.NewSharedKey(filepath.Join(t.TempDir(), "none"), slog.New(slog.DiscardHandler))
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = tlsconfig.SharedKeyOf("short")
	assert.Error(t, err)
	var l testkit.Text
	file := keyFile(t, keyA)
	require.NoError(t, os.Chmod(file, 0o644)) //nolint:gosec // the log warns of this
	_, err = tlsconfig.NewSharedKey(file, l.Log())
	require.NoError(t, err)
	assert.Contains(t, l.String(), "readable for all users")
}
