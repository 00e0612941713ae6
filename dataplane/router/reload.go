package router

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/fleet/discover"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/request"
)

// reloads holds the configuration as it is and what became of later ones.
type reloads struct {
	mu     sync.Mutex
	cfg    Config // guarded by mu, as is all below; what was asked for last and is valid, without defaults
	first  Config // what has held since the start where a setting cannot change, without defaults
	status admin.ConfigStatus
}

func (r *reloads) begin(cfg *Config) {
	r.cfg, r.first = *cfg, *cfg
	r.status = admin.ConfigStatus{File: cfg.ConfigFile, Loaded: time.Now()}
}

// Status returns what became of the configuration.
func (r *reloads) Status() admin.ConfigStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.status
	st.Restart = slices.Clone(st.Restart)
	return st
}

// Reload takes over another configuration while requests are served, as far as it can change: read returns it. An invalid one changes
// nothing; the error says why, and so does /status. What cannot change is named there and in one warning, and stays.
func (d *Router) Reload(read func() (Config, error)) error {
	r := &d.reloads
	r.mu.Lock()
	defer r.mu.Unlock()
	cfg, err := read()
	if err == nil {
		err = d.reloadLocked(&cfg)
	}
	if err != nil {
		r.status.Failed++
		r.status.Error = err.Error()
		d.cfg.Log.Error("configuration is not reloaded; what was read before holds", "file", r.status.File, "error", err)
		return fmt.Errorf("cannot reload: %w", err)
	}
	return nil
}

// reloadLocked checks all of cfg before it changes anything.
func (d *Router) reloadLocked(cfg *Config) error {
	r := &d.reloads
	given := *cfg
	cfg.Log, cfg.Version, cfg.Cluster, cfg.Node = d.cfg.Log, d.cfg.Version, d.cfg.Cluster, d.cfg.Node
	cfg.setDefaults()
	named, err := sources(cfg)
	if err = errors.Join(err, cfg.check(), checkTLS(cfg), checkSnapshot(cfg.Snapshot), checkTokenize(cfg), checkReplicas(cfg)); err != nil {
		return err
	}
	wrapped := *cfg
	wrapped.Sticky = r.first.Sticky // which cannot change
	pick, err := newPolicy(&wrapped)
	if err != nil {
		return err
	}
	changed, more := differences(&r.cfg, &given, true), differences(&r.cfg, &given, false)
	r.status.Restart = differences(&r.first, &given, false)
	r.status.Loaded, r.status.Error = time.Now(), ""
	if len(more) > 0 && len(r.status.Restart) > 0 {
		d.cfg.Log.Warn("some settings hold after a restart only", "settings", r.status.Restart)
	}
	before := r.cfg
	r.cfg = given
	if len(changed) == 0 {
		return nil
	}
	r.status.Reloads++
	if before.Policy != given.Policy || !reflect.DeepEqual(before.Policies, given.Policies) {
		d.requests.SetPolicy(pick)
	}
	d.apply(cfg)
	d.keeper.use(append(named, d.builtIn()...))
	d.cfg.Log.Info("configuration is reloaded", "file", r.status.File, "settings", changed)
	return nil
}

// builtIn are the sources that no flag of workers names.
func (d *Router) builtIn() []discover.Source {
	all := d.nodeSources()
	if d.cfg.Cluster != nil {
		all = append(all, newClusterSource(d.cfg.Cluster, d.registry.Get, d.cfg.Log))
	}
	return all
}

// apply hands settings to the parts that they are for.
func (d *Router) apply(cfg *Config) {
	d.admin.SetKey(cfg.OperatorKey)
	d.requests.Configure(func(s *request.Config) {
		s.MaxBodyBytes, s.GzipMinBytes, s.Retries = cfg.MaxBodyBytes, cfg.GzipMinBytes, cfg.Retries
		s.Pair = request.PairConfig{Timeout: cfg.PairTimeout, PrefillTimeout: cfg.PrefillTimeout, Headers: cfg.PairHeaders}
		s.FirstByteTimeout, s.StallTimeout, s.DrainTimeout = cfg.FirstByteTimeout, cfg.StallTimeout, cfg.DrainTimeout
		s.Queue.MaxInFlight = cfg.MaxInFlight
	})
	d.registry.Configure(func(w *worker.Config) {
		w.Interval, w.Timeout, w.HangAfter = cfg.ProbeInterval, cfg.ProbeTimeout, cfg.HangAfter
	})
	d.keeper.configure(keeperConfig{Drain: cfg.DrainTimeout, Log: cfg.Log})
}

// live are the fields of Config that can change at run time, with the flags that set them. TLS files need not: they are read again when
// they change.
var live = map[string]string{
	"OperatorKey": "operator-key", "Workers": "worker", "Prefill": "prefill", "Decode": "decode", "Discover": "discover",
	"Policy": "policy", "Policies": "policy's options", "ProbeInterval": "probe-interval", "ProbeTimeout": "probe-timeout",
	"HangAfter": "hang-after", "MaxBodyBytes": "max-body-bytes", "GzipMinBytes": "gzip-min-bytes", "MaxInFlight": "max-in-flight-per-worker",
	"Retries": "retries", "PairTimeout": "pair-timeout", "PrefillTimeout": "prefill-timeout", "PairHeaders": "pair-headers",
	"FirstByteTimeout": "first-byte-timeout", "StallTimeout": "stall-timeout", "DrainTimeout": "drain-timeout",
}

// fixed are those that hold from start to end.
var fixed = map[string]string{
	"Listen": "listen", "OperatorListen": "operator-listen", "Sticky": "session-affinity", "IndexMaxBytes": "index-max-bytes",
	"ApproxMaxBytes": "approx-max-bytes", "SessionMaxBytes": "session-max-bytes", "Tokenize": "tokenize", "ForwardIDs": "forward-input-ids",
	"ModelPaths": "model-path", "QueueMax": "queue-max", "QueueTimeout": "queue-timeout", "QueueFIFO": "queue-fifo",
	"LintSample": "lint-sample", "MinUncached": "disagg-min-uncached", "HugePages": "huge-pages", "TLS": "tls-cert, tls-key or tls-client-ca",
	"WorkerTLS": "worker-ca, worker-cert, worker-key or worker-tls-insecure", "Snapshot": "snapshot",
	"SnapshotInterval": "snapshot-interval", "AccessLog": "access-log", "Replicas": "replicas", "Hints": "kv-hints", "Joined": "cluster",
	"ClusterWait": "cluster-wait", "Quarantine": "quarantine",
}

// ours are no settings.
var ours = []string{"Cluster", "Node", "ConfigFile", "Version", "Log"}

// differences names the settings, those that can change or those that cannot, in which two configurations differ.
func differences(a, b *Config, canChange bool) (names []string) {
	va, vb := reflect.ValueOf(*a), reflect.ValueOf(*b)
	for i := range va.NumField() {
		field := va.Type().Field(i).Name
		name, can := live[field]
		fa, fb := va.Field(i), vb.Field(i)
		empty := fa.Kind() == reflect.Slice && fa.Len() == 0 && fb.Len() == 0 // whether nil or not
		if can != canChange || slices.Contains(ours, field) || empty || reflect.DeepEqual(fa.Interface(), fb.Interface()) {
			continue
		}
		if !can {
			if name = fixed[field]; name == "" {
				name = field
			}
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Check says what New would refuse in a configuration, as far as that can be told without running: no file is opened for writing, and no
// port is bound.
func Check(cfg Config) error {
	cfg.setDefaults()
	_, err := sources(&cfg)
	_, policyErr := newPolicy(&cfg)
	_, _, tlsErr := loadTLS(&cfg)
	return errors.Join(cfg.check(), checkTLS(&cfg), checkSnapshot(cfg.Snapshot), checkTokenize(&cfg), checkReplicas(&cfg), err, policyErr, tlsErr)
}
