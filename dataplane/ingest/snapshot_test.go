package ingest

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/radix"
)

// newSnapshots keeps snapshots of an empty router.
func newSnapshots(t *testing.T, file string) *Snapshots {
	t.Helper()
	s := NewSnapshots(SnapshotConfig{File: file, Interval: time.Minute, Log: slog.New(slog.DiscardHandler)})
	s.Follow(NewManager(Config{Log: s.cfg.Log}, radix.New(radix.Config{}), nil, nil))
	s.Load()
	return s
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestSnapshotIsReplacedAtOnce(t *testing.T) {
	dir := t.TempDir()
	s := newSnapshots(t, filepath.Join(dir, "index"))
	require.NoError(t, os.WriteFile(s.cfg.File, []byte("old"), 0o644))
	s.save(slog.LevelInfo)
	require.Equal(t, []string{"index"}, names(t, dir))
	info, err := os.Stat(s.cfg.File)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode(), "it replaces one that others could read")
	st := s.Status()
	assert.Equal(t, []any{uint64(1), uint64(0), info.Size()}, []any{st.Writes, st.Failures, st.Bytes})

	// A rename that fails, as nothing replaces a folder: the temporary file is removed.
	s.cfg.File = filepath.Join(dir, "folder")
	require.NoError(t, os.Mkdir(s.cfg.File, 0o700))
	s.save(slog.LevelInfo)
	assert.Equal(t, []string{"folder", "index"}, names(t, dir))
	assert.EqualValues(t, 1, s.Status().Failures)

	s.cfg.File = filepath.Join(dir, "gone", "index")
	s.save(slog.LevelInfo)
	assert.EqualValues(t, 2, s.Status().Failures)
}

func TestUnfinishedSnapshotsAreSwept(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"index.17.tmp", "index.18.tmp", "index.backup", "other.1.tmp"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	newSnapshots(t, filepath.Join(dir, "index"))
	assert.Equal(t, []string{"index.backup", "other.1.tmp"}, names(t, dir))
}

func TestBadSnapshotIsNoSnapshot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "index")
	s := newSnapshots(t, file)
	assert.Zero(t, s.Status().Failures, "none yet")
	s.save(slog.LevelInfo)
	_, _, _, err := s.read()
	require.NoError(t, err)
	require.NoError(t, os.Truncate(file, s.Status().Bytes-1))
	s = newSnapshots(t, file)
	assert.EqualValues(t, 1, s.Status().Failures)
	assert.NotNil(t, s.index)
	_, _, _, err = s.read()
	assert.True(t, errors.Is(err, radix.ErrSnapshotCorrupt), "%v", err)
}

// TestSnapshotOfAnotherRelease: it is kept beside the one that this release writes.
func TestSnapshotOfAnotherRelease(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "index")
	s := newSnapshots(t, file)
	s.save(slog.LevelInfo)
	later, err := os.ReadFile(file)
	require.NoError(t, err)
	later[bytes.IndexByte(later, 2)]++ // the version, behind the magic
	require.NoError(t, os.WriteFile(file, later, 0o600))
	s = newSnapshots(t, file)
	assert.EqualValues(t, 1, s.Status().Failures)
	s.save(slog.LevelInfo)
	require.Equal(t, []string{"index", "index.other"}, names(t, dir))
	kept, err := os.ReadFile(file + ".other")
	require.NoError(t, err)
	require.Equal(t, later, kept)
	require.Zero(t, newSnapshots(t, file).Status().Failures, "this release's own")
}

// TestSharedSnapshotIsNoSnapshot: a file that others may have written or read is not loaded, and the next
// write makes it this user's alone.
func TestSharedSnapshotIsNoSnapshot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "index")
	newSnapshots(t, file).save(slog.LevelInfo)
	for _, mode := range []fs.FileMode{0o660, 0o602, 0o644} {
		require.NoError(t, os.Chmod(file, mode))
		s := newSnapshots(t, file)
		require.EqualValues(t, 1, s.Status().Failures, "%o", mode)
		s.save(slog.LevelInfo)
		require.Zero(t, newSnapshots(t, file).Status().Failures)
	}
	other := file + ".other"
	require.NoError(t, os.Rename(file, other))
	require.NoError(t, os.Symlink(other, file))
	require.EqualValues(t, 1, newSnapshots(t, file).Status().Failures, "a link")
}

// TestSnapshotsAreWrittenAllTheTime: every so often, and once more at the end.
func TestSnapshotsAreWrittenAllTheTime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "index")
	bubbletest.Test(t, func(t *testing.T) {
		s := newSnapshots(t, file)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		for want := range uint64(3) {
			synctest.Wait()
			assert.Equal(t, want, s.Status().Writes)
			time.Sleep(s.cfg.Interval) // of the bubble's clock
		}
		synctest.Wait()
		stop()
		<-done
		assert.EqualValues(t, 4, s.Status().Writes)

		none := NewSnapshots(SnapshotConfig{MaxBytes: 1 << 30})
		index, restored := none.Load()
		assert.Empty(t, restored)
		none.Run(ctx)
		assert.EqualValues(t, 1<<30, index.Stats().MaxBytes, "without a file there is an index all the same")
	})
}
