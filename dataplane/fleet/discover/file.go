package discover

import (
	"context"
	"errors"
	"fmt"
	"slices"

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

// Run implements Source. A file that cannot be read or understood keeps the last set. Of one with
// bad entries the others count, and a worker whose entry is bad stays as it was.
func (f file) Run(ctx context.Context, set func([]worker.Spec)) error {
	var last []worker.Spec
	return WatchFile(ctx, f.path, func(data []byte, err error) {
		var all []entry
		if err == nil {
			all, err = readEntries(data)
		}
		if err == nil {
			var specs []worker.Spec
			if specs, err = usable(all, last); err == nil || !slices.Equal(specs, last) {
				last = specs
				set(slices.Clone(specs))
			}
		}
		if err != nil {
			err = fmt.Errorf("cannot use %s: %w", f.path, err)
		}
		f.fail(err)
	})
}
