package nixl

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/warmpath/warmpath/cgo"
)

// ErrNotFound is returned by Open when nothing could be loaded from any place.
var ErrNotFound = errors.New("nixl: library not found")

// envLogFile is where UCX logs to.
const envLogFile = "UCX_LOG_FILE"

// Library is a loaded libnixl_capi.so.
type Library struct {
	path string
	lib  *cgo.NIXL
}

// Open loads the library at path, or with an empty path the first of Find that loads. The error names each place tried
// and the loader's reason for it.
//
// UCX logs to the standard output unless UCX_LOG_FILE is set, where it would stand between a program's own lines: it is set to stderr.
func Open(path string) (*Library, error) {
	if os.Getenv(envLogFile) == "" {
		if err := os.Setenv(envLogFile, "stderr"); err != nil {
			return nil, err
		}
	}
	if path != "" {
		lib, err := cgo.Open(path)
		if err != nil {
			return nil, fmt.Errorf("cannot open library %q: %w", path, err)
		}
		return &Library{path: path, lib: lib}, nil
	}
	var tried []string
	for _, candidate := range Find() {
		lib, err := cgo.Open(candidate)
		if errors.Is(err, cgo.ErrUnavailable) {
			return nil, err
		}
		if err == nil {
			return &Library{path: candidate, lib: lib}, nil
		}
		tried = append(tried, err.Error())
	}
	return nil, fmt.Errorf("%w; tried: %s", ErrNotFound, strings.Join(tried, "; "))
}

// Path is where the library was loaded from; a bare name when the loader found it.
func (l *Library) Path() string { return l.path }

// Plugins returns the names of the transfer plugins that are installed with the library, by an agent that lives for
// this call only.
func (l *Library) Plugins() ([]string, error) {
	a, err := NewAgent(l, Config{Backend: noBackend})
	if err != nil {
		return nil, err
	}
	names, err := a.Plugins()
	return names, errors.Join(err, a.Close())
}
