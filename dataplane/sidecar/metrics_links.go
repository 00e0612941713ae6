package sidecar

import (
	"time"

	"github.com/warmpath/warmpath/nixl"
)

// links sends the measured links to other nodes. /status and the log have the reasons of slow and
// broken ones.
func (s series) links(r *Report) {
	for i := range r.Links {
		l := &r.Links[i]
		if l.At.IsZero() { // not measured: see /status
			continue
		}
		labels, values := []string{"to", "path"}, []string{l.To, l.Path}
		s.send("warmpath_node_link_read_bytes_per_second", "Measured throughput of reads from another node.", gauge, l.Read, labels, values...)
		s.send("warmpath_node_link_write_bytes_per_second", "Measured throughput of writes to another node.", gauge, l.Write, labels, values...)
		s.send("warmpath_node_link_latency_seconds", "Measured time of the smallest transfer, of 64 KiB.", gauge, l.Latency, labels, values...)
		s.send("warmpath_node_link_slow", "Whether the link is slower than its machines allow.", gauge, boolValue(l.Slow != ""), labels, values...)
		s.send("warmpath_node_link_ok", "Whether bytes could be moved.", gauge, boolValue(l.Broken == ""), labels, values...)
		s.send("warmpath_node_link_age_seconds", "Time since the link was measured.", gauge, time.Since(l.At).Seconds(), labels, values...)
	}
}

// nixl sends the statistics of NIXL agents. Bytes are of completed transfers.
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
			s.send("warmpath_node_nixl_transfers_total", "Ended transfers.", counter, float64(o.n), []string{"agent", "outcome"}, name, o.outcome)
		}
		s.send("warmpath_node_nixl_bytes_total", "Bytes of completed transfers.", counter, float64(a.BytesRead), []string{"agent", "op"}, name, "read")
		s.send("warmpath_node_nixl_bytes_total", "Bytes of completed transfers.", counter, float64(a.BytesWritten), []string{"agent", "op"}, name, "write")
		total("requests", "Requests of the library, in completed transfers.", a.Requests)
		total("descriptors", "Descriptors in them, after merging.", a.Pieces)
		total("quarantined", "Transfers abandoned while bytes could still move.", a.Abandoned)
		total("agents_replaced", "Agents of the library that were replaced, to end transfers that could not be ended otherwise.", a.Replacements)
		s.send("warmpath_node_nixl_quarantine_transfers", "Abandoned transfers that may still move bytes.", gauge, float64(a.AbandonedNow), labels, name)
		s.send("warmpath_node_nixl_quarantine_bytes", "Memory reserved for them.", gauge, float64(a.AbandonedBytes), labels, name)
		s.send("warmpath_node_nixl_up", "Whether there is an agent of the library.", gauge, boolValue(a.Down == ""), labels, name)
	}
}
