package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/routing/peers"
)

var (
	descPeers  = desc("replica_peers", "Other routers that publish their requests in flight.")
	descLeader = desc("replica_chief",
		"1 where this router is the leader, which chooses for all.")
	descPeerSilence = desc("replica_silence_seconds",
		"Time since the last message of a peer.", "replica")
	descPeerInFlight = desc("replica_in_flight", "Requests in flight at a peer.", "replica")
	descPeerMessages = desc("replica_messages_total",
		"Messages about requests in flight, by result: published, failed, received, lost, "+
			"stale or malformed.", "result")
	descPeerBytes = desc("replica_published_bytes_total",
		"Bytes of published messages about requests in flight.")
	descPeerChoices = desc("replica_choices_total",
		"Choices that the leader was to make for this router, by result: chosen, late (it missed the deadline), alone (it was not asked, "+
			"having been late before) or refused (it knew no rank); and judged, those that "+
			"this router made for others.", "result")
	descPeersForgotten = desc("replica_forgotten_total", "Peers that fell silent.")
)

// peerCollector reads the state of other routers at each scrape.
type peerCollector struct{ group *peers.Group }

// Describe implements prometheus.Collector.
func (peerCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descPeers, descLeader, descPeerSilence, descPeerInFlight, descPeerMessages, descPeerBytes,
		descPeerChoices, descPeersForgotten,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c peerCollector) Collect(ch chan<- prometheus.Metric) {
	st, out := c.group.Status(), sink{ch}
	out.gauge(descPeers, float64(len(st.Peers)))
	out.gauge(descLeader, oneIf(st.Leader == st.ID))
	for i := range st.Peers {
		out.gauge(descPeerSilence, st.Peers[i].Silence, st.Peers[i].ID)
		out.gauge(descPeerInFlight, float64(st.Peers[i].InFlight), st.Peers[i].ID)
	}
	for result, n := range map[string]uint64{
		"published": st.Published, "failed": st.Failed, "received": st.Received, "lost": st.Lost,
		"stale": st.Stale, "malformed": st.Malformed,
	} {
		out.counter(descPeerMessages, float64(n), result)
	}
	for result, n := range map[string]uint64{
		"chosen": st.Chosen, "late": st.Late, "alone": st.Alone, "refused": st.Refused,
		"judged": st.Judged,
	} {
		out.counter(descPeerChoices, float64(n), result)
	}
	out.counter(descPeerBytes, float64(st.PublishedBytes))
	out.counter(descPeersForgotten, float64(st.Forgotten))
}
