package router

import (
	"log/slog"
	"sync/atomic"

	"github.com/warmpath/warmpath/dataplane/request"
	"github.com/warmpath/warmpath/dataplane/router/config"
	"github.com/warmpath/warmpath/dataplane/selfcheck"
)

// buildSelfCheck makes the checks of the choice.
func (b *builder) buildSelfCheck() {
	b.choices = &choices{log: b.cfg.Log, requests: func() *request.Handler { return b.requests }}
	b.choices.operator.Store(&b.cfg.Policy)
	var limits selfcheck.Limits
	if b.cfg.Policy.CheckLimits != nil {
		limits = *b.cfg.Policy.CheckLimits
	}
	b.checker = selfcheck.New(selfcheck.Config{
		Mode: b.cfg.Policy.SelfCheck, Policy: checkedPolicy(&b.cfg.Policy), Options: *b.cfg.Policy.Options, Limits: limits,
		Workers: b.registry.Snapshot, Peers: b.otherRouters, Set: b.choices.set, Log: b.cfg.Log,
	})
	b.parts.SelfCheck = b.checker
	b.run(b.checker.Run)
}

// checkedPolicy returns the operator's policy as the checks name it.
func checkedPolicy(p *config.Policy) selfcheck.Choice {
	c := selfcheck.Choice{Policy: p.Name}
	if p.Name == "kv" {
		c.Without = p.Options.Without
	}
	return c
}

// choices puts policies in force, with the operator's options.
type choices struct {
	operator atomic.Pointer[config.Policy] // as configured
	requests func() *request.Handler
	log      *slog.Logger
}

// set puts a policy in force.
func (s *choices) set(c selfcheck.Choice) {
	p := *s.operator.Load()
	options := *p.Options
	options.Without = c.Without
	p.Name, p.Options = c.Policy, &options
	choice, err := p.New()
	if err != nil { // alternatives are policies of this process
		s.log.Error("cannot change the policy", "error", err)
		return
	}
	s.requests().SetPolicy(choice)
}

// otherRouters are the routers for the same workers.
func (b *builder) otherRouters() selfcheck.Peers {
	p := selfcheck.Peers{Routers: 1}
	if g := b.parts.Peers; g != nil {
		st := g.Status()
		p.Routers += len(st.Peers)
		if st.Leader != st.ID {
			p.Leader = st.Leader
		}
		return p
	}
	if c := b.cfg.Cluster.Conn; c != nil {
		p.Routers = max(len(c.View().Routers), 1)
		p.Apart = p.Routers > 1
	}
	return p
}
