package dataplane

import (
	"math/rand/v2"

	"github.com/warmpath/warmpath/dataplane/policy"
	"github.com/warmpath/warmpath/dataplane/route"
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
func (d *Dataplane) newRouter(p policy.Policy, believed *route.Approx) *route.Router {
	router := route.New(d.registry, d.index, d.intake.View, p, rand.Uint64)
	router.Approx, router.MinUncached = believed, d.cfg.MinUncached
	if d.cfg.Sticky {
		router.Sessions = route.NewSessions()
	}
	d.replicas = d.newGroup(router)
	d.share(router)
	return router
}
