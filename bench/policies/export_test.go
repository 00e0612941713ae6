package policies

// Bound is the hit rate that no router can exceed on a trace, as a [Report] has it, without the
// simulations.
func Bound(trace []Request, page int) float64 { return bound(newPlan(trace, page, 1, false)) }
