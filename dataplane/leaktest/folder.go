package leaktest

import (
	"os"
	"os/exec"
	"syscall"
)

// Folder has this process, and those that it starts, make their temporary files in one folder. It
// is deleted when the process has ended: by a panic, a timeout or a signal too. What killed
// processes have left there goes with it.
func Folder() {
	dir, err := os.MkdirTemp("", "wp") // short: the paths of sockets may have 107 bytes
	if err != nil {
		panic(err)
	}
	var alive [2]int // the kernel closes the second end; an os.File would be closed as garbage
	if err := syscall.Pipe2(alive[:], syscall.O_CLOEXEC); err != nil {
		panic(err)
	}
	keeper := exec.Command("sh", "-c", `cat; rm -rf "$0"`, dir)
	keeper.Stdin = os.NewFile(uintptr(alive[0]), "alive")
	// A signal to the tests' process group is not for it.
	keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err = keeper.Start(); err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	if err != nil {
		panic(err)
	}
}
