package tlsconfig_test

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// TestReadFile: what is no file, or has no end, is refused and not waited for.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, syscall.Mkfifo(at("pipe"), 0o600))
	require.NoError(t, os.Symlink("/dev/zero", at("device")))
	require.NoError(t, os.Symlink("long", at("link")))
	require.NoError(t, os.WriteFile(at("long"), []byte(strings.Repeat("x", 100)), 0o600))
	for name, want := range map[string]string{"pipe": "no regular file", "device": "no regular file", ".": "no regular file", "long": "larger than 99", "none": "no such file"} {
		_, err := tlsconfig.ReadFile(at(name), 99)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, at(name))
	}
	_, err := tlsconfig.ReadFile(at("none"), 99)
	require.ErrorIs(t, err, fs.ErrNotExist)
	text, err := tlsconfig.ReadFile(at("link"), 100)
	require.NoError(t, err)
	require.Len(t, text, 100)
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
