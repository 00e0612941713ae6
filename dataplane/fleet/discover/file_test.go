package discover_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/discover"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestFileIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workers.yaml")
	write(t, path, "http://a:1")
	d, s := follow(t, "file:"+path)
	d.tells(t, "http://a:1")
	write(t, path, "http://a:1\nhttp://b:1")
	d.tells(t, "http://a:1", "http://b:1")

	write(t, path, "\xef\xbb\xbfhttp://a:1\r\nhttp://b:2\r\n") // as editors of Windows do
	d.tells(t, "http://a:1", "http://b:2")

	write(t, path+".new", "- http://c:1") // as editors do
	require.NoError(t, os.Rename(path+".new", path))
	d.tells(t, "http://c:1")
	troubled(t, s, "")
}

func TestBadFileKeepsTheLastGoodSet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workers.yaml")
	d, s := follow(t, "file:"+path)
	troubled(t, s, "no such file")
	write(t, path, "http://a:1")
	d.tells(t, "http://a:1")
	troubled(t, s, "")
	sets := d.count()
	for text, words := range map[string]string{
		"http://": "line 1:", "- {url: 'http://b": "line 1", "": "write []", strings.Repeat("#", 2<<20): "larger than",
	} {
		write(t, path, text)
		troubled(t, s, words)
	}
	require.NoError(t, os.Remove(path))
	troubled(t, s, "no such file")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	troubled(t, s, "not a regular file")
	require.NoError(t, os.Remove(path))
	require.Equal(t, sets, d.count(), "a bad file is no set")
	require.Contains(t, d.logged(), "known ones stay")

	write(t, path, "[]")
	d.tells(t)
	troubled(t, s, "")
}

// TestConfigMap swaps links as the kubelet does: the file itself is never written.
func TestConfigMap(t *testing.T) {
	dir := t.TempDir()
	version := func(name, text string) {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		write(t, filepath.Join(dir, name, "workers"), text)
		require.NoError(t, os.Symlink(name, filepath.Join(dir, "..data_tmp")))
		require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	version("..1", "http://a:1")
	require.NoError(t, os.Symlink("..data/workers", filepath.Join(dir, "workers")))
	d, _ := follow(t, "file:"+filepath.Join(dir, "workers"))
	d.tells(t, "http://a:1")
	version("..2", "http://b:1")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "..1")))
	d.tells(t, "http://b:1")
}

// TestFolderAppears finds a file in a folder that appears after the start, without an event.
func TestFolderAppears(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	d, s := follow(t, "file:"+filepath.Join(dir, "workers"))
	troubled(t, s, "no such file")
	require.NoError(t, os.Mkdir(dir, 0o700))
	write(t, filepath.Join(dir, "workers"), "http://a:1")
	d.tells(t, "http://a:1")
	write(t, filepath.Join(dir, "workers"), "http://b:1")
	d.tells(t, "http://b:1")
}

func TestWatchFileTellsNewsOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	write(t, path, "1")
	ctx, stop := context.WithCancel(t.Context())
	var got []string
	done := make(chan error, 1)
	go func() {
		done <- discover.WatchFile(ctx, path, func(data []byte, err error) {
			if err != nil {
				got = append(got, "error")
				return
			}
			if got = append(got, string(data)); string(data) == "3" {
				stop()
			} else {
				write(t, path, string(data)) // the same again
				write(t, path, string(data[0]+1))
			}
		})
	}()
	require.NoError(t, <-done)
	require.Equal(t, []string{"1", "2", "3"}, got)
}
