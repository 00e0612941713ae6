package admin

import (
	"github.com/warmpath/warmpath/dataplane/routing/peers"
)

var (
	descPeers       = desc("replica_peers", "Other routers that publish their requests in flight.")
	descPeerSilence = desc("replica_silence_seconds",
		"Time since the last message of a peer.", "replica")
	descPeerInFlight = desc("replica_in_flight", "Requests in flight at a peer.", "replica")
	descPeerMessages = desc("replica_messages_total",
		"Messages about requests in flight, by result: published, failed, received, lost, "+
			"stale or malformed.", "result")
	descPeerBytes = desc("replica_published_bytes_total",
		"Bytes of published messages about requests in flight.")
	descPeersForgotten = desc("replica_forgotten_total", "Peers that fell silent.")
)

func (out sink) peers(st peers.Status) {
	out.gauge(descPeers, float64(len(st.Peers)))
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
	out.counter(descPeerBytes, float64(st.PublishedBytes))
	out.counter(descPeersForgotten, float64(st.Forgotten))
}
