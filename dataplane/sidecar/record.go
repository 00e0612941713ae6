package sidecar

import (
	"cmp"
	"context"
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
// with another text is written at once.
func (r *Report) choiceFacts() string {
	b := make([]byte, 0, 1024)
	text := func(s string) { b = strconv.AppendQuote(b, s) }
	number := func(v int) { b = strconv.AppendInt(append(b, ' '), int64(v), 10) }
	judged := func(h *cluster.Health) { text(healthKey(h)) }
	text(string(r.Driver.State))
	for i := range r.GPUs {
		g := &r.GPUs[i]
		text(g.Health.GPU)
		number(len(g.Facts.Links))
		for k := range g.Facts.Links {
			b = strconv.AppendBool(b, g.Facts.Links[k].Up.Or(false))
		}
		h := healthOfGPU(g)
		judged(&h)
		for k := range g.Health.Reasons { // without details, whose numbers change with each read
			text(g.Health.Reasons[k].Rule)
		}
	}
	for i := range r.Workers {
		w := &r.Workers[i]
		text(w.Public)
		text(w.Role)
		text(w.Model)
		number(w.PID)
		number(w.TP)
		number(w.DP)
		number(w.Port)
		for _, uuid := range w.GPUs {
			text(uuid)
		}
		judged(&w.Health)
	}
	if r.Tier != nil {
		text(r.Tier.Endpoint)
		text(r.Tier.Agent)
		number(int(r.Tier.Bytes))
		number(int(r.Tier.Speed))
	}
	for i := range r.Links {
		text(r.Links[i].To)
		text(r.Links[i].Path)
		text(r.Links[i].Broken)
		text(r.Links[i].Unknown)
		text(r.Links[i].Slow)
		number(int(r.Links[i].At.Unix()))
	}
	return string(b)
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
