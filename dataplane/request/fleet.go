package request

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/fleet"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// Fleet changes the set of workers at run time, as operators ask.
type Fleet interface {
	// Add adds a worker, worker.ErrDuplicate where it is there.
	Add(spec worker.Spec) error
	// Remove takes a worker away: at once, or after what it has in flight, of which it returns the number of requests.
	Remove(url string, atOnce bool) (inFlight int64, err error)
	// Drain has a worker get nothing new, or takes that back: at all routers of a cluster, or at this one.
	Drain(ctx context.Context, url string, on bool) (DrainScope, error)
	// Sources tells where workers are from.
	Sources() []SourceStatus
	// Origins returns the names of those that name a worker; none: it leaves.
	Origins(url string) []string
}

// DrainScope is the extent of a drain.
type DrainScope = fleet.DrainScope

// SourceStatus describes one source of workers.
type SourceStatus = fleet.SourceStatus

// ConfigStatus is what became of the configuration file.
type ConfigStatus struct {
	File    string    `json:"file,omitempty"` // "": there are flags only
	Loaded  time.Time `json:"loaded"`         // when what holds was read
	Reloads uint64    `json:"reloads"`        // that changed something
	Failed  uint64    `json:"failed"`         // that changed nothing, because of an error
	Error   string    `json:"error,omitempty"`
	Restart []string  `json:"restart,omitempty"` // flags whose new values wait for a restart
}

// registryFleet is a Fleet without sources.
type registryFleet struct{ *worker.Registry }

var _ Fleet = registryFleet{}

// Add implements Fleet.
func (r registryFleet) Add(spec worker.Spec) error {
	_, err := r.AddSpec(spec)
	return err
}

// Remove implements Fleet: always at once.
func (r registryFleet) Remove(url string, _ bool) (int64, error) { return 0, r.Registry.Remove(url) }

// Drain implements Fleet.
func (r registryFleet) Drain(_ context.Context, url string, on bool) (DrainScope, error) {
	w, err := r.Get(url)
	if err == nil {
		w.Drain(on)
	}
	return DrainScope{}, err
}

// Sources implements Fleet.
func (registryFleet) Sources() []SourceStatus { return nil }

// Origins implements Fleet.
func (registryFleet) Origins(string) []string { return nil }

var (
	sourceWorkers = prometheus.NewDesc("warmpath_source_workers", "Workers that a source names.", []string{"source"}, nil)
	sourceUp      = prometheus.NewDesc("warmpath_source_up", "Whether a source can tell news: 1 or 0.", []string{"source"}, nil)
	configReloads = prometheus.NewDesc("warmpath_config_reloads_total", "Reloads of the configuration, by result: applied or failed.", []string{"result"}, nil)
)

// fleetCollector shows sources and reloads.
type fleetCollector struct{ s *Server }

// Describe implements prometheus.Collector.
func (fleetCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- sourceWorkers
	ch <- sourceUp
	ch <- configReloads
}

// Collect implements prometheus.Collector.
func (c fleetCollector) Collect(ch chan<- prometheus.Metric) {
	for _, s := range c.s.Fleet.Sources() {
		up := 0.0
		if s.Answered && s.Error == "" {
			up = 1
		}
		ch <- prometheus.MustNewConstMetric(sourceWorkers, prometheus.GaugeValue, float64(s.Workers), s.Name)
		ch <- prometheus.MustNewConstMetric(sourceUp, prometheus.GaugeValue, up, s.Name)
	}
	if c.s.ConfigStatus != nil {
		st := c.s.ConfigStatus()
		ch <- prometheus.MustNewConstMetric(configReloads, prometheus.CounterValue, float64(st.Reloads), "applied")
		ch <- prometheus.MustNewConstMetric(configReloads, prometheus.CounterValue, float64(st.Failed), "failed")
	}
}
