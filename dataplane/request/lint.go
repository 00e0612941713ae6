package request

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/prompt/lint"
)

var (
	descLintSampled  = desc("lint_sampled_total", "Prompts that were looked at for changing parts before stable ones.")
	descLintDropped  = desc("lint_dropped_total", "Sampled prompts that were not, because those before were not done yet.")
	descLintNow      = desc("lint_prefix_share", "Share of the sampled prompts' tokens that another one begins with too.")
	descLintThen     = desc("lint_possible_prefix_share", "The same, if what is stable stood first.")
	descLintFindings = desc("lint_findings", "Templates whose changing parts stand before stable ones; /status has them.")
)

// lintCollector reads the sampler at each scrape.
type lintCollector struct{ sampler *lint.Sampler }

var _ prometheus.Collector = lintCollector{}

// Describe implements prometheus.Collector.
func (c lintCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descLintSampled, descLintDropped, descLintNow, descLintThen, descLintFindings} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c lintCollector) Collect(ch chan<- prometheus.Metric) {
	sampled, dropped := c.sampler.Counts()
	ch <- prometheus.MustNewConstMetric(descLintSampled, prometheus.CounterValue, float64(sampled))
	ch <- prometheus.MustNewConstMetric(descLintDropped, prometheus.CounterValue, float64(dropped))
	if r := c.sampler.Report(); r != nil {
		ch <- prometheus.MustNewConstMetric(descLintNow, prometheus.GaugeValue, r.Now)
		ch <- prometheus.MustNewConstMetric(descLintThen, prometheus.GaugeValue, r.Then)
		ch <- prometheus.MustNewConstMetric(descLintFindings, prometheus.GaugeValue, float64(len(r.Finding)))
	}
}

func (s *Server) lintReport() *lint.Report {
	if s.Lint == nil {
		return nil
	}
	return s.Lint.Report()
}
