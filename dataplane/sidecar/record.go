package sidecar

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
)

// record is what the cluster is told. Workers that routers could not reach are left out: a wrong URL is worse than none.
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
		up := 0
		for k := range g.Facts.Links {
			if g.Facts.Links[k].Up.Or(false) {
				up++
			}
		}
		n.GPUs = append(n.GPUs, cluster.GPU{
			UUID: g.Health.GPU, Index: g.Health.Index, Name: g.Facts.Name.Value, Used: g.Facts.Memory.Used.Value, Total: g.Facts.Memory.Total.Value,
			LinksUp: up, Links: len(g.Facts.Links), Health: healthOfGPU(g),
		})
	}
	return n
}

// matters is all of a report that a choice goes by, as text to compare: a record with another one is told at once.
func (r *Report) matters() string {
	b := make([]byte, 0, 1024)
	text := func(s string) { b = strconv.AppendQuote(b, s) }
	number := func(v int) { b = strconv.AppendInt(append(b, ' '), int64(v), 10) }
	judged := func(h *cluster.Health) { text(healthText(h)) }
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
		for k := range g.Health.Reasons { // their words tell numbers that change with each read
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

// healthText is what of a worker's or GPU's health a choice goes by.
func healthText(h *cluster.Health) string {
	b := append([]byte(h.State), ' ')
	return string(strconv.AppendBool(strconv.AppendFloat(b, h.Weight, 'f', 3, 64), h.NoTP))
}

// tell hands a record to the announcer: at once where it says something new, else every few seconds with the numbers of now and the
// words of before, which tell numbers too and would make a write of each read. Before the machine was looked at once nothing is told: routers
// would take what an earlier process said of its workers for over.
func (j *judge) tell(r *Report) {
	if j.n.cfg.Cluster == nil || !r.Ready() {
		return
	}
	what := r.matters()
	news := what != j.told
	if !news && r.At.Sub(j.toldAt) < tellEvery {
		return
	}
	record := r.record(j.n.control)
	if !news {
		keepWords(&record, &j.last)
	}
	j.told, j.toldAt, j.last = what, r.At, record
	j.n.announcer.offer(record)
}

// keepWords takes the reasons from a record of the same workers and GPUs.
func keepWords(n, last *cluster.Node) {
	for i := range n.Workers {
		n.Workers[i].Health.Reasons = last.Workers[i].Health.Reasons
	}
	for i := range n.GPUs {
		n.GPUs[i].Health.Reasons = last.GPUs[i].Health.Reasons
	}
}

// announcer is the one goroutine that calls the cluster.
type announcer struct {
	cluster Cluster
	box     chan cluster.Node // capacity 1: the newest record that was not told yet
	state   chan ClusterReport
}

// newAnnouncer returns one that has told nothing.
func newAnnouncer(c Cluster) *announcer {
	a := &announcer{cluster: c, box: make(chan cluster.Node, 1), state: make(chan ClusterReport, 1)}
	a.state <- ClusterReport{}
	return a
}

// offer replaces what was not told yet. The judge alone calls it.
func (a *announcer) offer(n cluster.Node) {
	select {
	case <-a.box:
	default:
	}
	a.box <- n
}

// run tells until stop is closed, and takes the record back then.
func (a *announcer) run(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			a.cluster.Withdraw()
			return
		case n := <-a.box:
			err := a.cluster.AnnounceNode(n)
			s := <-a.state
			s.Told, s.At, s.Error = s.Told+1, time.Now(), ""
			if err != nil {
				s.Error = err.Error()
			}
			a.state <- s
		}
	}
}

// status is how the cluster is now.
func (a *announcer) status() ClusterReport {
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
