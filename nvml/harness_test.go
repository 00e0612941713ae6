//go:build cgo && linux

package nvml_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/leaktest"
	"github.com/warmpath/warmpath/nvml"
	"github.com/warmpath/warmpath/nvml/nvmltest"
)

// envVariant makes a child of this test binary use another variant of the fake: the loader
// binds one library for each process.
const envVariant = "WARMPATH_NVML_VARIANT"

// variants are the libraries that a child can ask for.
var variants = map[string][]nvmltest.Option{
	// A driver of 2016 has none of these.
	"old": {nvmltest.Without(
		"nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetNvLinkState", "nvmlDeviceGetFieldValues", "nvmlDeviceGetTemperatureV",
		"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetMigMode", "nvmlEventSetWait_v2",
		"nvmlDeviceGetPciInfo_v3",
	)},
	// Every optional function is missing.
	"bare":      {nvmltest.Without("nvmlDevice*", "nvmlSystem*", "nvmlEvent*")},
	"not nvml":  {nvmltest.Flags("-DNOT_NVML")},
	"fabric v2": {nvmltest.Flags("-DFABRIC_V2")},
}

// fake is the library of this process.
var fake *nvmltest.Driver

func TestMain(m *testing.M) {
	leaktest.Folder()
	var err error
	fake, err = nvmltest.Build(os.TempDir(), variants[os.Getenv(envVariant)]...)
	if err != nil && !errors.Is(err, nvmltest.ErrNoCompiler) {
		panic(err)
	}
	os.Exit(m.Run())
}

func set(t testing.TB, s nvmltest.State) {
	t.Helper()
	if fake == nil {
		t.Skip(nvmltest.ErrNoCompiler)
	}
	require.NoError(t, fake.Set(s))
}

// update changes the state of the fake.
func update(t testing.TB, change func(*nvmltest.State)) {
	t.Helper()
	require.NoError(t, fake.Update(change))
}

// start runs a monitor on the fake until the test ends.
func start(t testing.TB, s nvmltest.State) *nvml.Monitor {
	t.Helper()
	set(t, s)
	m := nvml.New(nvml.Config{Library: fake.Library, Every: 10 * time.Millisecond})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return m
}

// await waits for a snapshot with which a condition holds.
func await(t testing.TB, m *nvml.Monitor, event string, holds func(*nvml.Snapshot) bool) *nvml.Snapshot {
	t.Helper()
	patience := time.After(time.Minute)
	for {
		s := m.Snapshot()
		if holds(s) {
			return s
		}
		select {
		case <-s.Next():
		case <-patience:
			t.Fatalf("never saw %s; last: %+v", event, s)
		}
	}
}

// anew waits for a snapshot whose read began after this call.
func anew(t testing.TB, m *nvml.Monitor) *nvml.Snapshot {
	t.Helper()
	now := time.Now()
	return await(t, m, "a new snapshot", func(s *nvml.Snapshot) bool { return s.At.Add(-s.Took).After(now) })
}

// inChild runs the calling test in a child process with another library, and reports whether
// this process is the child.
func inChild(t *testing.T, variant string) bool {
	t.Helper()
	if os.Getenv(envVariant) == variant {
		return true
	}
	if os.Getenv(envVariant) != "" {
		t.Skip("this is a child for another test")
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), envVariant+"="+variant)
	out, err := child.CombinedOutput()
	ran := strings.Contains(string(out), "--- PASS: "+t.Name()) || strings.Contains(string(out), nvmltest.ErrNoCompiler.Error())
	if err != nil || !ran {
		t.Errorf("child failed: %v\n%s", err, out)
	}
	return false
}
