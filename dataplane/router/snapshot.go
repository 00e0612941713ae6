package router

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/radix"
)

// snapshots keeps what the index knows in a file, so that the next process
// routes well at once, and knows what the workers told longer ago than they can
// tell again.
//
// The file holds the seed of the index's hashes, which is a secret: it is made
// for its owner's eyes only.
type snapshots struct {
	file  string // "" keeps none
	every time.Duration
	log   *slog.Logger

	maxBytes int64 // of the index

	index  *radix.Index
	intake *ingest.Manager

	mu     sync.Mutex
	status admin.SnapshotStatus // guarded by mu
}

// snapshotPart is how a file that is not whole yet ends.
const snapshotPart = ".tmp"

// load returns the index of the file, and what to tell the intake of it. Where
// there is no good file the index is empty.
func (s *snapshots) load() []radix.Restored {
	s.index = radix.New(s.config())
	if s.file == "" {
		return nil
	}
	s.sweep()
	start := time.Now()
	x, workers, size, err := s.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.log.Info("there is no snapshot yet; starting without", "file", s.file)
		return nil
	case err != nil:
		s.log.Warn("cannot use the snapshot; starting without", "file", s.file, "error", err)
		s.note(func(st *admin.SnapshotStatus) { st.Failures++ })
		return nil
	}
	s.index = x
	st := x.Stats()
	took := time.Since(start)
	s.log.Info("loaded a snapshot", "file", s.file, "bytes", size, "workers", len(workers), "blocks", st.Entries, "took", took)
	s.note(func(status *admin.SnapshotStatus) {
		status.RestoredBlocks, status.RestoredWorkers, status.LoadSeconds = st.Entries, len(workers), took.Seconds()
	})
	return workers
}

func (s *snapshots) config() radix.Config { return radix.Config{MaxBytes: s.maxBytes} }

func (s *snapshots) read() (x *radix.Index, workers []radix.Restored, size int64, err error) {
	f, err := os.Open(s.file)
	if err != nil {
		return nil, nil, 0, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, nil, 0, err
	}
	x, workers, err = radix.LoadSnapshot(f, s.config())
	return x, workers, info.Size(), err
}

// sweep removes what a process that was killed while it wrote left behind.
func (s *snapshots) sweep() {
	dir, prefix := filepath.Dir(s.file), filepath.Base(s.file)+"."
	entries, err := os.ReadDir(dir)
	if err != nil {
		s.log.Warn("cannot look for unfinished snapshots", "folder", dir, "error", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && strings.HasSuffix(e.Name(), snapshotPart) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				s.log.Warn("cannot remove an unfinished snapshot", "error", err)
			}
		}
	}
}

// run writes a snapshot every so often, and the last one when ctx ends.
func (s *snapshots) run(ctx context.Context) {
	if s.file == "" {
		return
	}
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.save(slog.LevelDebug)
		case <-ctx.Done():
			s.save(slog.LevelInfo)
			return
		}
	}
}

// save writes a snapshot, and logs and counts how that went.
func (s *snapshots) save(level slog.Level) {
	start := time.Now()
	count, size, err := s.write()
	took := time.Since(start)
	if err != nil {
		s.log.Error("cannot write a snapshot; the one before stays", "file", s.file, "error", err)
		s.note(func(st *admin.SnapshotStatus) { st.Failures++ })
		return
	}
	s.log.Log(context.Background(), level, "wrote a snapshot",
		"file", s.file, "bytes", size, "workers", count.Workers, "blocks", count.Entries, "took", took)
	s.note(func(st *admin.SnapshotStatus) {
		st.Writes++
		st.Written, st.WriteSeconds, st.Bytes, st.Blocks = start, took.Seconds(), size, count.Entries
	})
}

// write replaces the file by a new one, or leaves it alone: what a reader finds
// under the name is whole at any time, also after the machine has failed.
func (s *snapshots) write() (count radix.SnapshotCounts, size int64, err error) {
	dir := filepath.Dir(s.file)
	f, err := os.CreateTemp(dir, filepath.Base(s.file)+".*"+snapshotPart) // of mode 0600
	if err != nil {
		return count, 0, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // what is left is swept at the next start
		}
	}()
	count, size, err = s.fill(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return count, 0, err
	}
	if err = os.Rename(f.Name(), s.file); err != nil {
		return count, 0, err
	}
	return count, size, syncFolder(dir)
}

// fill writes the snapshot and waits until it is on the disk.
func (s *snapshots) fill(f *os.File) (count radix.SnapshotCounts, size int64, err error) {
	w, err := radix.NewSnapshotWriter(s.index, f)
	if err != nil {
		return count, 0, err
	}
	err = s.intake.Save(w)
	count, end := w.Close()
	if err = errors.Join(err, end); err != nil {
		return count, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return count, 0, err
	}
	return count, info.Size(), f.Sync()
}

// syncFolder makes a rename last.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (s *snapshots) note(change func(*admin.SnapshotStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.status)
}

// Status says how snapshots went so far.
func (s *snapshots) Status() admin.SnapshotStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// checkSnapshot finds a file that can never be written before the first try.
func checkSnapshot(file string) error {
	if file == "" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
		return fmt.Errorf("cannot keep --snapshot %s: its folder is not there: create it", file)
	}
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("cannot keep --snapshot %s: it is not a file: name one in that folder", file)
	}
	return nil
}
