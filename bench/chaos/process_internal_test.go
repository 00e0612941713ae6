package chaos

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
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
