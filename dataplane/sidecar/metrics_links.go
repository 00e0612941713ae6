package sidecar

import (
	"time"

	"github.com/warmpath/warmpath/nixl"
)

// links are the measured ways to other nodes. Why one is slow or broken is said in words, in /status and in the log.
func (s series) links(r *Report) {
	for i := range r.Links {
		l := &r.Links[i]
		if l.At.IsZero() { // not measured, which /status says
			continue
		}
		labels, values := []string{"to", "path"}, []string{l.To, l.Path}
		s.send("warmpath_node_link_read_bytes_per_second", "Measured speed of reads from another node.", gauge, l.Read, labels, values...)
		s.send("warmpath_node_link_write_bytes_per_second", "Measured speed of writes to another node.", gauge, l.Write, labels, values...)
		s.send("warmpath_node_link_latency_seconds", "Measured time of the smallest transfer, of 64 KiB.", gauge, l.Latency, labels, values...)
		s.send("warmpath_node_link_slow", "Whether the link is slower than its machines should make it.", gauge, truth(l.Slow != ""), labels, values...)
		s.send("warmpath_node_link_ok", "Whether bytes could be moved.", gauge, truth(l.Broken == ""), labels, values...)
		s.send("warmpath_node_link_age_seconds", "Time since the link was measured.", gauge, time.Since(l.At).Seconds(), labels, values...)
	}
}

// nixl is what agents have done since they were made. Bytes are of completed transfers.
func (s series) nixl(agents map[string]nixl.Stats) {
	for name, a := range agents {
		labels := []string{"agent"}
		total := func(metric, help string, v uint64) {
			s.send("warmpath_node_nixl_"+metric+"_total", help, counter, float64(v), labels, name)
		}
		for _, o := range []struct {
			outcome string
			n       uint64
		}{{"completed", a.Completed}, {"failed", a.Failed - a.TimedOut}, {"timed_out", a.TimedOut}} {
			s.send("warmpath_node_nixl_transfers_total", "Transfers that have ended.", counter, float64(o.n), []string{"agent", "outcome"}, name, o.outcome)
		}
		s.send("warmpath_node_nixl_bytes_total", "Bytes of completed transfers.", counter, float64(a.BytesRead), []string{"agent", "op"}, name, "read")
		s.send("warmpath_node_nixl_bytes_total", "Bytes of completed transfers.", counter, float64(a.BytesWritten), []string{"agent", "op"}, name, "write")
		total("requests", "Requests of the library, in completed transfers.", a.Requests)
		total("descriptors", "Descriptors in them, after merging.", a.Pieces)
		total("quarantined", "Transfers that were given up while bytes could still move.", a.Abandoned)
		total("agents_replaced", "Agents of the library that another one took the place of, to end what could not be ended otherwise.", a.Replacements)
		s.send("warmpath_node_nixl_quarantine_transfers", "Transfers that were given up and may still move bytes.", gauge, float64(a.AbandonedNow), labels, name)
		s.send("warmpath_node_nixl_quarantine_bytes", "Memory that must not be used because of them.", gauge, float64(a.AbandonedBytes), labels, name)
		s.send("warmpath_node_nixl_up", "Whether there is an agent of the library at the moment.", gauge, truth(a.Down == ""), labels, name)
	}
}
