package proxy

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// cpus lists the cores that this process may use.
func cpus() (all []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	for i := range 8 * len(set) * 8 {
		if set.IsSet(i) {
			all = append(all, i)
		}
	}
	return all
}

func setOf(cores []int) *unix.CPUSet {
	var set unix.CPUSet
	for _, c := range cores {
		set.Set(c)
	}
	return &set
}

// startOn starts a command on these cores: a child is born with its parent thread's.
func startOn(c *exec.Cmd, cores []int) error {
	if len(cores) == 0 {
		return c.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var old unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		return fmt.Errorf("cannot read the cores of this thread: %w", err)
	}
	if err := unix.SchedSetaffinity(0, setOf(cores)); err != nil {
		return fmt.Errorf("cannot use cores %v: %w", cores, err)
	}
	err := c.Start()
	if back := unix.SchedSetaffinity(0, &old); err == nil && back != nil {
		return fmt.Errorf("cannot give the cores back: %w", back)
	}
	return err
}

// moveTo has all threads of this process, and those to come, use these cores.
func moveTo(cores []int) error {
	if len(cores) == 0 {
		return nil
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("cannot list threads: %w", err)
	}
	for _, t := range tasks {
		if id, err := strconv.Atoi(t.Name()); err == nil {
			_ = unix.SchedSetaffinity(id, setOf(cores)) // a thread may have ended
		}
	}
	return nil
}
