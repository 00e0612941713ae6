package nixl

import (
	"os"
	"path/filepath"
)

// EnvLibrary names the library to use instead of searching for one.
const EnvLibrary = "NIXL_CAPI_LIB"

// libraryName is what the loader searches in LD_LIBRARY_PATH and the system's folders, after all known places.
const libraryName = "libnixl_capi.so"

// wheelPattern is where the wheels nixl-cu12 and nixl-cu13 put the library, below a Python installation's prefix.
// Debian's own Python uses dist-packages.
const wheelPattern = "lib/python3*/*-packages/.nixl_cu*.mesonpy.libs/" + libraryName

// Find returns the paths to try, best first: NIXL_CAPI_LIB alone when it is set; otherwise the active virtual or Conda
// environment, the user's and the system's Python, and the loader's own search.
func Find() []string {
	if path := os.Getenv(EnvLibrary); path != "" {
		return []string{path}
	}
	var paths []string
	for _, prefix := range prefixes() {
		// The only error of Glob is a bad pattern, which a prefix with brackets can make: then there is nothing there.
		found, _ := filepath.Glob(filepath.Join(prefix, wheelPattern))
		paths = append(paths, found...)
	}
	return append(paths, libraryName)
}

// prefixes lists the Python installations to look in.
func prefixes() []string {
	var list []string
	for _, env := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if dir := os.Getenv(env); dir != "" {
			list = append(list, dir)
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		list = append(list, filepath.Join(home, ".local"))
	}
	return append(list, "/usr/local", "/opt/venv", "/usr")
}

// envNetDevices is UCX's list of the network devices that it may use.
const envNetDevices = "UCX_NET_DEVICES"

// StayOnLoopback keeps UCX on the loopback interface where nothing else was said. Without it, UCX listens on every interface of the machine. It is
// for processes whose peers are all on this machine, and must come before the first agent. It reports whether UCX is left to choose by itself,
// or by its environment: then the caller may warn.
func StayOnLoopback() (left bool, err error) {
	if os.Getenv(envNetDevices) != "" {
		return true, nil
	}
	return false, os.Setenv(envNetDevices, "lo")
}
