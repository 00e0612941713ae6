package sidecar

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/sidecar/health"
	"github.com/warmpath/warmpath/nvml"
)

// collector reads the newest report at each scrape.
type collector struct{ sidecar *Sidecar }

// gpuLabels are the labels that dcgm-exporter gives each series of a GPU
// (internal/pkg/rendermetrics), except those of pods.
var gpuLabels = []string{"gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname"}

// Describe implements prometheus.Collector. The metrics depend on the driver, so it names none.
func (*collector) Describe(chan<- *prometheus.Desc) {}

// series takes the metrics of one scrape.
type series chan<- prometheus.Metric

func (s series) send(name, help string, kind prometheus.ValueType, v float64, labels []string, values ...string) {
	s <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, labels, nil), kind, v, values...)
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	r := c.sidecar.Report()
	s := series(out)
	for i := range r.GPUs {
		g := &r.GPUs[i]
		index := strconv.Itoa(g.Facts.Index)
		labels := []string{
			index, g.Health.GPU, g.Facts.Bus.Or(""), "nvidia" + index, g.Facts.Name.Or(""), r.Name,
		}
		if g.Facts.Err == nil && r.Driver.State == nvml.StateReady {
			s.facts(r, g, labels)
		}
		s.gpu(g, labels)
	}
	s.workers(r)
	s.node(r)
	s.links(r)
	for _, agents := range c.sidecar.cfg.extra.agents {
		s.nixl(agents())
	}
}

// facts sends DCGM's metrics, and further facts of the driver.
func (s series) facts(r *Report, g *GPUReport, labels []string) {
	for i := range dcgmMetrics {
		m := &dcgmMetrics[i]
		if v := m.of(&g.Facts); v.OK {
			s.send(m.name, m.help, m.kind, v.Value, gpuLabels, labels...)
		}
	}
	if r.Driver.Events {
		s.send(xidErrors.name, xidErrors.help, xidErrors.kind, xidErrors.of(&g.Facts).Value, gpuLabels, labels...)
	}
	optional := func(name, help string, v nvml.Opt[float64]) {
		if v.OK {
			s.send(name, help, counter, v.Value, gpuLabels, labels...)
		}
	}
	links := g.Facts.Links
	optional("warmpath_node_gpu_pcie_sent_bytes_total", "Bytes that the GPU sent over PCIe since the driver was loaded.", value(g.Facts.PCIe.Sent, 1))
	optional("warmpath_node_gpu_pcie_received_bytes_total", "Bytes that the GPU received over PCIe since the driver was loaded.",
		value(g.Facts.PCIe.Received, 1))
	optional("warmpath_node_gpu_nvlink_sent_bytes_total", "Data bytes that the GPU sent over NVLink since the driver was loaded.",
		sumLinks(links, func(l *nvml.Link) nvml.Opt[uint64] { return l.Sent }))
	optional("warmpath_node_gpu_nvlink_received_bytes_total", "Data bytes that the GPU received over NVLink since the driver was loaded.",
		sumLinks(links, func(l *nvml.Link) nvml.Opt[uint64] { return l.Received }))
	optional("warmpath_node_gpu_nvlink_crc_errors_total", "CRC errors of the GPU's NVLinks.",
		sumLinks(links, func(l *nvml.Link) nvml.Opt[uint64] { return l.CRC }))
	if len(links) > 0 {
		s.send("warmpath_node_gpu_nvlinks", "NVLinks that the GPU has.", gauge, float64(len(links)), gpuLabels, labels...)
		s.send("warmpath_node_gpu_nvlinks_up", "NVLinks of the GPU that are up.", gauge, float64(g.Facts.LinksUp()), gpuLabels, labels...)
	}
}

// gpu sends the health of a GPU.
func (s series) gpu(g *GPUReport, labels []string) {
	with := func(label string) []string { return append(slices.Clip(gpuLabels), label) }
	add := func(v string) []string { return append(slices.Clip(labels), v) }
	for state := health.Healthy; state <= health.Dead; state++ {
		s.send("warmpath_node_gpu_state", "1 for the state of the GPU.", gauge, boolValue(g.Health.State == state), with("state"), add(state.String())...)
	}
	s.send("warmpath_node_gpu_weight", "Share of its full speed that the GPU has.", gauge, g.Health.Weight, gpuLabels, labels...)
	s.send("warmpath_node_gpu_tensor_parallel", "Whether the GPU is fit for tensor-parallel work.", gauge, boolValue(g.Health.TP), gpuLabels, labels...)
	for i := range g.Health.Reasons {
		s.send("warmpath_node_gpu_reason", "1 for each rule that finds a fault of the GPU.", gauge, 1, with("rule"), add(g.Health.Reasons[i].Rule)...)
	}
	for code, n := range g.XIDs {
		s.send("warmpath_node_gpu_xids_total", "XIDs of the driver, by code.", counter, float64(n), with("xid"), add(strconv.Itoa(code))...)
	}
}

func boolValue(v bool) float64 {
	if v {
		return 1
	}
	return 0
}

// workers sends the state of the node's workers.
func (s series) workers(r *Report) {
	labels := []string{"worker", "role", "model"}
	for i := range r.Workers {
		w := &r.Workers[i]
		values := []string{w.URL, w.Role, w.Model}
		s.send("warmpath_node_worker_ready", "Whether the worker is ready.", gauge, boolValue(w.State == "ready"), labels, values...)
		s.send("warmpath_node_worker_gpus", "Known GPUs of the worker.", gauge, float64(len(w.GPUs)), labels, values...)
		if w.Health.State != worker.GPUUnknown.String() {
			s.send("warmpath_node_worker_weight", "Share of its full speed that the worker's slowest GPU has.", gauge, w.Health.Weight, labels, values...)
		}
		for state := worker.GPUUnknown; state <= worker.GPUDead; state++ {
			s.send("warmpath_node_worker_state", "1 for the state of the worker's worst GPU.", gauge, boolValue(w.Health.State == state.String()),
				append(labels[:3:3], "state"), append(values[:3:3], state.String())...)
		}
	}
}

// node sends the state of the sidecar itself.
func (s series) node(r *Report) {
	s.send("warmpath_node_info", "Name and versions of the node.", gauge, 1, []string{"node", "version", "driver", "cuda"},
		r.Name, r.Version, r.Driver.Version.Or(""), r.Driver.CUDA.Or(""))
	s.send("warmpath_node_driver_ready", "Whether the driver answers.", gauge, boolValue(r.Driver.State == nvml.StateReady), nil)
	if !r.Driver.At.IsZero() {
		s.send("warmpath_node_driver_read_seconds", "Time that the last read of all GPUs took.", gauge, r.Driver.Took.Seconds(), nil)
		s.send("warmpath_node_driver_read_age_seconds", "Time since the last read of the GPUs.", gauge, time.Since(r.Driver.At).Seconds(), nil)
	}
	s.send("warmpath_node_cluster_up", "Whether the cluster's NATS is in reach.", gauge, boolValue(r.Cluster.State == "up"), nil)
	s.send("warmpath_node_records_total", "Records written to the cluster.", counter, float64(r.Cluster.Records), nil)
	s.send("warmpath_node_unreached_workers", "Workers left out of the record, as routers cannot reach them.", gauge, float64(len(r.Cluster.Unreached)), nil)
	s.send("warmpath_node_listeners", "Listening sockets in the last scan for workers.", gauge, float64(r.Discovery.Listeners), nil)
	if t := r.Tier; t != nil {
		s.send("warmpath_node_tier_bytes", "Bound of the KV tier.", gauge, float64(t.Bytes), nil)
		s.send("warmpath_node_tier_used_bytes", "Bytes in the KV tier.", gauge, float64(t.Used), nil)
		s.send("warmpath_node_tier_pages", "Pages in the KV tier.", gauge, float64(t.Pages), nil)
	}
}
