package policies

import (
	"strings"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// ablation is the knowledge and the terms that a run's routers are denied.
type ablation struct {
	predictions, load, progress, rate, replica, foreign, tiers bool
	terms                                                      policy.Terms
}

// Ablations lists the values of [Config].Ablate: knowledge of a router, and terms of the kv
// policy's cost. Several, joined by a plus, are one ablation.
func Ablations() []string {
	return append([]string{
		"predictions", // of requests in flight at a rank
		"foreign",     // of other replicas' requests in flight
		"load",        // load comes from reports only, not from dispatch
		"progress",    // a prompt counts wholly until its first token
		"rate",        // workers' speeds are not learnt
		"replica",     // replicas do not know that there are others
		"tiers",       // of the KV tiers of nodes
	}, policy.TermNames()...)
}

func ablate(names []string) (a ablation) {
	for name := range strings.SplitSeq(strings.Join(names, "+"), "+") {
		switch name {
		case "predictions":
			a.predictions = true
		case "foreign":
			a.foreign = true
		case "load":
			a.load = true
		case "progress":
			a.progress = true
		case "rate":
			a.rate = true
		case "replica":
			a.replica = true
		case "tiers":
			a.tiers = true
		default:
			a.terms |= policy.TermNamed(name)
		}
	}
	return a
}
