package leaktest_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/leaktest"
)

// late is tests that end before a goroutine of theirs does.
type late struct {
	*testing.M
	after time.Duration
}

func (l late) Run() int {
	code := l.M.Run()
	go time.Sleep(l.after)
	return code
}

// endEnv has this test binary make a temporary file, say where, and end in some way.
const endEnv = "WARMPATH_TEST_END"

// TestMain needs the patience: goleak alone waits for less than that.
func TestMain(m *testing.M) {
	end, child := os.LookupEnv(endEnv)
	if !child {
		leaktest.Main(late{m, 2 * time.Second})
		return
	}
	leaktest.Folder()
	f, err := os.CreateTemp("", "")
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString(f.Name())
	switch end {
	case "kill":
		_ = syscall.Kill(0, syscall.SIGKILL)
	case "panic":
		panic(end)
	}
}

// TestFolderEndsWithItsProcess: however a test binary ends, its temporary files are deleted.
func TestFolderEndsWithItsProcess(t *testing.T) {
	for _, end := range []string{"kill", "panic", "exit"} {
		dir := t.TempDir()
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), endEnv+"="+end, "TMPDIR="+dir)
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		file, _ := c.Output()
		if len(file) <= len(dir) || string(file[:len(dir)]) != dir {
			t.Fatalf("%s: the file is %q, want it below %s", end, file, dir)
		}
		for over := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
			left, err := os.ReadDir(dir)
			if err == nil && len(left) == 0 {
				break
			}
			if time.Now().After(over) {
				t.Fatalf("%s: %v is left, %v", end, left, err)
			}
		}
	}
}

func TestNothing(*testing.T) {}
