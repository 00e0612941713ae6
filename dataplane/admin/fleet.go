package admin

import (
	"context"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// Fleet changes the set of workers at run time, as operators ask.
type Fleet interface {
	// Add adds a worker; worker.ErrDuplicate where the fleet has it.
	Add(spec worker.Spec) error
	// Remove takes a worker away: at once, or once its requests in flight have ended.
	Remove(url string, atOnce bool) (fleet.Removal, error)
	// Drain begins or ends the drain of a worker or node: at all routers of a cluster, or at this
	// one.
	Drain(ctx context.Context, target fleet.Target, on bool) (fleet.Scope, error)
	// Cordon begins or ends a cordon, which keeps workers out that are not in use yet.
	Cordon(ctx context.Context, target fleet.Target, on bool) (fleet.Scope, error)
	// Marks returns the drains and cordons that the cluster keeps, or else the cordons of this
	// router.
	Marks() []cluster.Mark
	// Sources returns the state of the sources that workers come from.
	Sources() []fleet.SourceStatus
	// Origins returns the names of the sources that list a worker; none: the worker is being
	// removed.
	Origins(url string) []string
}

// ConfigStatus is the state of the configuration file.
type ConfigStatus struct {
	File    string    `json:"file,omitempty"` // "": flags only
	Loaded  time.Time `json:"loaded"`         // time of the configuration in force
	Reloads uint64    `json:"reloads"`        // that changed a setting
	Failed  uint64    `json:"failed"`         // that changed nothing because of an error
	Error   string    `json:"error,omitempty"`
	Restart []string  `json:"restart,omitempty"` // flags with new values that wait for a restart
}

// registryFleet is a Fleet without sources.
type registryFleet struct{ *worker.Registry }

var _ Fleet = registryFleet{}

// Add implements Fleet.
func (r registryFleet) Add(spec worker.Spec) error {
	_, err := r.AddSpec(spec)
	return err
}

// Remove implements Fleet. It never waits for requests in flight.
func (r registryFleet) Remove(url string, _ bool) (fleet.Removal, error) {
	return fleet.Removal{}, r.Registry.Remove(url)
}

// Drain implements Fleet.
func (r registryFleet) Drain(_ context.Context, target fleet.Target, on bool) (fleet.Scope, error) {
	w, err := r.target(target)
	if err == nil {
		w.Drain(on)
	}
	return fleet.Scope{}, err
}

// Cordon implements Fleet. No source names a worker that a cordon could keep out.
func (r registryFleet) Cordon(_ context.Context, target fleet.Target, _ bool) (fleet.Scope, error) {
	_, err := r.target(target)
	return fleet.Scope{}, err
}

func (r registryFleet) target(t fleet.Target) (*worker.Worker, error) {
	if t.Node != "" {
		return nil, fleet.ErrUnknownNode
	}
	return r.Get(t.URL)
}

// Marks implements Fleet.
func (registryFleet) Marks() []cluster.Mark { return nil }

// Sources implements Fleet.
func (registryFleet) Sources() []fleet.SourceStatus { return nil }

// Origins implements Fleet.
func (registryFleet) Origins(string) []string { return nil }

var (
	descSourceWorkers = desc("source_workers", "Workers that a source lists.", "source")
	descSourceUp      = desc("source_up", "1 while the source answers without an error.", "source")
	descConfigReloads = desc("config_reloads_total",
		"Reloads of the configuration, by result: applied or failed.", "result")
)

func (out sink) sources(all []fleet.SourceStatus) {
	for _, s := range all {
		out.gauge(descSourceWorkers, float64(s.Workers), s.Name)
		out.gauge(descSourceUp, oneIf(s.Answered && s.Error == ""), s.Name)
	}
}

func (out sink) config(st ConfigStatus) {
	out.counter(descConfigReloads, float64(st.Reloads), "applied")
	out.counter(descConfigReloads, float64(st.Failed), "failed")
}
