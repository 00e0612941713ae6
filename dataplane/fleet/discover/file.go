package discover

import (
	"context"
	"errors"
	"fmt"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// file is a watched file of entries.
type file struct {
	*report
	path string
}

var (
	_ Source   = file{}
	_ Troubled = file{}
)

// newFile reads "PATH".
func newFile(path string, _ *options, r *report) (Source, error) {
	if path == "" {
		return nil, errors.New("want file:PATH")
	}
	return file{r, path}, nil
}

// Run implements Source. A file that cannot be read or understood keeps the last set.
func (f file) Run(ctx context.Context, set func([]worker.Spec)) error {
	return WatchFile(ctx, f.path, func(data []byte, err error) {
		var specs []worker.Spec
		if err == nil {
			if specs, err = ParseEntries(data); err != nil {
				err = fmt.Errorf("cannot use %s: %w", f.path, err)
			}
		}
		f.fail(err)
		if err == nil {
			set(specs)
		}
	})
}
