package nixltest

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// As is whom a process of a test runs as.
type As struct {
	UID, GID uint32 // 0 is root
	NewPIDs  bool   // in a PID namespace of its own
	NewUsers bool   // in a user namespace of its own, where it is root
	Caps     []uintptr
}

// Nobody is some user who is not root.
func Nobody() As { return As{UID: 65534, GID: 65534} }

// Start sets who c runs as. Only root can.
func (a As) Start(c *exec.Cmd) {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, AmbientCaps: a.Caps}
	if a.UID != 0 || a.GID != 0 {
		attr.Credential = &syscall.Credential{Uid: a.UID, Gid: a.GID}
	}
	if a.NewPIDs {
		attr.Cloneflags |= syscall.CLONE_NEWPID
	}
	if a.NewUsers {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{Size: 1}}
	}
	c.SysProcAttr = attr
}

// Started is to be called when such a process has been started. Until it has its own program a child shares the memory of who started it, and the
// kernel hides memory whose process changes users: without this call, this process would stay hidden as nixl.Place has it, for all tests to come.
func Started() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) }

// NeedsRoot skips a test that starts processes of other users, and in other namespaces, where this one may not.
func NeedsRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of two users")
	}
	for what, as := range map[string]As{"make a PID namespace": {NewPIDs: true}, "make a user namespace": {NewUsers: true}, "be another user in " + os.TempDir(): Nobody()} {
		probe := exec.Command("/bin/true")
		probe.Dir = os.TempDir() // where all that other users run lies; it is entered as that user
		as.Start(probe)
		if err := probe.Run(); err != nil {
			t.Skipf("on this machine no process can %s: %v", what, err)
		}
	}
	Started()
}

// Public puts this test binary, and the library with all that lies beside it, where all users can read them. library may be "".
func Public(t testing.TB, library string) (binary, publicLibrary string) {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && len(d) > len(os.TempDir()); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil { //nolint:gosec // All users: that is its purpose.
			t.Fatal(err)
		}
	}
	binary = filepath.Join(dir, "test")
	place(t, os.Args[0], binary)
	if library == "" {
		return binary, ""
	}
	// The wheel's own libraries are in two folders beside each other: .nixl_cu13.mesonpy.libs and nixl_cu13.libs.
	libs := filepath.Dir(library)
	packages, name := filepath.Dir(libs), filepath.Base(libs)
	others := strings.TrimSuffix(strings.TrimPrefix(name, "."), ".mesonpy.libs") + ".libs"
	for _, folder := range []string{name, others} {
		err := filepath.WalkDir(filepath.Join(packages, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			to := filepath.Join(dir, strings.TrimPrefix(path, packages))
			if d.IsDir() {
				return os.MkdirAll(to, 0o755) //nolint:gosec // likewise
			}
			place(t, path, to)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return binary, filepath.Join(dir, name, filepath.Base(library))
}

// place links a file, or copies it where the folders are on two file systems.
func place(t testing.TB, from, to string) {
	t.Helper()
	resolved, err := filepath.EvalSymlinks(from)
	if err != nil {
		t.Fatal(err)
	}
	if os.Link(resolved, to) == nil {
		return
	}
	data, err := os.ReadFile(resolved)
	if err == nil {
		err = os.WriteFile(to, data, 0o755) //nolint:gosec // likewise
	}
	if err != nil {
		t.Fatal(err)
	}
}
