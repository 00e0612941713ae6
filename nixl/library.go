package nixl

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/warmpath/warmpath/cgo"
)

// ErrNotFound is returned by Open when no library could be loaded.
var ErrNotFound = errors.New("nixl: library not found")

// envLogFile names the file that UCX logs to.
const envLogFile = "UCX_LOG_FILE"

// Library is a loaded libnixl_capi.so.
type Library struct {
	path string
	lib  *cgo.Library
}

var _ Fabric = (*Library)(nil)

// Open loads the library at path, or with an empty path the first of Find that loads. The error
// names each path tried and the loader's reason for it.
//
// UCX logs to the standard output unless UCX_LOG_FILE is set, between a program's own lines;
// Open sets it to stderr.
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

// Path is the file that was loaded; a bare name when the loader found it.
func (l *Library) Path() string { return l.path }

// Plugins returns the names of the transfer plugins installed with the library, by an agent
// that lives for this call only.
func (l *Library) Plugins() ([]string, error) {
	runtime.LockOSThread() // the agent belongs to one thread
	defer runtime.UnlockOSThread()
	names, err := l.plugins(uniqueName("plugins"))
	if err != nil {
		return nil, fmt.Errorf("cannot list plugins: %w", err)
	}
	return names, nil
}
