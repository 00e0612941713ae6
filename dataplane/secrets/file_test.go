package secrets_test

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/secrets"
)

func TestOpenOwn(t *testing.T) {
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	file := func(name string, mode fs.FileMode) {
		require.NoError(t, os.WriteFile(path(name), []byte("text"), 0o600))
		require.NoError(t, os.Chmod(path(name), mode))
	}
	file("own", 0o600)
	f, err := secrets.OpenOwn(path("own"))
	require.NoError(t, err)
	text, err := io.ReadAll(f)
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
	require.NoError(t, f.Close())

	for _, mode := range []fs.FileMode{0o620, 0o640, 0o602, 0o604, 0o644, 0o610} {
		file("shared", mode)
		_, err = secrets.OpenOwn(path("shared"))
		require.ErrorIs(t, err, secrets.ErrShared, "%o", mode)
		require.ErrorContains(t, err, "chmod 600")
	}
	require.NoError(t, os.Symlink(path("own"), path("link")))
	require.NoError(t, syscall.Mkfifo(path("pipe"), 0o600))
	for name, why := range map[string]string{path("link"): "symbolic link", path("pipe"): "not a regular file", folder: "not a regular file"} {
		_, err = secrets.OpenOwn(name)
		require.ErrorIs(t, err, secrets.ErrShared, name)
		require.ErrorContains(t, err, why)
	}
	_, err = secrets.OpenOwn(path("none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(path("own"), 1234, -1))
		_, err = secrets.OpenOwn(path("own"))
		require.ErrorContains(t, err, "another user's")
	}
}
