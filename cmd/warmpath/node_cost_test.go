//go:build cgo && linux

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/nvml"
	"github.com/warmpath/warmpath/nvml/nvmltest"
)

// spent is the usage of a process: CPU in milliseconds, by the scheduler's count, and memory in
// KiB.
type spent struct {
	cpu             float64
	anon, file, all int
}

func usageOf(t *testing.T, pid int) spent {
	t.Helper()
	var u spent
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	require.NoError(t, err)
	for _, task := range tasks {
		data, err := os.ReadFile(task)
		if err != nil {
			continue // it has ended
		}
		ns, err := strconv.ParseFloat(strings.Fields(string(data))[0], 64)
		require.NoError(t, err)
		u.cpu += ns / 1e6
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		n, _ := strconv.Atoi(fields[1])
		switch fields[0] {
		case "RssAnon:":
			u.anon = n
		case "RssFile:":
			u.file = n
		case "VmRSS:":
			u.all = n
		}
	}
	return u
}

// TestNodeCost measures an idle sidecar with 8 GPUs and 4 workers, built as operators build it,
// and writes the numbers into the folder WARMPATH_NODE_COST. A fake driver costs other CPU than a
// real one. WARMPATH_RESULTS does not start it, so that CI need not wait two minutes.
func TestNodeCost(t *testing.T) {
	dir := os.Getenv("WARMPATH_NODE_COST")
	if dir == "" {
		t.Skip("a measurement of two minutes: name a folder for it in WARMPATH_NODE_COST")
	}
	binary := filepath.Join(t.TempDir(), "warmpath")
	out, err := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	driver, err := nvmltest.Build(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, driver.Set(nvmltest.HGX()))
	t.Setenv(nvml.EnvLibrary, driver.Library)
	nats := natstest.Start(t)
	addrs := freePorts(t, 4)
	var ports []string
	for i, addr := range addrs {
		t.Setenv("CUDA_VISIBLE_DEVICES", fmt.Sprintf("%d,%d", 2*i, 2*i+1))
		newProcess(t, "sim", "--listen", addr, "--tp-size", "2")
		_, port, _ := net.SplitHostPort(addr)
		ports = append(ports, port)
	}
	var report strings.Builder
	report.WriteString("what, CPU ms a second, RSS MiB, of that the program's own MiB, of that pages of its file MiB, for s\n")
	for _, with := range []struct {
		name string
		args []string
	}{
		{"with a cluster", []string{"--cluster", nats.URL()}},
		{"without", nil},
	} {
		cmd := exec.Command(binary, append([]string{"node", "--listen", "127.0.0.1:0", "--name", "gpu1", "--find-ports", strings.Join(ports, ",")}, with.args...)...)
		require.NoError(t, cmd.Start())
		wait := func(d time.Duration) {
			select {
			case <-t.Context().Done():
			case <-time.After(d):
			}
		}
		wait(20 * time.Second) // it has started, found the workers and given up what it needed for that
		const measured = 40 * time.Second
		before := usageOf(t, cmd.Process.Pid)
		wait(measured)
		after := usageOf(t, cmd.Process.Pid)
		fmt.Fprintf(&report, "%s, %.2f, %.1f, %.1f, %.1f, %.0f\n", with.name, (after.cpu-before.cpu)/measured.Seconds(),
			float64(after.all)/1024, float64(after.anon)/1024, float64(after.file)/1024, measured.Seconds())
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
	}
	t.Log(report.String())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cost.csv"), []byte(report.String()), 0o644)) //nolint:gosec // a result is for everyone
}
