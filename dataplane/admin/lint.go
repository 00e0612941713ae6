package admin

import (
	"github.com/warmpath/warmpath/dataplane/prompt/lint"
)

var (
	descLintSampled = desc("lint_sampled_total",
		"Prompts that were searched for changing parts before stable ones.")
	descLintDropped = desc("lint_dropped_total",
		"Sampled prompts that were dropped because earlier ones were not done yet.")
	descLintNow = desc("lint_prefix_share",
		"Share of the sampled prompts' tokens in a prefix of another sampled prompt.")
	descLintThen = desc("lint_possible_prefix_share",
		"The same share if stable parts stood first.")
	descLintFindings = desc("lint_findings",
		"Templates whose changing parts stand before stable ones; /status has them.")
)

func (out sink) lint(s *lint.Sampler) {
	sampled, dropped := s.Counts()
	out.counter(descLintSampled, float64(sampled))
	out.counter(descLintDropped, float64(dropped))
	if r := s.Report(); r != nil {
		out.gauge(descLintNow, r.Now)
		out.gauge(descLintThen, r.Then)
		out.gauge(descLintFindings, float64(len(r.Finding)))
	}
}
