package router

import (
	"math/rand/v2"

	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// newPolicy returns the policy that the operator chose.
func newPolicy(cfg *Config) (policy.Policy, error) {
	p, err := policy.New(cfg.Policy, *cfg.Policies)
	if err == nil && cfg.Sticky {
		p = policy.Sticky{Policy: p}
	}
	return p, err
}

// newRouter returns a router that picks by it.
func (d *Router) newRouter(p policy.Policy, believed *routing.ApproxIndex) *routing.Router {
	router := routing.New(d.registry, d.index, d.intake.View, p, rand.Uint64)
	router.Approx, router.MinUncached = believed, d.cfg.MinUncached
	if d.cfg.Sticky {
		router.Sessions = routing.NewSessions()
	}
	d.replicas = d.newGroup(router)
	d.share(router)
	return router
}
