package request

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/cluster"
)

// Cluster is what a router shares with others: cluster.Cluster.
type Cluster interface {
	Status() cluster.Status
	View() *cluster.View
}

// ClusterStatus is how the router stands with its cluster.
type ClusterStatus struct {
	cluster.Status
	Nodes      int     `json:"nodes"` // sidecars that are there
	Routers    int     `json:"routers"`
	Marks      int     `json:"marks"`       // workers and nodes that are drained or cordoned
	AgeSeconds float64 `json:"age_seconds"` // of what is known: since the last change or the last word from NATS
}

// clusterStatus is nil where there is no cluster.
func (s *Server) clusterStatus() *ClusterStatus {
	if s.Cluster == nil {
		return nil
	}
	v := s.Cluster.View()
	return &ClusterStatus{
		Status: s.Cluster.Status(), Nodes: len(v.Nodes), Routers: len(v.Routers), Marks: len(v.Marks), AgeSeconds: time.Since(v.At).Seconds(),
	}
}

var (
	clusterUp      = prometheus.NewDesc("warmpath_cluster_up", "Whether the cluster's NATS is in reach.", nil, nil)
	clusterAge     = prometheus.NewDesc("warmpath_cluster_view_age_seconds", "Since the last change of what is known of the cluster, or the last word from NATS.", nil, nil)
	clusterMembers = prometheus.NewDesc("warmpath_cluster_members", "Processes that are there, by kind: node or router.", []string{"kind"}, nil)
	clusterMarks   = prometheus.NewDesc("warmpath_cluster_marks", "Workers and nodes that are drained or cordoned.", nil, nil)
	clusterEvents  = prometheus.NewDesc("warmpath_cluster_events_total",
		"What happened between this process and NATS: reconnect, resync (the buckets were read whole), write (of an own record), skipped (a record or beat that could not be read), "+
			"dropped (messages that came faster than they were read) or conflict (another process took this one's name).", []string{"event"}, nil)
)

// clusterCollector shows clusterStatus.
type clusterCollector struct{ s *Server }

// Describe implements prometheus.Collector.
func (clusterCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{clusterUp, clusterAge, clusterMembers, clusterMarks, clusterEvents} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c clusterCollector) Collect(ch chan<- prometheus.Metric) {
	st := c.s.clusterStatus()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	up := 0.0
	if st.Up {
		up = 1
	}
	gauge(clusterUp, up)
	gauge(clusterAge, st.AgeSeconds)
	gauge(clusterMembers, float64(st.Nodes), "node")
	gauge(clusterMembers, float64(st.Routers), "router")
	gauge(clusterMarks, float64(st.Marks))
	for event, n := range map[string]uint64{
		"reconnect": st.Reconnects, "resync": st.Resyncs, "write": st.Writes, "skipped": st.Skipped, "dropped": st.Dropped, "conflict": st.Conflicts,
	} {
		ch <- prometheus.MustNewConstMetric(clusterEvents, prometheus.CounterValue, float64(n), event)
	}
}
