package sidecar

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/sidecar/health"
	"github.com/warmpath/warmpath/nvml"
)

// reporter turns driver facts and workers into reports and records. It belongs to one goroutine.
type reporter struct {
	sidecar  *Sidecar
	tracker  *health.Tracker
	assigner gpuAssigner
	xids     map[string]*xidCount // by UUID
	last     cluster.Node         // last record
	facts    string               // choiceFacts of the last record
	lastAt   time.Time            // time of the last record
}

// xidCount counts the XIDs of a GPU; snapshots hold the newest only.
type xidCount struct {
	last time.Time
	by   map[int]int
}

const (
	// reportEvery is the interval of reports without news of the driver: facts grow stale,
	// workers change.
	reportEvery = time.Second
	// recordEvery is the interval of records with new numbers only: memory in use, pages of the
	// KV tier.
	recordEvery = 2 * time.Second
)

func newReporter(s *Sidecar) *reporter {
	own, _ := s.discovery.processes.environment(os.Getpid())
	return &reporter{
		sidecar: s, tracker: health.NewTracker(s.cfg.Health), xids: map[string]*xidCount{},
		assigner: gpuAssigner{processes: s.discovery.processes, own: own},
	}
}

// run reports each new snapshot and each change of the workers until ctx ends, and then withdraws
// the record.
func (j *reporter) run(ctx context.Context) error {
	s := j.sidecar
	if s.cfg.Cluster != nil {
		defer s.cfg.Cluster.Withdraw()
	}
	timer := time.NewTimer(reportEvery)
	defer timer.Stop()
	for ctx.Err() == nil {
		snapshot := s.driver.Snapshot()
		r := j.report(time.Now(), snapshot)
		close(s.report.Swap(r).next)
		j.record(r)
		// After the driver's next read, which comes each second.
		timer.Reset(reportEvery + reportEvery/2)
		select {
		case <-ctx.Done():
		case <-snapshot.Next():
		case <-s.discovery.changed:
		case <-s.changed:
		case <-timer.C:
		}
	}
	return nil
}

// report makes a report.
func (j *reporter) report(now time.Time, snapshot *nvml.Snapshot) *Report {
	s := j.sidecar
	cfg := &s.cfg
	found, discovery, scanned := s.discovery.view()
	r := &Report{
		Name: cfg.Name, Instance: s.instance, Version: cfg.Version, Started: s.started, At: now, Advertise: cfg.Advertise,
		Discovery: discovery, Cluster: s.records.status(), scanned: scanned, next: make(chan struct{}),
		Driver: DriverReport{State: snapshot.State, Detail: snapshot.Detail, At: snapshot.At, Took: snapshot.Took, Driver: snapshot.Driver},
	}
	if call, since := s.driver.Busy(now); since > reportEvery && call != "nvmlEventSetWait_v2" {
		r.Driver.Busy = fmt.Sprintf("%s for %s", call, since.Round(time.Second))
	}
	results := j.tracker.Update(now, snapshot)
	infos := make([]*worker.Info, len(found))
	for i := range found {
		infos[i] = j.info(&found[i])
	}
	assigned := j.assigner.assign(found, infos, snapshot.GPUs)
	on := workersByGPU(assigned, found)
	r.GPUs = make([]GPUReport, len(results))
	for i, res := range results {
		r.GPUs[i] = GPUReport{Health: res, Workers: append([]string{}, on[res.GPU]...), Facts: factsOf(snapshot, res)}
		r.GPUs[i].XIDs = j.countXIDs(res.GPU, r.GPUs[i].Facts.XIDs)
	}
	r.Workers = make([]WorkerReport, len(found))
	for i := range found {
		r.Workers[i] = j.describe(&found[i], infos[i], assigned[i], r.GPUs)
		if r.Workers[i].Unreachable != "" {
			r.Cluster.Unreached = append(r.Cluster.Unreached, found[i].URL)
		}
	}
	if cfg.extra.tier != nil {
		r.Tier = cfg.extra.tier()
	}
	if cfg.extra.links != nil {
		r.Links = cfg.extra.links()
	}
	return r
}

// info returns a worker's information: since it was last ready, else from its discovery.
func (j *reporter) info(f *LocalWorker) *worker.Info {
	if w, err := j.sidecar.registry.Get(f.URL); err == nil {
		if info := w.Info(); info != nil {
			return info
		}
	}
	return f.Info
}

// factsOf returns the GPU of a health result. A GPU that is in no snapshot any more has only its
// name.
func factsOf(s *nvml.Snapshot, res health.Result) nvml.GPU {
	for i := range s.GPUs {
		if g := &s.GPUs[i]; g.UUID.Value == res.GPU || (!g.UUID.OK && g.Index == res.Index) {
			return *g
		}
	}
	return nvml.GPU{Index: res.Index, UUID: nvml.Some(res.GPU)}
}

// countXIDs adds new XIDs. It copies the map of earlier reports before a change.
func (j *reporter) countXIDs(gpu string, xids []nvml.XID) map[int]int {
	c := j.xids[gpu]
	if c == nil {
		c = &xidCount{by: map[int]int{}}
		j.xids[gpu] = c
	}
	copied := false
	for _, x := range xids {
		if !x.At.After(c.last) {
			continue
		}
		if !copied {
			by := make(map[int]int, len(c.by)+1)
			maps.Copy(by, c.by)
			c.by, copied = by, true
		}
		c.by[x.Code]++
		c.last = x.At
	}
	return c.by
}

// describe makes the report of a worker.
func (j *reporter) describe(f *LocalWorker, info *worker.Info, at assignment, gpus []GPUReport) WorkerReport {
	w := WorkerReport{
		URL: f.URL, Public: f.Public, Unreachable: f.Unreachable, Named: f.Named, PID: f.PID, State: worker.Probing.String(),
		GPUs: append([]string{}, at.gpus...), Placed: at.source, Health: healthOf(at.gpus, gpus),
	}
	if live, err := j.sidecar.registry.Get(f.URL); err == nil {
		w.State, w.Since, w.Error = live.State().String(), live.Since(), live.LastError()
	}
	if info != nil {
		w.Role, w.Model, w.SGLang, w.TP, w.DP = info.Role().String(), info.Model(), info.Version, info.TPSize, info.DPSize
		w.Events = info.Events != nil
		if info.Role() == worker.RolePrefill {
			w.Port = info.BootstrapPort
		}
	}
	return w
}

// healthOf returns the health of a worker: the weight of its slowest GPU and the state of its
// worst. Without GPUs it is unknown.
func healthOf(uuids []string, gpus []GPUReport) cluster.Health {
	h := cluster.Health{State: worker.GPUUnknown.String()}
	worst := health.Healthy
	for i := range gpus {
		g := &gpus[i]
		if !slices.Contains(uuids, g.Health.GPU) {
			continue
		}
		one := healthOfGPU(g)
		if h.State == worker.GPUUnknown.String() || g.Health.State > worst {
			worst, h.State = g.Health.State, one.State
			h.Reasons = slices.Insert(h.Reasons, 0, one.Reasons...)
		} else {
			h.Reasons = append(h.Reasons, one.Reasons...)
		}
		if h.Weight == 0 || one.Weight < h.Weight {
			h.Weight = one.Weight
		}
		h.NoTP = h.NoTP || one.NoTP
		if one.Free != 0 && (h.Free == 0 || one.Free < h.Free) {
			h.Free = one.Free
		}
	}
	return h
}

// healthOfGPU returns the health of a GPU in the cluster's form.
func healthOfGPU(g *GPUReport) cluster.Health {
	h := cluster.Health{State: g.Health.State.String(), Weight: g.Health.Weight, NoTP: !g.Health.TP, Free: int64(g.Facts.Memory.Free.Value)}
	for i := range g.Health.Reasons {
		h.Reasons = append(h.Reasons, fmt.Sprintf("GPU %d: %s", g.Health.Index, g.Health.Reasons[i].Detail))
	}
	return h
}
