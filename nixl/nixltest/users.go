package nixltest

import (
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// User is the user and the namespaces of a process that a test starts.
type User struct {
	UID, GID uint32 // 0 is root
	NewPIDs  bool   // in a PID namespace of its own
	NewUsers bool   // in a user namespace of its own, where it is root
	Caps     []uintptr
}

// Nobody is a user without rights.
func Nobody() User { return User{UID: 65534, GID: 65534} }

// Apply makes c run as the user. Only root can.
func (u User) Apply(c *exec.Cmd) {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, AmbientCaps: u.Caps}
	if u.UID != 0 || u.GID != 0 {
		attr.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID}
	}
	if u.NewPIDs {
		attr.Cloneflags |= syscall.CLONE_NEWPID
	}
	if u.NewUsers {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{Size: 1}}
	}
	c.SysProcAttr = attr
}

// restoreDumpable undoes a side effect of starting a process as a User. Until it executes its
// own program a child shares its parent's memory, and the kernel hides the memory of a process
// that changes users: this process would stay nixl.ProcessIdentity.Hidden for all later tests.
func restoreDumpable() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) }

// Start runs c as the user until the test ends. Closing in is what processes of tests end at.
func (u User) Start(t testing.TB, c *exec.Cmd) (in io.WriteCloser, out io.Reader) {
	t.Helper()
	u.Apply(c)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err = c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	restoreDumpable()
	t.Cleanup(func() {
		in.Close()
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return in, out
}

// RequireRoot skips a test that starts processes as other users and in other namespaces where
// this process may not.
func RequireRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of two users")
	}
	for action, user := range map[string]User{
		"make a PID namespace":               {NewPIDs: true},
		"make a user namespace":              {NewUsers: true},
		"be another user in " + os.TempDir(): Nobody(),
	} {
		probe := exec.Command("/bin/true")
		probe.Dir = os.TempDir() // other users enter this folder to run the test binary
		user.Apply(probe)
		if err := probe.Run(); err != nil {
			t.Skipf("on this machine no process can %s: %v", action, err)
		}
	}
	restoreDumpable()
}

// CopyForAllUsers puts this test binary, and the library with the folders beside it, where all
// users can read them. library may be "".
func CopyForAllUsers(t testing.TB, library string) (binary, copied string) {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && len(d) > len(os.TempDir()); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil { //nolint:gosec // All users: that is its purpose.
			t.Fatal(err)
		}
	}
	binary = filepath.Join(dir, "test")
	linkOrCopy(t, os.Args[0], binary)
	if library == "" {
		return binary, ""
	}
	// The wheel's own libraries are in two neighbouring folders: .nixl_cu13.mesonpy.libs and
	// nixl_cu13.libs.
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
			linkOrCopy(t, path, to)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return binary, filepath.Join(dir, name, filepath.Base(library))
}

// linkOrCopy links a file, or copies it between file systems.
func linkOrCopy(t testing.TB, from, to string) {
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
