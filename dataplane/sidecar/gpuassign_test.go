package sidecar

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/nvml"
)

// machine returns n GPUs with processes.
func machine(n int, processes map[int][]int) []nvml.GPU {
	gpus := make([]nvml.GPU, n)
	for i := range gpus {
		gpus[i] = nvml.GPU{Index: i, UUID: nvml.Some(fmt.Sprintf("GPU-%d", i)), Processes: nvml.Some([]nvml.Process{})}
		for _, pid := range processes[i] {
			gpus[i].Processes.Value = append(gpus[i].Processes.Value, nvml.Process{PID: pid})
		}
	}
	return gpus
}

func TestAssignment(t *testing.T) {
	p := fakeProc(t, map[int]map[string]string{
		100: {"stat": stat(100, 1, "python"), "environ": "CUDA_VISIBLE_DEVICES=7\x00"},
		101: {"stat": stat(101, 100, "sglang::scheduler")}, 102: {"stat": stat(102, 100, "sglang::scheduler")},
		200: {"stat": stat(200, 1, "python"), "environ": "A=B\x00CUDA_VISIBLE_DEVICES=4,5,GPU-6\x00"},
		300: {"stat": stat(300, 1, "python"), "environ": "NVIDIA_VISIBLE_DEVICES=2,3\x00CUDA_VISIBLE_DEVICES=1\x00"},
		400: {"stat": stat(400, 1, "python"), "environ": "PATH=/bin\x00"},
		500: {"stat": stat(500, 1, "python")},
	})
	said := func(tp int, at worker.Placement) *worker.Info {
		return &worker.Info{TPSize: tp, DPSize: 1, Placement: at}
	}
	tests := []struct {
		name  string
		pid   int
		info  *worker.Info
		want  []string
		how   string
		where []nvml.GPU
	}{
		{"its schedulers compute", 100, said(2, worker.Placement{}), []string{"GPU-0", "GPU-1"}, byProcesses, machine(8, map[int][]int{0: {101}, 1: {9, 102}})},
		{"the driver names no process", 100, said(1, worker.Placement{}), []string{"GPU-7"}, byEnvironment, machine(8, nil)},
		{"visible devices and a base", 200, said(2, worker.Placement{BaseGPU: 1}), []string{"GPU-5", "GPU-6"}, byEnvironment, machine(8, nil)},
		{"in a container", 300, said(1, worker.Placement{}), []string{"GPU-3"}, byEnvironment, machine(8, nil)},
		{"steps", 400, said(2, worker.Placement{GPUStep: 2}), []string{"GPU-0", "GPU-2"}, byEnvironment, machine(4, nil)},
		{"more than it sees", 400, said(4, worker.Placement{BaseGPU: 1}), nil, "not known: it wants GPU 4 of the 4 visible to it", machine(4, nil)},
		{"on the CPU", 400, said(1, worker.Placement{Device: "cpu"}), nil, "on none: its device is cpu", machine(4, nil)},
		{"process not seen", 0, said(1, worker.Placement{}), nil, "not known: its process is not visible", machine(4, nil)},
		{"environment not seen", 500, said(1, worker.Placement{}), nil, "not known: its environment may not be read", machine(4, nil)},
		{"says nothing", 400, nil, nil, "not known: the worker has not answered yet", machine(4, nil)},
		{"no GPU", 400, said(1, worker.Placement{}), nil, "not known: the driver tells of no GPU", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pl := gpuAssigner{processes: p, own: map[string]string{}}
			got := pl.assign([]LocalWorker{{PID: tt.pid}}, []*worker.Info{tt.info}, tt.where)
			assert.Equal(t, assignment{tt.want, tt.how}, got[0])
		})
	}
	// In the same container the runtime's list holds for us too, and was applied.
	pl := gpuAssigner{processes: p, own: map[string]string{"NVIDIA_VISIBLE_DEVICES": "2,3"}}
	got := pl.assign([]LocalWorker{{PID: 300}}, []*worker.Info{said(1, worker.Placement{})}, machine(2, nil))
	assert.Equal(t, []string{"GPU-1"}, got[0].gpus)
}

// TestAssignmentFollowsProcesses moves a worker's processes from one GPU to another.
func TestAssignmentFollowsProcesses(t *testing.T) {
	p := fakeProc(t, map[int]map[string]string{100: {"stat": stat(100, 1, "a")}, 101: {"stat": stat(101, 100, "b")}, 102: {"stat": stat(102, 100, "c")}})
	pl := gpuAssigner{processes: p}
	workers, infos := []LocalWorker{{URL: "w", PID: 100}}, []*worker.Info{nil}
	assert.Equal(t, []string{"GPU-0"}, pl.assign(workers, infos, machine(2, map[int][]int{0: {101}}))[0].gpus)
	places := pl.assign(workers, infos, machine(2, map[int][]int{0: {101}, 1: {102}}))
	assert.Equal(t, []string{"GPU-0", "GPU-1"}, places[0].gpus)
	assert.Equal(t, map[string][]string{"GPU-0": {"w"}, "GPU-1": {"w"}}, workersByGPU(places, workers))
	workers[0].PID = 101
	assert.Equal(t, []string{"GPU-0"}, pl.assign(workers, infos, machine(2, map[int][]int{0: {101}, 1: {102}}))[0].gpus)
}

// TestAssignmentKeepsLostGPUs: a lost GPU lists no processes, and still is its worker's.
func TestAssignmentKeepsLostGPUs(t *testing.T) {
	p := fakeProc(t, map[int]map[string]string{100: {"stat": stat(100, 1, "a")}, 101: {"stat": stat(101, 100, "b")}})
	pl := gpuAssigner{processes: p}
	workers, infos := []LocalWorker{{URL: "w", PID: 100}}, []*worker.Info{nil}
	require.Equal(t, []string{"GPU-0", "GPU-1"}, pl.assign(workers, infos, machine(3, map[int][]int{0: {101}, 1: {101}}))[0].gpus)
	gpus := machine(3, map[int][]int{1: {101}})
	gpus[0].Err = &nvml.Error{Code: nvml.CodeLost}
	assert.Equal(t, assignment{[]string{"GPU-0", "GPU-1"}, byProcesses}, pl.assign(workers, infos, gpus)[0])
	assert.Equal(t, assignment{[]string{"GPU-0", "GPU-1"}, byProcesses}, pl.assign(workers, infos, nil)[0], "the driver is gone")
	gpus = machine(3, map[int][]int{1: {101}})
	assert.Equal(t, []string{"GPU-1"}, pl.assign(workers, infos, gpus)[0].gpus, "it answers, and says that the worker has left")
	workers[0].PID = 101
	assert.Empty(t, pl.assign(workers, infos, nil)[0].gpus, "another process")
}

func TestVisible(t *testing.T) {
	all := []string{"GPU-aa", "GPU-ab", "GPU-b"}
	tests := map[string][]string{
		"0,2": {"GPU-aa", "GPU-b"}, "2,0": {"GPU-b", "GPU-aa"}, "": nil, "-1": nil, "1,5,0": {"GPU-ab"}, "GPU-b,1": {"GPU-b", "GPU-ab"},
		"NoDevFiles": nil, "0,none,1": {"GPU-aa"},
		" 1": {"GPU-ab"}, //nolint:gocritic // that is the case
	}
	for list, want := range tests {
		assert.Equal(t, want, visible(all, list), "CUDA_VISIBLE_DEVICES=%s", list)
	}
}

func TestWantedGPUs(t *testing.T) {
	tests := []struct {
		info worker.Info
		want []int
	}{
		{worker.Info{}, []int{0}},
		{worker.Info{TPSize: 4, DPSize: 1}, []int{0, 1, 2, 3}},
		{worker.Info{TPSize: 2, DPSize: 2}, []int{0, 1, 2, 3}},
		{worker.Info{TPSize: 4, DPSize: 4, Placement: worker.Placement{DPAttention: true}}, []int{0, 1, 2, 3}},
		{worker.Info{TPSize: 8, DPSize: 1, Placement: worker.Placement{Nodes: 2}}, []int{0, 1, 2, 3}},
		{worker.Info{TPSize: 2, DPSize: 1, Placement: worker.Placement{PPSize: 2, BaseGPU: 4}}, []int{4, 5, 6, 7}},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, wantedGPUs(&tt.info))
	}
}
