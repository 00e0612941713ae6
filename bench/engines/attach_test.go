//go:build engines

package engines_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

func attach(t *testing.T, engines []*engine) bool {
	given := os.Getenv("PD_ATTACH")
	if given == "" {
		return false
	}
	for _, spec := range strings.Split(given, ",") {
		i := 0
		if engines[0].mode != "" {
			j := strings.Index("P1D1P2D2", spec[:2])
			if j < 0 || j/2 >= len(engines) {
				continue
			}
			i = j / 2
		} else if !strings.HasPrefix(spec, "agg") {
			continue
		}
		name, port, _ := strings.Cut(spec, ":")
		n, _ := strconv.Atoi(port)
		raw, err := os.ReadFile("/tmp/pd-raw/five-" + name + ".pid")
		if err != nil {
			t.Fatal(err)
		}
		pid, _ := strconv.Atoi(strings.TrimSpace(string(raw)))
		p, _ := os.FindProcess(pid)
		e := engines[i]
		e.ports = []int{n, n + 1, n + 2, n + 3}
		e.url = fmt.Sprintf("http://127.0.0.1:%d", n)
		e.proc = &process{name: name, cmd: &exec.Cmd{Process: p}, dead: make(chan struct{})}
		go func() {
			for {
				if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil {
					close(e.proc.dead)
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}()
	}
	return true
}
