package sidecar

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/sidecar/health"
	"github.com/warmpath/warmpath/nvml"
)

// judge turns what is seen into reports and records. It belongs to one goroutine.
type judge struct {
	n       *Node
	tracker *health.Tracker
	placer  placer
	xids    map[string]*xidCount // by UUID
	told    string               // what mattered in the last record
	last    cluster.Node         // that record
	toldAt  time.Time
}

// xidCount counts the XIDs of a GPU; snapshots keep the newest only.
type xidCount struct {
	last time.Time
	by   map[int]int
}

const (
	// judgeEvery is how often the report is made anew while the driver says nothing: facts grow stale, workers change.
	judgeEvery = time.Second
	// tellEvery is how often routers hear of numbers that are no news: memory in use, how full the tier is.
	tellEvery = 2 * time.Second
)

// run judges each new snapshot and each change of the workers until ctx ends.
func (j *judge) run(ctx context.Context) {
	timer := time.NewTimer(judgeEvery)
	defer timer.Stop()
	for ctx.Err() == nil {
		snapshot := j.n.monitor.Snapshot()
		r := j.judge(time.Now(), snapshot)
		close(j.n.report.Swap(r).next)
		j.tell(r)
		timer.Reset(judgeEvery + judgeEvery/2) // a second after the driver's next read, which comes each second
		select {
		case <-ctx.Done():
		case <-snapshot.Next():
		case <-j.n.finder.changed:
		case <-j.n.ready:
		case <-timer.C:
		}
	}
}

// judge makes a report.
func (j *judge) judge(now time.Time, s *nvml.Snapshot) *Report {
	n := j.n
	found, find, looked := n.finder.view()
	r := &Report{
		Name: n.cfg.Name, Instance: n.instance, Version: n.cfg.Version, Started: n.started, At: now, Advertise: n.cfg.Advertise,
		Find: find, Cluster: n.announcer.status(), looked: looked, next: make(chan struct{}),
		Driver: DriverReport{State: s.State, Detail: s.Detail, At: s.At, Took: s.Took, Driver: s.Driver},
	}
	if call, since := n.monitor.Busy(now); since > judgeEvery && call != "nvmlEventSetWait_v2" {
		r.Driver.Busy = fmt.Sprintf("%s for %s", call, since.Round(time.Second))
	}
	results := j.tracker.Update(now, s)
	infos := make([]*worker.Info, len(found))
	for i := range found {
		infos[i] = n.infoOf(&found[i])
	}
	places := j.placer.place(found, infos, s.GPUs)
	on := workersOn(places, found)
	r.GPUs = make([]GPUReport, len(results))
	for i, res := range results {
		r.GPUs[i] = GPUReport{Health: res, Workers: append([]string{}, on[res.GPU]...), Facts: factsOf(s, res)}
		r.GPUs[i].XIDs = j.count(res.GPU, r.GPUs[i].Facts.XIDs)
	}
	r.Workers = make([]WorkerReport, len(found))
	for i := range found {
		r.Workers[i] = n.describe(&found[i], infos[i], places[i], r.GPUs)
		if r.Workers[i].Why != "" {
			r.Cluster.Unreached = append(r.Cluster.Unreached, found[i].URL)
		}
	}
	if n.cfg.Extra.Tier != nil {
		r.Tier = n.cfg.Extra.Tier()
	}
	if n.cfg.Extra.Links != nil {
		r.Links = n.cfg.Extra.Links()
	}
	return r
}

// factsOf is the GPU of a judgement; where it is in no snapshot any more, only its name is left.
func factsOf(s *nvml.Snapshot, res health.Result) nvml.GPU {
	for i := range s.GPUs {
		if g := &s.GPUs[i]; g.UUID.Value == res.GPU || (!g.UUID.OK && g.Index == res.Index) {
			return *g
		}
	}
	return nvml.GPU{Index: res.Index, UUID: nvml.Some(res.GPU)}
}

// count adds the XIDs that are new. The map is copied where it changes: reports keep theirs.
func (j *judge) count(gpu string, xids []nvml.XID) map[int]int {
	c := j.xids[gpu]
	if c == nil {
		c = &xidCount{by: map[int]int{}}
		j.xids[gpu] = c
	}
	fresh := false
	for _, x := range xids {
		if !x.At.After(c.last) {
			continue
		}
		if !fresh {
			by := make(map[int]int, len(c.by)+1)
			maps.Copy(by, c.by)
			c.by, fresh = by, true
		}
		c.by[x.Code]++
		c.last = x.At
	}
	return c.by
}

// describe puts together what is known of a worker.
func (n *Node) describe(f *Found, info *worker.Info, at place, gpus []GPUReport) WorkerReport {
	w := WorkerReport{
		URL: f.URL, Public: f.Public, Why: f.Why, Named: f.Named, PID: f.PID, State: worker.Probing.String(),
		GPUs: append([]string{}, at.gpus...), Placed: at.how, Health: healthOf(at.gpus, gpus),
	}
	if live, err := n.registry.Get(f.URL); err == nil {
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

// healthOf is the health of a worker: its speed is that of its slowest GPU, and it is no fitter than the worst of them. It is unknown of one
// without GPUs.
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

// healthOfGPU is a judgement in the cluster's words.
func healthOfGPU(g *GPUReport) cluster.Health {
	h := cluster.Health{State: g.Health.State.String(), Weight: g.Health.Weight, NoTP: !g.Health.TP, Free: int64(g.Facts.Memory.Free.Value)}
	for i := range g.Health.Reasons {
		h.Reasons = append(h.Reasons, fmt.Sprintf("GPU %d: %s", g.Health.Index, g.Health.Reasons[i].Detail))
	}
	return h
}
