package request

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/request/quarantine"
)

// registerQuarantine shows what the quarantine counts.
func registerQuarantine(r *prometheus.Registry, w *quarantine.Ward) {
	counter := func(name, help string, value func() uint64) {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "warmpath", Name: name, Help: help},
			func() float64 { return float64(value()) }))
	}
	counter("quarantine_losses_total", "Requests in flight at the death of an engine that may be its cause.", w.Deaths.Load)
	counter("quarantine_caught_total", "Requests found to end engines.", w.Caught.Load)
	counter("quarantine_refused_total", "Requests refused because they were found to end engines.", w.Refused.Load)
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "warmpath", Name: "quarantine_cases", Help: "Requests that are suspected or refused now.",
	}, func() float64 { return float64(w.Cases()) }))
}
