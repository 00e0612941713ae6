package sidecar

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/nvml"
)

// assignment is the GPUs of a worker.
type assignment struct {
	gpus   []string // UUIDs, in the driver's order
	source string   // of this knowledge, or the reason for its absence
}

// Sources of an assignment.
const (
	byProcesses   = "by the driver's list of processes"
	byEnvironment = "by its environment and arguments"
)

// gpuAssigner finds the GPUs of workers: by the processes that the driver lists for each GPU,
// else by the worker's environment and arguments.
type gpuAssigner struct {
	processes processes
	own       map[string]string // environment of this process
	key       string            // PIDs for which roots is valid
	roots     map[int]int       // process on a GPU → process of its worker
	last      map[string]lastAssignment
}

// lastAssignment is the former assignment of a worker, valid while it has the same process.
type lastAssignment struct {
	pid int
	assignment
}

// assign finds the GPUs of each worker.
func (p *gpuAssigner) assign(workers []LocalWorker, infos []*worker.Info, gpus []nvml.GPU) []assignment {
	p.refresh(workers, gpus)
	all := make([]assignment, len(workers))
	for i := range workers {
		w, a := &workers[i], &all[i]
		for j := range gpus {
			if gpus[j].UUID.OK && p.computes(w.PID, &gpus[j]) {
				a.gpus, a.source = append(a.gpus, gpus[j].UUID.Value), byProcesses
			}
		}
		if len(a.gpus) == 0 {
			*a = p.fromEnvironment(w.PID, infos[i], gpus)
		}
		if old := p.last[w.URL]; w.PID != 0 && old.pid == w.PID {
			a.keepLost(&old.assignment, gpus)
		}
	}
	p.last = make(map[string]lastAssignment, len(workers))
	for i := range workers {
		p.last[workers[i].URL] = lastAssignment{workers[i].PID, all[i]}
	}
	return all
}

// keepLost keeps the GPUs that do not answer any more: a lost GPU lists no processes either, and
// its worker would otherwise seem healthy.
func (a *assignment) keepLost(old *assignment, gpus []nvml.GPU) {
	lost := false
	for _, uuid := range old.gpus {
		at := slices.IndexFunc(gpus, func(g nvml.GPU) bool { return g.UUID.Value == uuid })
		if (at < 0 || gpus[at].Err != nil) && !slices.Contains(a.gpus, uuid) {
			a.gpus, lost = append(a.gpus, uuid), true
		}
	}
	if !lost {
		return
	}
	a.source = old.source
	order := func(uuid string) int {
		return slices.IndexFunc(gpus, func(g nvml.GPU) bool { return g.UUID.Value == uuid })
	}
	slices.SortStableFunc(a.gpus, func(x, y string) int { return order(x) - order(y) })
}

func (p *gpuAssigner) computes(pid int, g *nvml.GPU) bool {
	return pid != 0 && slices.ContainsFunc(g.Processes.Value, func(one nvml.Process) bool { return p.roots[one.PID] == pid })
}

// refresh finds the workers of the driver's processes. Equal PIDs are taken for equal processes:
// the schedulers of a worker end with it, and a new worker has another socket first.
func (p *gpuAssigner) refresh(workers []LocalWorker, gpus []nvml.GPU) {
	pids := map[int]bool{}
	var key []byte
	for i := range workers {
		if workers[i].PID != 0 {
			pids[workers[i].PID] = true
			key = strconv.AppendInt(append(key, ' '), int64(workers[i].PID), 10)
		}
	}
	key = append(key, '|')
	for i := range gpus {
		for _, one := range gpus[i].Processes.Value {
			key = strconv.AppendInt(append(key, ' '), int64(one.PID), 10)
		}
	}
	if p.roots != nil && p.key == string(key) {
		return
	}
	p.key, p.roots = string(key), map[int]int{}
	for i := range gpus {
		for _, one := range gpus[i].Processes.Value {
			if _, known := p.roots[one.PID]; !known {
				p.roots[one.PID] = p.processes.rootOf(one.PID, pids)
			}
		}
	}
}

// fromEnvironment derives the GPUs from the worker's environment and arguments.
func (p *gpuAssigner) fromEnvironment(pid int, info *worker.Info, gpus []nvml.GPU) assignment {
	switch {
	case len(gpus) == 0:
		return assignment{source: "not known: the driver tells of no GPU"}
	case info == nil:
		return assignment{source: "not known: the worker has not answered yet"}
	case info.Placement.Device != "" && info.Placement.Device != "cuda":
		return assignment{source: "on none: its device is " + info.Placement.Device}
	case pid == 0:
		return assignment{source: "not known: its process is not visible"}
	}
	env, ok := p.processes.environment(pid)
	if !ok {
		return assignment{source: "not known: its environment may not be read"}
	}
	uuids := make([]string, 0, len(gpus))
	for i := range gpus {
		uuids = append(uuids, gpus[i].UUID.Or(""))
	}
	// In the worker's own container the runtime has applied its list already.
	if list, set := env["NVIDIA_VISIBLE_DEVICES"]; set && list != "all" && list != p.own["NVIDIA_VISIBLE_DEVICES"] {
		uuids = visible(uuids, list)
	}
	if list, set := env["CUDA_VISIBLE_DEVICES"]; set {
		uuids = visible(uuids, list)
	}
	wanted := wantedGPUs(info)
	if last := wanted[len(wanted)-1]; last >= len(uuids) {
		return assignment{source: fmt.Sprintf("not known: it wants GPU %d of the %d visible to it", last, len(uuids))}
	}
	chosen := map[string]bool{}
	for _, i := range wanted {
		chosen[uuids[i]] = true
	}
	delete(chosen, "")
	a := assignment{source: byEnvironment}
	for i := range gpus {
		if chosen[gpus[i].UUID.Value] {
			a.gpus = append(a.gpus, gpus[i].UUID.Value)
		}
	}
	return a
}

// visible returns the GPUs that CUDA shows with a CUDA_VISIBLE_DEVICES: indexes and prefixes of
// UUIDs, up to the first that names no GPU (CUDA C++ Programming Guide, "CUDA Environment
// Variables").
func visible(uuids []string, list string) []string {
	var seen []string
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		at := slices.IndexFunc(uuids, func(uuid string) bool { return strings.HasPrefix(name, "GPU-") && strings.HasPrefix(uuid, name) })
		if i, err := strconv.Atoi(name); err == nil {
			at = i
		}
		if at < 0 || at >= len(uuids) {
			break
		}
		seen = append(seen, uuids[at])
	}
	return seen
}

// wantedGPUs returns the indexes of a worker's GPUs among its visible ones, ascending: SGLang's
// base_gpu_id + rank × gpu_id_step for each rank of this machine. Data-parallel ranks have GPUs of
// their own unless attention alone is parallel.
func wantedGPUs(info *worker.Info) []int {
	at := info.Placement
	n := max(info.TPSize, 1) * max(at.PPSize, 1)
	if !at.DPAttention {
		n *= max(info.DPSize, 1)
	}
	n = max(n/max(at.Nodes, 1), 1)
	wanted := make([]int, n)
	for i := range wanted {
		wanted[i] = at.BaseGPU + i*max(at.GPUStep, 1)
	}
	return wanted
}

// workersByGPU lists the workers of each GPU.
func workersByGPU(assigned []assignment, workers []LocalWorker) map[string][]string {
	on := map[string][]string{}
	for i := range assigned {
		for _, uuid := range assigned[i].gpus {
			on[uuid] = append(on[uuid], workers[i].URL)
		}
	}
	for uuid := range maps.Keys(on) {
		slices.Sort(on[uuid])
	}
	return on
}
