package chaos

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/testkit"
)

// TestLastWords: the last words of a process that has ended, read behind the first ones of the next, tell nothing of that.
func TestLastWords(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer log.Close()
	p := &process{log: log, violate: t.Errorf}
	var readers sync.WaitGroup
	begin := func() io.WriteCloser {
		out, in, err := os.Pipe()
		require.NoError(t, err)
		cmd := new(exec.Cmd)
		p.cmd, p.spoke = cmd, false
		readers.Go(func() { p.read(out, cmd) })
		return in
	}
	before := begin()
	after := begin()
	p.pid.Store(7)
	require.False(t, p.speaks())
	_, err = io.WriteString(after, "first\n")
	require.NoError(t, err)
	require.NoError(t, after.Close())
	_, err = io.WriteString(before, `msg="the upgrade begins" pid=6`+"\n"+`msg="this process has taken over"`+"\n")
	require.NoError(t, err)
	require.NoError(t, before.Close())
	readers.Wait()
	require.True(t, p.speaks())
	require.EqualValues(t, 7, p.pid.Load())
}

const headless = "WARMPATH_TEST_HEADLESS"

// A process whose first thread ends while another one goes on.
func init() {
	if os.Getenv(headless) != "" { // in the first thread
		go time.Sleep(time.Hour)
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
	}
}

// TestAlive: a process is alive until its last thread has ended, which frees its sockets.
func TestAlive(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), headless+"=1")
	require.NoError(t, cmd.Start())
	pid := cmd.Process.Pid
	testkit.Await(t, "its first thread has ended", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && strings.Contains(string(stat), ") Z ")
	})
	require.True(t, alive(pid))
	require.NoError(t, cmd.Process.Kill())
	testkit.Await(t, "all have", func() bool { return !alive(pid) })
	require.Error(t, cmd.Wait())
}
