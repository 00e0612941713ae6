package admin

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet"
)

// ConfigStatus is the state of the configuration file.
type ConfigStatus struct {
	File    string    `json:"file,omitempty"` // "": flags only
	Loaded  time.Time `json:"loaded"`         // time of the configuration in force
	Reloads uint64    `json:"reloads"`        // that changed a setting
	Failed  uint64    `json:"failed"`         // that changed nothing because of an error
	Error   string    `json:"error,omitempty"`
	Restart []string  `json:"restart,omitempty"` // flags with new values that wait for a restart
}

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
