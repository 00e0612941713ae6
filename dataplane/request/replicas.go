package request

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/routing/peers"
)

// replicaStatus is nil where the router chooses for itself alone, always.
func (s *Server) replicaStatus() *peers.Status {
	if s.Replicas == nil {
		return nil
	}
	st := s.Replicas.Status()
	return &st
}

var (
	replicaPeers    = prometheus.NewDesc("warmpath_replica_peers", "Other routers that tell what they have in flight.", nil, nil)
	replicaChief    = prometheus.NewDesc("warmpath_replica_chief", "1 where this router chooses for all others.", nil, nil)
	replicaSilence  = prometheus.NewDesc("warmpath_replica_silence_seconds", "Since the last word of another router.", []string{"replica"}, nil)
	replicaFlight   = prometheus.NewDesc("warmpath_replica_in_flight", "Requests that another router has in flight.", []string{"replica"}, nil)
	replicaMessages = prometheus.NewDesc("warmpath_replica_messages_total",
		"Messages of what is in flight, by what became of them: published, failed, received, lost, stale or malformed.", []string{"result"}, nil)
	replicaBytes   = prometheus.NewDesc("warmpath_replica_published_bytes_total", "Bytes of messages of what is in flight.", nil, nil)
	replicaChoices = prometheus.NewDesc("warmpath_replica_choices_total",
		"Requests that another router was to choose for, by what came of it: chosen, late (it did not within the deadline), alone (it was not asked, having been late) "+
			"or refused (it knew nobody); and judged, those of others that this one chose for.", []string{"result"}, nil)
	replicaForgotten = prometheus.NewDesc("warmpath_replica_forgotten_total", "Routers that fell silent.", nil, nil)
)

// replicaCollector shows what a router knows of others.
type replicaCollector struct{ group *peers.Group }

// Describe implements prometheus.Collector.
func (replicaCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		replicaPeers, replicaChief, replicaSilence, replicaFlight, replicaMessages, replicaBytes, replicaChoices, replicaForgotten,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c replicaCollector) Collect(ch chan<- prometheus.Metric) {
	st := c.group.Status()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	chief := 0.0
	if st.Chief == st.ID {
		chief = 1
	}
	gauge(replicaPeers, float64(len(st.Peers)))
	gauge(replicaChief, chief)
	for i := range st.Peers {
		gauge(replicaSilence, st.Peers[i].Silence, st.Peers[i].ID)
		gauge(replicaFlight, float64(st.Peers[i].InFlight), st.Peers[i].ID)
	}
	for result, n := range map[string]uint64{
		"published": st.Published, "failed": st.Failed, "received": st.Received, "lost": st.Lost, "stale": st.Stale, "malformed": st.Malformed,
	} {
		count(replicaMessages, n, result)
	}
	for result, n := range map[string]uint64{"chosen": st.Chosen, "late": st.Late, "alone": st.Alone, "refused": st.Refused, "judged": st.Judged} {
		count(replicaChoices, n, result)
	}
	count(replicaBytes, st.PublishedBytes)
	count(replicaForgotten, st.Forgotten)
}
