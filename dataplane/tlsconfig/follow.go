package tlsconfig

import (
	"log/slog"
	"os"
	"sync"
	"time"
)

// fileVersion distinguishes two versions of a file, as far as a stat can: a rename over it
// changes the inode, a write into it the time.
type fileVersion struct {
	info     os.FileInfo // nil: there was no such file
	size     int64
	modified time.Time
}

func stampOf(file string) fileVersion {
	info, err := os.Stat(file) // through links: Kubernetes replaces a secret by turning one
	if err != nil {
		return fileVersion{}
	}
	return fileVersion{info, info.Size(), info.ModTime()}
}

func (s fileVersion) equal(o fileVersion) bool {
	if s.info == nil || o.info == nil {
		return s.info == o.info
	}
	return os.SameFile(s.info, o.info) && s.size == o.size && s.modified.Equal(o.modified)
}

// reloaded is a value made of files, which is made again when one of them has changed.
type reloaded[T any] struct {
	name  string // for the log
	files []string
	load  func() (T, error)
	log   *slog.Logger

	mu      sync.Mutex
	current T             // guarded by mu
	seen    []fileVersion // of files when they were last read; guarded by mu
}

// reloadOnChange reads the files for the first time.
func reloadOnChange[T any](log *slog.Logger, name string, files []string, load func() (T, error)) (*reloaded[T], error) {
	f := &reloaded[T]{name: name, files: files, load: load, log: log, seen: stampsOf(files)}
	var err error
	f.current, err = load()
	return f, err
}

// Follow returns a function that returns the value that load makes of a file, again each time the
// file has changed: of a bad one the value before stays. name is for the log.
func Follow[T any](log *slog.Logger, name, file string, load func() (T, error)) (current func() T, err error) {
	f, err := reloadOnChange(log, name, []string{file}, load)
	if err != nil {
		return nil, err
	}
	return f.get, nil
}

// WarnReadable warns of a secret that every user of the machine can read.
func WarnReadable(log *slog.Logger, file string) {
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o004 != 0 {
		log.Warn("a key is readable for all users of this machine", "file", file, "mode", info.Mode().Perm())
	}
}

// WarnWritable warns of a file of hashes that every user of the machine can change.
func WarnWritable(log *slog.Logger, file string) {
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o002 != 0 {
		log.Warn("keys can be added by all users of this machine", "file", file, "mode", info.Mode().Perm())
	}
}

func stampsOf(files []string) []fileVersion {
	all := make([]fileVersion, len(files))
	for i, file := range files {
		all[i] = stampOf(file)
	}
	return all
}

// get returns the value of the present files, or of the last readable ones. Stamps are taken
// before the reading, so that the next get sees a change in between: of a certificate and a key,
// one is always written first.
func (f *reloaded[T]) get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := stampsOf(f.files)
	if f.same(now) {
		return f.current
	}
	f.seen = now
	fresh, err := f.load()
	if err != nil {
		f.log.Warn("cannot reload; the earlier content stays in use", "name", f.name, "error", err)
		return f.current
	}
	f.log.Info("reloaded", "name", f.name)
	f.current = fresh
	return fresh
}

func (f *reloaded[T]) same(now []fileVersion) bool {
	for i := range now {
		if !now[i].equal(f.seen[i]) {
			return false
		}
	}
	return true
}
