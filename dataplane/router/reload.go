package router

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/fleet"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/request"
	"github.com/warmpath/warmpath/dataplane/router/config"
)

// reloads holds the configuration and the results of reloads.
type reloads struct {
	mu     sync.Mutex
	cfg    Config // the last valid one, without defaults; guarded by mu, as is all below
	first  Config // of the start, without defaults: what needs a restart is compared with it
	status admin.ConfigStatus
}

func (r *reloads) begin(cfg *Config) {
	r.cfg, r.first = *cfg, *cfg
	r.status = admin.ConfigStatus{File: cfg.ConfigFile, Loaded: time.Now()}
}

// Status returns the results of reloads.
func (r *reloads) Status() admin.ConfigStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.status
	st.Restart = slices.Clone(st.Restart)
	return st
}

// Reload takes over the configuration that read returns, as far as it can change while requests
// are served. An invalid one changes nothing; the error is in /status too. Settings that need a
// restart keep their values and are named there and in one warning.
func (r *Router) Reload(read func() (Config, error)) error {
	st := &r.reload
	st.mu.Lock()
	defer st.mu.Unlock()
	cfg, err := read()
	if err == nil {
		err = r.reloadLocked(&cfg)
	}
	if err != nil {
		st.status.Failed++
		st.status.Error = err.Error()
		r.cfg.Log.Error("configuration is not reloaded; the previous one holds", "file", st.status.File, "error", err)
		return fmt.Errorf("cannot reload: %w", err)
	}
	return nil
}

// reloadLocked checks all of cfg before it changes anything.
func (r *Router) reloadLocked(cfg *Config) error {
	st := &r.reload
	given := *cfg
	cfg.Log, cfg.Version, cfg.Cluster.Conn, cfg.Node = r.cfg.Log, r.cfg.Version, r.cfg.Cluster.Conn, r.cfg.Node
	cfg.Sockets = r.cfg.Sockets
	cfg.SetDefaults()
	if err := cfg.Check(); err != nil {
		return err
	}
	cfg.Policy.SessionAffinity = st.first.Policy.SessionAffinity // needs a restart
	choice, err := cfg.Policy.New()
	if err != nil {
		return err
	}
	changed, waiting := config.Changed(&st.cfg, &given)
	_, st.status.Restart = config.Changed(&st.first, &given)
	st.status.Loaded, st.status.Error = time.Now(), ""
	if len(waiting) > 0 && len(st.status.Restart) > 0 {
		r.cfg.Log.Warn("some settings change after a restart only", "settings", st.status.Restart)
	}
	before := st.cfg
	st.cfg = given
	if len(changed) == 0 {
		return nil
	}
	st.status.Reloads++
	if before.Policy.Name != given.Policy.Name || !reflect.DeepEqual(before.Policy.Options, given.Policy.Options) {
		r.requests.Router.SetPolicy(choice)
	}
	r.admin.SetKey(cfg.Operator.Key)
	r.requests.Configure(func(s *request.Config) { applyLive(s, cfg) })
	r.registry.Configure(func(w *worker.Config) {
		w.Interval, w.Timeout, w.HangAfter = cfg.Probes.Interval, cfg.Probes.Timeout, cfg.Probes.HangAfter
	})
	r.fleet.Configure(fleet.Config{Drain: cfg.Timeouts.Drain, Networks: r.networks, Log: cfg.Log})
	r.fleet.SetSources(r.allSources(cfg))
	r.cfg.Log.Info("configuration is reloaded", "file", st.status.File, "settings", changed)
	return nil
}

// SetKey sets the operators' key alone, for a router whose configuration is read once.
func (r *Router) SetKey(key string) {
	r.reload.mu.Lock()
	defer r.reload.mu.Unlock()
	r.admin.SetKey(key)
	r.requests.Configure(func(s *request.Config) { s.OperatorKey = []byte(key) })
}

// applyLive sets the settings of requests that can change at run time.
func applyLive(s *request.Config, cfg *Config) {
	s.MaxBodyBytes, s.GzipMinBytes, s.Retries = cfg.Requests.MaxBodyBytes, cfg.Requests.GzipMinBytes, cfg.Requests.Retries
	s.TrustPriority, s.SaltByKey = cfg.Requests.TrustPriority, cfg.Requests.Clients.CacheSalt
	s.Origins, _ = cfg.Requests.AllowedOrigins() // Check has returned the error
	s.Audience, s.OperatorKey = cfg.Requests.Audience, []byte(cfg.Operator.Key)
	s.Pair = request.PairConfig{Timeout: cfg.Pairs.Timeout, PrefillTimeout: cfg.Pairs.PrefillTimeout, Headers: cfg.Pairs.Headers}
	s.FirstByteTimeout, s.StallTimeout, s.DrainTimeout = cfg.Timeouts.FirstByte, cfg.Timeouts.Stall, cfg.Timeouts.Drain
	c := &cfg.Requests.Clients
	s.Clients = ingress.Limits{Clients: c.Max, PerAddress: c.PerAddress, Idle: c.Idle, Arrival: c.Request, Rate: c.MinRate, Stall: c.Stall}
	s.Queue.MaxInFlight = cfg.Requests.MaxInFlight
}
