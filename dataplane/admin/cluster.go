package admin

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
)

// Cluster is the router's view of its cluster: cluster.Cluster.
type Cluster interface {
	Status() cluster.Status
	View() *cluster.View
}

// ClusterStatus is the state of the router's link to its cluster.
type ClusterStatus struct {
	cluster.Status
	Nodes   int `json:"nodes"` // sidecars
	Routers int `json:"routers"`
	Marks   int `json:"marks"` // workers and nodes that are drained or cordoned
	// Of the view: since its last change or the last message of NATS.
	AgeSeconds float64 `json:"age_seconds"`
}

// clusterStatus returns the state of c.
func clusterStatus(c Cluster) *ClusterStatus {
	v := c.View()
	return &ClusterStatus{
		Status: c.Status(), Nodes: len(v.Nodes), Routers: len(v.Routers), Marks: len(v.Marks),
		AgeSeconds: time.Since(v.At).Seconds(),
	}
}

var (
	descClusterUp  = desc("cluster_up", "1 while the cluster's NATS answers.")
	descClusterAge = desc("cluster_view_age_seconds",
		"Time since the view of the cluster last changed, or the last message of NATS.")
	descClusterMembers = desc("cluster_members",
		"Members of the cluster, by kind: node or router.", "kind")
	descClusterMarks  = desc("cluster_marks", "Workers and nodes that are drained or cordoned.")
	descClusterEvents = desc("cluster_events_total",
		"Events between this process and NATS: reconnect, resync (all records were read), write (of this process's record), "+
			"skipped (a record or beat could not be read), dropped (messages came faster than they were read) or "+
			"conflict (another process took this one's name).", "event")
)

func (out sink) cluster(st *ClusterStatus) {
	out.gauge(descClusterUp, oneIf(st.Up))
	out.gauge(descClusterAge, st.AgeSeconds)
	out.gauge(descClusterMembers, float64(st.Nodes), "node")
	out.gauge(descClusterMembers, float64(st.Routers), "router")
	out.gauge(descClusterMarks, float64(st.Marks))
	for event, n := range map[string]uint64{
		"reconnect": st.Reconnects, "resync": st.Resyncs, "write": st.Writes,
		"skipped": st.Skipped, "dropped": st.Dropped, "conflict": st.Conflicts,
	} {
		out.counter(descClusterEvents, float64(n), event)
	}
}
