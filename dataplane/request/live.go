package request

import "github.com/warmpath/warmpath/dataplane/routing/policy"

// live returns the settings as they are now.
func (s *Server) live() *Config { return s.current.Load() }

// Configure changes settings while requests are served: those that begin from then on have the new ones. change gets a copy of what
// there is. Listeners, TLS, the rules of the queue and the header's size stay as they were at first.
func (s *Server) Configure(change func(*Config)) {
	cfg := *s.live()
	change(&cfg)
	cfg.setDefaults()
	s.current.Store(&cfg)
	if s.waits != nil {
		s.waits.most.Store(int64(cfg.Queue.MaxInFlight))
	}
}

// policyChanged has answers counted by the name of the policy that picks now.
func (m *metrics) policyChanged() {
	m.ranks.mu.Lock()
	defer m.ranks.mu.Unlock()
	m.ranks.byID.Store(nil)
}

// SetPolicy has another policy choose from the next request on.
func (s *Server) SetPolicy(p policy.Policy) {
	s.Router.SetPolicy(p)
	s.metrics.policyChanged()
}
