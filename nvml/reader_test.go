//go:build cgo && linux

package nvml_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/nvml"
	"github.com/warmpath/warmpath/nvml/nvmltest"
)

// envVariant makes a child of this test binary use another variant of the fake: the loader binds one library a process.
const envVariant = "WARMPATH_NVML_VARIANT"

var h100 = nvmltest.GPU{
	UUID: "GPU-5fd4f087-86f3-7a43-b711-4771313afc50", Name: "NVIDIA H100 80GB HBM3",
	Total: 80 << 30, Used: 61 << 30, Reserved: 600 << 20, Utilization: 87, Links: 18, LinksDown: 1,
}

// fake is the library of this process.
var fake *nvmltest.Driver

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "nvmltest")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		fake, err = nvmltest.Build(dir, strings.Fields(os.Getenv(envVariant))...)
		if err != nil && !errors.Is(err, nvmltest.ErrNoCompiler) {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

func open(t *testing.T, s nvmltest.State) *nvml.Reader {
	t.Helper()
	if fake == nil {
		t.Skip("no gcc in PATH to build the fake driver with")
	}
	set(t, s)
	r := nvml.New(nvml.Config{Library: fake.Library})
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return r
}

func set(t *testing.T, s nvmltest.State) {
	t.Helper()
	if err := fake.Set(s); err != nil {
		t.Fatal(err)
	}
}

func known[T any](v T) nvml.Field[T] { return nvml.Field[T]{Value: v, OK: true} }

func TestRead(t *testing.T) {
	lost, plain := nvmltest.GPU{UUID: "GPU-2", Name: "NVIDIA L4", Lost: true}, nvmltest.GPU{UUID: "GPU-3", Name: "NVIDIA L4"}
	r := open(t, nvmltest.State{GPUs: []nvmltest.GPU{h100, lost, plain}})
	got, err := r.Read()
	if err != nil || len(got) != 3 {
		t.Fatalf("Read() = %v, %v, want 3 GPUs", got, err)
	}
	want := nvml.GPU{
		Index: 0, UUID: known(h100.UUID), Name: known(h100.Name),
		MemoryTotal: known(h100.Total), MemoryUsed: known(h100.Used), MemoryReserved: known(h100.Reserved),
		Utilization: known(87), NVLinks: known(18), NVLinksActive: known(17),
	}
	if got[0] != want {
		t.Errorf("Read()[0] = %+v, want %+v", got[0], want)
	}
	var reason *nvml.Error
	if !errors.As(got[1].Err, &reason) || reason.Code != 15 || got[1].UUID.OK {
		t.Errorf("Read()[1] = %+v, want a lost GPU", got[1])
	}
	if got[2].NVLinks.OK || !got[2].MemoryTotal.OK {
		t.Errorf("Read()[2] = %+v, want memory and no NVLink", got[2])
	}
}

func TestReadSeesChanges(t *testing.T) {
	r := open(t, nvmltest.State{GPUs: []nvmltest.GPU{h100}})
	for _, down := range []int{0, 18} {
		gpu := h100
		gpu.LinksDown = down
		set(t, nvmltest.State{GPUs: []nvmltest.GPU{gpu}})
		got, err := r.Read()
		if err != nil || got[0].NVLinksActive != known(18-down) {
			t.Errorf("with %d links down: Read() = %+v, %v", down, got, err)
		}
	}
}

func TestDriver(t *testing.T) {
	r := open(t, nvmltest.State{Version: "570.86.15", CUDA: 12080})
	got, err := r.Driver()
	if want := (nvml.Driver{Version: known("570.86.15"), CUDA: known("12.8")}); err != nil || got != want {
		t.Errorf("Driver() = %+v, %v, want %+v", got, err, want)
	}
}

func TestNoDriverIsAState(t *testing.T) {
	r := nvml.New(nvml.Config{Library: "/nonexistent/libnvidia-ml.so.1"})
	for range 2 {
		if gpus, err := r.Read(); gpus != nil || !errors.Is(err, nvml.ErrNoDriver) {
			t.Errorf("Read() = %v, %v, want %v", gpus, err, nvml.ErrNoDriver)
		}
	}
	if err := r.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := r.Driver(); !errors.Is(err, nvml.ErrClosed) {
		t.Errorf("Driver after Close = %v, want %v", err, nvml.ErrClosed)
	}
}

func TestDriverComesLater(t *testing.T) {
	r := open(t, nvmltest.State{Init: nvmltest.DriverNotLoaded})
	if _, err := r.Read(); !errors.Is(err, nvml.ErrNoDriver) || !strings.Contains(err.Error(), "Driver Not Loaded") {
		t.Errorf("Read() = %v, want %v in NVML's words", err, nvml.ErrNoDriver)
	}
	set(t, nvmltest.State{Init: nvmltest.LibraryMismatch})
	if _, err := r.Read(); err == nil || errors.Is(err, nvml.ErrNoDriver) {
		t.Errorf("Read() = %v, want the mismatch itself", err)
	}
	set(t, nvmltest.State{GPUs: []nvmltest.GPU{h100}})
	if got, err := r.Read(); err != nil || len(got) != 1 {
		t.Errorf("Read() = %v, %v, want the GPU", got, err)
	}
}

func TestReopenAfterClose(t *testing.T) {
	for range 3 {
		r := open(t, nvmltest.State{GPUs: []nvmltest.GPU{h100}})
		if got, err := r.Read(); err != nil || len(got) != 1 {
			t.Errorf("Read() = %v, %v", got, err)
		}
		if err := r.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

func TestReadFromManyGoroutines(t *testing.T) {
	r := open(t, nvmltest.State{GPUs: []nvmltest.GPU{h100}})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got, err := r.Read(); err != nil || len(got) != 1 {
				t.Errorf("Read() = %v, %v", got, err)
			}
		})
	}
	wg.Wait()
}

// TestVariants runs the test of each variant in a process of its own, where a call of a function that the library
// lacks would be seen as the end of that process.
func TestVariants(t *testing.T) {
	if os.Getenv(envVariant) != "" {
		t.Skip("this is a child")
	}
	for flag, test := range map[string]string{"-DOLD_DRIVER": "TestOldDriver", "-DNOT_NVML": "TestNotNVML"} {
		t.Run(test, func(t *testing.T) {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$", "-test.v")
			child.Env = append(os.Environ(), envVariant+"="+flag)
			out, err := child.CombinedOutput()
			ran := strings.Contains(string(out), "--- PASS: "+test) || strings.Contains(string(out), "no gcc")
			if err != nil || !ran {
				t.Errorf("child failed: %v\n%s", err, out)
			}
		})
	}
}

func TestOldDriver(t *testing.T) {
	if os.Getenv(envVariant) != "-DOLD_DRIVER" {
		t.Skip("runs as a child of TestVariants")
	}
	got, err := open(t, nvmltest.State{GPUs: []nvmltest.GPU{h100}}).Read()
	if err != nil {
		t.Fatal(err)
	}
	want := nvml.GPU{
		UUID: known(h100.UUID), Name: known(h100.Name), MemoryTotal: known(h100.Total),
		MemoryUsed: known(h100.Used + h100.Reserved), Utilization: known(87),
	}
	if got[0] != want {
		t.Errorf("Read()[0] = %+v, want %+v", got[0], want)
	}
}

func TestNotNVML(t *testing.T) {
	if os.Getenv(envVariant) != "-DNOT_NVML" {
		t.Skip("runs as a child of TestVariants")
	}
	_, err := open(t, nvmltest.State{}).Read()
	if !errors.Is(err, nvml.ErrNoDriver) || !strings.Contains(err.Error(), "nvmlInit_v2") {
		t.Errorf("Read() = %v, want %v and the missing function", err, nvml.ErrNoDriver)
	}
}
