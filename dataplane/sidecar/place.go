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

// place is where a worker computes.
type place struct {
	gpus []string // UUIDs, in the driver's order
	how  string
}

// placer knows which workers compute on which GPUs. What it has read of the processes is kept as long as they are the same ones.
type placer struct {
	procs processes
	own   map[string]string // this process' environment
	key   string
	roots map[int]int // process that computes → worker's process
	last  map[string]placed
}

// placed is where a worker was found last, while it had this process.
type placed struct {
	pid int
	place
}

// How a worker's GPUs are known.
const (
	byProcesses   = "by the driver's list of processes"
	byEnvironment = "by its environment and arguments"
)

// place finds the GPUs of each worker.
func (p *placer) place(workers []Found, infos []*worker.Info, gpus []nvml.GPU) []place {
	p.refresh(workers, gpus)
	places := make([]place, len(workers))
	for i := range workers {
		f := &workers[i]
		pl := &places[i]
		for j := range gpus {
			if gpus[j].UUID.OK && p.computes(f.PID, &gpus[j]) {
				pl.gpus, pl.how = append(pl.gpus, gpus[j].UUID.Value), byProcesses
			}
		}
		if len(pl.gpus) == 0 {
			*pl = p.guess(f.PID, infos[i], gpus)
		}
		if old := p.last[f.URL]; f.PID != 0 && old.pid == f.PID {
			pl.keepLost(&old.place, gpus)
		}
	}
	p.last = make(map[string]placed, len(workers))
	for i := range workers {
		p.last[workers[i].URL] = placed{workers[i].PID, places[i]}
	}
	return places
}

// keepLost keeps a worker on the GPUs that do not answer any more: a lost GPU tells of no processes either, and a worker that was thought to
// have left it would be well.
func (pl *place) keepLost(old *place, gpus []nvml.GPU) {
	lost := false
	for _, uuid := range old.gpus {
		at := slices.IndexFunc(gpus, func(g nvml.GPU) bool { return g.UUID.Value == uuid })
		if (at < 0 || gpus[at].Err != nil) && !slices.Contains(pl.gpus, uuid) {
			pl.gpus, lost = append(pl.gpus, uuid), true
		}
	}
	if !lost {
		return
	}
	pl.how = old.how
	order := func(uuid string) int {
		return slices.IndexFunc(gpus, func(g nvml.GPU) bool { return g.UUID.Value == uuid })
	}
	slices.SortStableFunc(pl.gpus, func(a, b string) int { return order(a) - order(b) })
}

func (p *placer) computes(pid int, g *nvml.GPU) bool {
	return pid != 0 && slices.ContainsFunc(g.Processes.Value, func(one nvml.Process) bool { return p.roots[one.PID] == pid })
}

// refresh follows the driver's processes to those of workers. PIDs that are the same as before are taken for the same processes: a
// worker that ends takes its schedulers along, and a new one has another socket first.
func (p *placer) refresh(workers []Found, gpus []nvml.GPU) {
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
				p.roots[one.PID] = p.procs.rootOf(one.PID, pids)
			}
		}
	}
}

// guess goes by what the worker was started with.
func (p *placer) guess(pid int, info *worker.Info, gpus []nvml.GPU) place {
	switch {
	case len(gpus) == 0:
		return place{how: "not known: the driver tells of no GPU"}
	case info == nil:
		return place{how: "not known: it has not said what it is"}
	case info.Placement.Device != "" && info.Placement.Device != "cuda":
		return place{how: "on none: its device is " + info.Placement.Device}
	case pid == 0:
		return place{how: "not known: its process is not seen"}
	}
	env, ok := p.procs.environment(pid)
	if !ok {
		return place{how: "not known: its environment may not be read"}
	}
	uuids := make([]string, 0, len(gpus))
	for i := range gpus {
		uuids = append(uuids, gpus[i].UUID.Or(""))
	}
	// The container runtime has applied its list already where we are in the same container.
	if list, set := env["NVIDIA_VISIBLE_DEVICES"]; set && list != "all" && list != p.own["NVIDIA_VISIBLE_DEVICES"] {
		uuids = visible(uuids, list)
	}
	if list, set := env["CUDA_VISIBLE_DEVICES"]; set {
		uuids = visible(uuids, list)
	}
	wanted := wantedGPUs(info)
	if last := wanted[len(wanted)-1]; last >= len(uuids) {
		return place{how: fmt.Sprintf("not known: it wants GPU %d of the %d that it sees", last, len(uuids))}
	}
	chosen := map[string]bool{}
	for _, i := range wanted {
		chosen[uuids[i]] = true
	}
	delete(chosen, "")
	pl := place{how: byEnvironment}
	for i := range gpus {
		if chosen[gpus[i].UUID.Value] {
			pl.gpus = append(pl.gpus, gpus[i].UUID.Value)
		}
	}
	return pl
}

// visible is the list of GPUs that CUDA shows with a CUDA_VISIBLE_DEVICES: indexes and beginnings of UUIDs, up to the first that names no GPU
// (CUDA C++ Programming Guide, "CUDA Environment Variables").
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

// wantedGPUs are the GPUs that a worker takes of those that it sees, ascending: SGLang's base_gpu_id + rank × gpu_id_step, one for each rank of
// this machine. Data-parallel ranks have GPUs of their own unless attention alone is parallel.
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

// workersOn lists the workers on each GPU.
func workersOn(places []place, workers []Found) map[string][]string {
	on := map[string][]string{}
	for i := range places {
		for _, uuid := range places[i].gpus {
			on[uuid] = append(on[uuid], workers[i].URL)
		}
	}
	for uuid := range maps.Keys(on) {
		slices.Sort(on[uuid])
	}
	return on
}
