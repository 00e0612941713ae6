package ingest

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

	"github.com/warmpath/warmpath/dataplane/secrets"
	"github.com/warmpath/warmpath/radix"
)

// SnapshotStatus describes the snapshots of an index.
type SnapshotStatus struct {
	Writes, Failures uint64 // a file that could not be loaded at start is a failure too

	// Of the last one written; Written is the zero time before the first.
	Written      time.Time
	WriteSeconds float64
	Bytes        int64
	Blocks       int // block copies of all workers

	// Of the one loaded at the start.
	RestoredWorkers int
	RestoredBlocks  int
	LoadSeconds     float64
}

// SnapshotConfig names the file that keeps an index; File "" keeps none.
type SnapshotConfig struct {
	File     string
	Interval time.Duration // between two writes
	MaxBytes int64         // of the index; see radix.Config
	Log      *slog.Logger
}

// Snapshots writes an index to a file and loads it at the start. The next process then routes by
// it at once, and knows blocks that the workers' replay buffers no longer hold.
//
// The file holds the seed of the index's hashes, which is a secret: only its owner may read it. One
// that others can read or may have written is not loaded: a false index would misguide choices, and
// the next write replaces it.
type Snapshots struct {
	cfg    SnapshotConfig
	index  *radix.Index
	intake *Manager

	writing sync.Mutex // one write at a time
	held    bool       // guarded by writing

	mu     sync.Mutex
	status SnapshotStatus // guarded by mu
}

// NewSnapshots returns snapshots of an index that Load makes.
func NewSnapshots(cfg SnapshotConfig) *Snapshots { return &Snapshots{cfg: cfg} }

// partialSuffix ends the name of a file that is being written.
const partialSuffix = ".tmp"

// otherSuffix ends the name of a snapshot of another release, which this one does not write over: a
// downgrade may be taken back.
const otherSuffix = ".other"

// Load returns the index of the file and the workers in it, for Manager.Restore. Without a usable
// file the index is empty.
func (s *Snapshots) Load() (*radix.Index, []radix.Restored) {
	s.index = radix.New(s.config())
	workers := s.load()
	return s.index, workers
}

// Follow sets the manager that fills the index. It must precede Run.
func (s *Snapshots) Follow(m *Manager) { s.intake = m }

// load replaces the index by that of the file.
func (s *Snapshots) load() []radix.Restored {
	if s.cfg.File == "" {
		return nil
	}
	s.sweep()
	start := time.Now()
	x, workers, size, err := s.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.cfg.Log.Info("no snapshot yet; starting without one", "file", s.cfg.File)
		return nil
	case errors.Is(err, radix.ErrSnapshotVersion):
		aside := s.cfg.File + otherSuffix
		s.cfg.Log.Warn("the snapshot is of another release; starting without it", "file", s.cfg.File, "kept_as", aside, "error", errors.Join(err, os.Rename(s.cfg.File, aside)))
		s.note(func(st *SnapshotStatus) { st.Failures++ })
		return nil
	case err != nil:
		s.cfg.Log.Warn("cannot use the snapshot; starting without it", "file", s.cfg.File, "error", err)
		s.note(func(st *SnapshotStatus) { st.Failures++ })
		return nil
	}
	s.index = x
	st := x.Stats()
	took := time.Since(start)
	s.cfg.Log.Info("loaded a snapshot", "file", s.cfg.File, "bytes", size, "workers", len(workers), "blocks", st.Entries, "took", took)
	s.note(func(status *SnapshotStatus) {
		status.RestoredBlocks, status.RestoredWorkers, status.LoadSeconds = st.Entries, len(workers), took.Seconds()
	})
	return workers
}

func (s *Snapshots) config() radix.Config { return radix.Config{MaxBytes: s.cfg.MaxBytes} }

func (s *Snapshots) read() (x *radix.Index, workers []radix.Restored, size int64, err error) {
	f, err := secrets.OpenOwn(s.cfg.File)
	if err != nil {
		return nil, nil, 0, err
	}
	defer func() { _ = f.Close() }() // read only
	info, err := f.Stat()
	if err != nil {
		return nil, nil, 0, err
	}
	x, workers, err = radix.LoadSnapshot(f, s.config())
	return x, workers, info.Size(), err
}

// sweep removes files that a killed process left unfinished.
func (s *Snapshots) sweep() {
	dir, prefix := filepath.Dir(s.cfg.File), filepath.Base(s.cfg.File)+"."
	entries, err := os.ReadDir(dir)
	if err != nil {
		s.cfg.Log.Warn("cannot look for unfinished snapshots", "folder", dir, "error", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && strings.HasSuffix(e.Name(), partialSuffix) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				s.cfg.Log.Warn("cannot remove an unfinished snapshot", "error", err)
			}
		}
	}
}

// Run writes a snapshot at each interval, and the last one when ctx ends.
func (s *Snapshots) Run(ctx context.Context) {
	if s.cfg.File == "" {
		return
	}
	tick := time.NewTicker(s.cfg.Interval)
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

// Hold writes a snapshot now and none until resume.
func (s *Snapshots) Hold() (resume func()) {
	if s.cfg.File != "" {
		s.save(slog.LevelInfo)
	}
	set := func(held bool) {
		s.writing.Lock()
		defer s.writing.Unlock()
		s.held = held
	}
	set(true)
	return func() { set(false) }
}

// save writes a snapshot, and logs and counts the result.
func (s *Snapshots) save(level slog.Level) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.held {
		return
	}
	start := time.Now()
	count, size, err := s.write()
	took := time.Since(start)
	if err != nil {
		s.cfg.Log.Error("cannot write a snapshot; the previous one stays", "file", s.cfg.File, "error", err)
		s.note(func(st *SnapshotStatus) { st.Failures++ })
		return
	}
	s.cfg.Log.Log(context.Background(), level, "wrote a snapshot",
		"file", s.cfg.File, "bytes", size, "workers", count.Workers, "blocks", count.Entries, "took", took)
	s.note(func(st *SnapshotStatus) {
		st.Writes++
		st.Written, st.WriteSeconds, st.Bytes, st.Blocks = start, took.Seconds(), size, count.Entries
	})
}

// write replaces the file, or leaves it alone: under its name there is a whole snapshot at any
// time, even after the machine has failed.
func (s *Snapshots) write() (count radix.SnapshotCounts, size int64, err error) {
	dir := filepath.Dir(s.cfg.File)
	f, err := os.CreateTemp(dir, filepath.Base(s.cfg.File)+".*"+partialSuffix) // of mode 0600
	if err != nil {
		return count, 0, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // a file that stays is swept at the next start
		}
	}()
	count, size, err = s.fill(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return count, 0, err
	}
	if err = os.Rename(f.Name(), s.cfg.File); err != nil {
		return count, 0, err
	}
	return count, size, syncFolder(dir)
}

// fill writes the snapshot and waits until it is on the disk.
func (s *Snapshots) fill(f *os.File) (count radix.SnapshotCounts, size int64, err error) {
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

// syncFolder makes a rename durable.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (s *Snapshots) note(change func(*SnapshotStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.status)
}

// Status returns the results so far.
func (s *Snapshots) Status() SnapshotStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// CheckSnapshot returns an error for a file that can never be written.
func CheckSnapshot(file string) error {
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
