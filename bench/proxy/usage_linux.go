package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Usage is the processor time and memory of a process and its children.
type Usage struct {
	CPU       float64 `json:"cpu_seconds"`    // exact to nanoseconds
	User      float64 `json:"user_seconds"`   // exact to 10 ms
	System    float64 `json:"system_seconds"` // so is this
	RSS       int64   `json:"rss_bytes"`
	Peak      int64   `json:"peak_rss_bytes"` // since ResetPeak
	Processes int     `json:"processes"`
}

// tree lists a process and its descendants.
func tree(pid int) []int {
	all := []int{pid}
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, t := range tasks {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
		for f := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(f); err == nil {
				all = append(all, tree(child)...)
			}
		}
	}
	return all
}

// ticks is the unit of times in /proc: USER_HZ, 100 on every architecture that Go runs on.
const ticks = 100

// Use reads the usage of process pid and its descendants.
func Use(pid int) (u Usage, err error) {
	for _, p := range tree(pid) {
		if e := u.add(p); e != nil && p == pid {
			return u, fmt.Errorf("cannot read the usage of process %d: %w", pid, e)
		}
	}
	return u, nil
}

func (u *Usage) add(pid int) error {
	var ts unix.Timespec
	// The clock of another process's time: see clock_getcpuclockid(3).
	if err := unix.ClockGettime(^int32(pid)<<3|2, &ts); err != nil {
		return err
	}
	u.CPU += float64(ts.Nano()) / 1e9
	u.Processes++
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return err
	}
	// The name, in brackets, may hold anything; after it come the state and then numbers, user time
	// the 12th.
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 13 {
		return errors.New("/proc has an unknown form")
	}
	number := func(i int) float64 { n, _ := strconv.ParseFloat(string(f[i]), 64); return n }
	u.User += number(11) / ticks
	u.System += number(12) / ticks
	u.memory(pid)
	return nil
}

func (u *Usage) memory(pid int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kib, _ := strconv.ParseInt(f[1], 10, 64)
		switch f[0] {
		case "VmRSS:":
			u.RSS += kib << 10
		case "VmHWM:":
			u.Peak += kib << 10
		}
	}
}

// ResetPeak has the peak of the resident set begin anew. Where the kernel does not allow it, the
// peak is that since the start.
func ResetPeak(pid int) {
	for _, p := range tree(pid) {
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p), []byte("5"), 0)
	}
}
