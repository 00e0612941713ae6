package regularfile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/regularfile"
)

// TestRead: what is no file, or has no end, is refused and not waited for.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, syscall.Mkfifo(at("pipe"), 0o600))
	require.NoError(t, os.Symlink("/dev/zero", at("device")))
	require.NoError(t, os.Symlink("long", at("link")))
	require.NoError(t, os.WriteFile(at("long"), []byte(strings.Repeat("x", 100)), 0o600))
	for name, want := range map[string]string{"pipe": "not a regular file", "device": "not a regular file", ".": "not a regular file", "long": "larger than 99", "none": "no such file"} {
		_, err := regularfile.Read(at(name), 99)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, at(name))
	}
	_, err := regularfile.Read(at("none"), 99)
	require.ErrorIs(t, err, fs.ErrNotExist)
	text, err := regularfile.Read(at("link"), 100)
	require.NoError(t, err)
	require.Len(t, text, 100)
}
