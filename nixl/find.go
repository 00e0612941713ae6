package nixl

import (
	"os"
	"path/filepath"
)

// EnvLibrary names the library to use instead of searching for one.
const EnvLibrary = "NIXL_CAPI_LIB"

// libraryName is searched by the loader in LD_LIBRARY_PATH and the system's folders, after all
// known paths.
const libraryName = "libnixl_capi.so"

// wheelPattern is the library's path in the wheels nixl-cu12 and nixl-cu13, below a Python
// installation's prefix. Debian's own Python uses dist-packages.
const wheelPattern = "lib/python3*/*-packages/.nixl_cu*.mesonpy.libs/" + libraryName

// Find returns the paths to try, best first: NIXL_CAPI_LIB alone when it is set; otherwise the
// active virtual or Conda environment, the user's and the system's Python, and the loader's
// search.
func Find() []string {
	if path := os.Getenv(EnvLibrary); path != "" {
		return []string{path}
	}
	var paths []string
	for _, prefix := range prefixes() {
		// Glob fails only on a bad pattern, as a prefix with brackets makes: it then finds
		// nothing.
		found, _ := filepath.Glob(filepath.Join(prefix, wheelPattern))
		paths = append(paths, found...)
	}
	return append(paths, libraryName)
}

// prefixes lists the Python installations to search.
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

// envNetDevices lists the network devices that UCX may use.
const envNetDevices = "UCX_NET_DEVICES"

// StayOnLoopback keeps UCX on the loopback interface unless UCX_NET_DEVICES is set; by default
// UCX listens on every interface of the machine. It is for processes with all peers on
// this machine, and must precede the first agent. It reports true when UCX_NET_DEVICES was set
// already and stays as it is, so that the caller may warn.
func StayOnLoopback() (configured bool, err error) {
	if os.Getenv(envNetDevices) != "" {
		return true, nil
	}
	return false, os.Setenv(envNetDevices, "lo")
}
