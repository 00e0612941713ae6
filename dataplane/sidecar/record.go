package sidecar

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
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

// record hands a record to the writer: at once where its choiceFacts are new, else every
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

// recordWriter writes records to the cluster from one goroutine.
type recordWriter struct {
	cluster Cluster
	pending chan cluster.Node  // capacity 1: the newest record
	state   chan ClusterReport // capacity 1
}

func newRecordWriter(c Cluster) *recordWriter {
	a := &recordWriter{cluster: c, pending: make(chan cluster.Node, 1), state: make(chan ClusterReport, 1)}
	a.state <- ClusterReport{}
	return a
}

// put replaces the pending record. Only the reporter calls it.
func (a *recordWriter) put(n cluster.Node) {
	select {
	case <-a.pending:
	default:
	}
	a.pending <- n
}

// run writes records until ctx ends, and then withdraws the last one.
func (a *recordWriter) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			a.cluster.Withdraw()
			return nil
		case n := <-a.pending:
			err := a.cluster.AnnounceNode(n)
			s := <-a.state
			s.Records, s.At, s.Error = s.Records+1, time.Now(), ""
			if err != nil {
				s.Error = err.Error()
			}
			a.state <- s
		}
	}
}

// status returns the present state of the cluster.
func (a *recordWriter) status() ClusterReport {
	s := <-a.state
	a.state <- s
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
