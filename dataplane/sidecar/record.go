package sidecar

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
)

// record returns the node's record for the cluster. It leaves out workers that routers cannot
// reach: a wrong URL is worse than none.
func (r *Report) record(control string) cluster.Node {
	n := cluster.Node{
		Name: r.Name, Instance: r.Instance, Version: r.Version, Started: r.Started, Control: control, Workers: []cluster.Worker{},
		Driver: string(r.Driver.State), Tier: r.Tier, Links: r.Links,
	}
	for i := range r.Workers {
		w := &r.Workers[i]
		if w.Public == "" {
			continue
		}
		n.Workers = append(n.Workers, cluster.Worker{
			URL: w.Public, Role: w.Role, Model: w.Model, BootstrapPort: w.Port, PID: w.PID, GPUs: w.GPUs, TP: w.TP, DP: w.DP, Health: w.Health,
		})
	}
	slices.SortFunc(n.Workers, func(a, b cluster.Worker) int { return cmp.Compare(a.URL, b.URL) })
	for i := range r.GPUs {
		g := &r.GPUs[i]
		n.GPUs = append(n.GPUs, cluster.GPU{
			UUID: g.Health.GPU, Index: g.Health.Index, Name: g.Facts.Name.Value, Used: g.Facts.Memory.Used.Value, Total: g.Facts.Memory.Total.Value,
			LinksUp: g.Facts.LinksUp(), Links: len(g.Facts.Links), Health: healthOfGPU(g),
		})
	}
	return n
}

// choiceFacts returns all facts of a report that routing depends on, as text to compare: a record
// with another text is written at once. Numbers that change with each read are none of them.
func (r *Report) choiceFacts() string {
	n := r.record("")
	for i := range n.Workers {
		n.Workers[i].Health = cluster.Health{State: healthKey(&n.Workers[i].Health)}
	}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		g.Used, g.Health = 0, cluster.Health{State: healthKey(&g.Health)}
		for k := range r.GPUs[i].Health.Reasons {
			g.Health.Reasons = append(g.Health.Reasons, r.GPUs[i].Health.Reasons[k].Rule)
		}
	}
	if r.Tier != nil {
		n.Tier = &cluster.Tier{Endpoint: r.Tier.Endpoint, Agent: r.Tier.Agent, Bytes: r.Tier.Bytes, Speed: r.Tier.Speed}
	}
	text, err := json.Marshal(n)
	if err != nil {
		return err.Error() // never: texts and finite numbers
	}
	return string(text)
}

// healthKey returns the health that routing depends on, as text to compare.
func healthKey(h *cluster.Health) string {
	b := append([]byte(h.State), ' ')
	return string(strconv.AppendBool(strconv.AppendFloat(b, h.Weight, 'f', 3, 64), h.NoTP))
}

// record hands a record to the cluster: at once where its choiceFacts are new, else every
// recordEvery. The latter has the numbers of now and the reasons of before, whose numbers would
// make a write of each read. Before the first look at the machine there is no record: routers
// would remove the workers of an earlier process.
func (j *reporter) record(r *Report) {
	if j.sidecar.cfg.Cluster == nil || !r.Ready() {
		return
	}
	facts := r.choiceFacts()
	news := facts != j.facts
	if !news && r.At.Sub(j.lastAt) < recordEvery {
		return
	}
	record := r.record(j.sidecar.control)
	if !news {
		keepReasons(&record, &j.last)
	}
	j.facts, j.lastAt, j.last = facts, r.At, record
	j.sidecar.records.put(record)
}

// keepReasons takes the reasons from a record of the same workers and GPUs.
func keepReasons(n, last *cluster.Node) {
	for i := range n.Workers {
		n.Workers[i].Health.Reasons = last.Workers[i].Health.Reasons
	}
	for i := range n.GPUs {
		n.GPUs[i].Health.Reasons = last.GPUs[i].Health.Reasons
	}
}

// records hands the node's records to the cluster.
type records struct {
	cluster Cluster // nil: there is none

	mu   sync.Mutex
	last ClusterReport // of the last record; guarded by mu
}

// put replaces the record.
func (a *records) put(n cluster.Node) {
	err := a.cluster.AnnounceNode(n)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = ClusterReport{Records: a.last.Records + 1, At: time.Now()}
	if err != nil {
		a.last.Error = err.Error()
	}
}

// status returns the present state of the cluster.
func (a *records) status() ClusterReport {
	a.mu.Lock()
	s := a.last
	a.mu.Unlock()
	s.State = "none"
	if a.cluster == nil {
		return s
	}
	view := a.cluster.View()
	s.State, s.Routers, s.Nodes = "down", len(view.Routers), len(view.Nodes)
	if view.Up {
		s.State = "up"
	}
	return s
}
