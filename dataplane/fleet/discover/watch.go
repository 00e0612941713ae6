package discover

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/warmpath/warmpath/dataplane/regularfile"
)

const (
	// settleTime is how long a file must be unchanged before it is read: editors and tools
	// write in several steps.
	settleTime = 50 * time.Millisecond
	// pollInterval finds changes without an event: network file systems, and folders that were
	// not there.
	pollInterval = 5 * time.Second
	// maxFile bounds the file: 16,384 workers of 64 bytes.
	maxFile = 1 << 20
)

// WatchFile calls changed with the file's bytes, at first and whenever they differ, and with
// each new error to read it, until ctx ends. It watches the file's folder, so it sees a file
// that is moved there and a link that points elsewhere, as editors and Kubernetes' ConfigMaps
// do.
func WatchFile(ctx context.Context, path string, changed func(data []byte, err error)) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("cannot watch %s: %w", path, err)
	}
	defer w.Close()
	look := changeFilter{path: path, changed: changed}
	_ = w.Add(filepath.Dir(path)) // else it is looked at anyway
	look.now()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	quiet := time.NewTimer(settleTime)
	quiet.Stop()
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.Events:
			quiet.Reset(settleTime)
		case <-w.Errors: //nolint:errcheck // Events were lost, for any reason.
			quiet.Reset(settleTime)
		case <-quiet.C:
			look.now()
		case <-tick.C:
			_ = w.Add(filepath.Dir(path)) // the folder may be another one by now
			look.now()
		}
	}
}

// changeFilter drops repeated content.
type changeFilter struct {
	path    string
	changed func([]byte, error)
	known   bool
	data    []byte
	failed  string
}

func (l *changeFilter) now() {
	data, err := regularfile.Read(l.path, maxFile)
	switch {
	case err != nil:
		if l.failed != err.Error() {
			l.failed = err.Error()
			l.changed(nil, err)
		}
	case !l.known || l.failed != "" || !bytes.Equal(data, l.data):
		l.known, l.data, l.failed = true, data, ""
		l.changed(data, nil)
	}
}
