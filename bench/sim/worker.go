package sim

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Worker is one simulated SGLang server: an HTTP server, one or more ranks, and
// their ZMQ sockets.
type Worker struct {
	cfg    Config // with the addresses that were bound; constant after New
	faults *Faults
	engine *engine
	rooms  usedRooms
	now    atomic.Pointer[engine] // for [Worker.Work], nil while the worker is away
	model  string                 // of the next life, where it is not cfg's; Run's own
}

// New binds a worker's HTTP listener and ZMQ sockets; nothing is served until
// [Worker.Run].
func New(cfg Config) (*Worker, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	w := &Worker{faults: newFaults()}
	l, err := newEngine(cfg, w.faults, &w.rooms)
	if err != nil {
		return nil, fmt.Errorf("cannot start worker on %s: %w", cfg.Listen, err)
	}
	w.engine, w.cfg = l, *l.cfg
	w.now.Store(l)
	return w, nil
}

// URL is the worker's base URL. It stays the same over restarts.
func (w *Worker) URL() string { return "http://" + w.cfg.Listen }

// Model is the served model name.
func (w *Worker) Model() string { return w.cfg.Model }

// Strangers counts the OpenAI requests for a model that the process which got them does not serve. As with SGLang they are
// answered.
func (w *Worker) Strangers() int { return int(w.faults.strangers.Load()) }

// Mode is the worker's half of a pair, "" for a whole worker.
func (w *Worker) Mode() string { return w.cfg.Mode }

// BootstrapPort is the port of a prefill worker's bootstrap server.
func (w *Worker) BootstrapPort() int { return w.cfg.BootstrapPort }

// EventsEndpoint is where rank 0 publishes its KV events, "" if nowhere.
func (w *Worker) EventsEndpoint() string { return w.endpoint(w.cfg.Events) }

// ReplayEndpoint is where rank 0 answers requests for replay, "" if nowhere.
func (w *Worker) ReplayEndpoint() string { return w.endpoint(w.cfg.Replay) }

// LoadEndpoint is where rank 0 publishes its load, "" if nowhere.
func (w *Worker) LoadEndpoint() string { return w.endpoint(w.cfg.Load) }

func (w *Worker) endpoint(e string) string {
	if e == off {
		return ""
	}
	return e
}

// Faults makes the worker fail on demand.
func (w *Worker) Faults() *Faults { return w.faults }

// Close releases what New has bound, if Run was never called.
func (w *Worker) Close() {
	if w.engine != nil {
		w.engine.kill()
		w.engine = nil
	}
}

// Run serves until ctx ends, through as many crashes and restarts as are ordered.
// It owns the worker's sockets and closes them. It may be called once.
func (w *Worker) Run(ctx context.Context) error {
	defer w.faults.timers.stop()
	defer w.faults.Unhang()
	defer w.Close()
	for {
		w.now.Store(w.engine)
		w.engine.start()
		o, ok := w.await(ctx, nil)
		w.now.Store(nil)
		w.Close()
		w.faults.Unhang() // a process that hung and was killed hangs no more
		if !ok {
			return nil
		}
		if !w.absent(ctx, o) {
			return nil
		}
		if err := w.revive(ctx); err != nil {
			return err
		}
		if w.engine == nil {
			return nil
		}
	}
}

// await returns the next order; ok is false when ctx ended.
func (w *Worker) await(ctx context.Context, timer <-chan time.Time) (o order, ok bool) {
	select {
	case o = <-w.faults.orders:
		if o.model != "" {
			w.model = o.model
		}
		return o, true
	case <-timer:
		return order{}, true
	case <-ctx.Done():
		return order{}, false
	}
}

// absent stays away as o says; false means that ctx ended meanwhile.
func (w *Worker) absent(ctx context.Context, o order) bool {
	for {
		var back <-chan time.Time
		if o.back >= 0 {
			t := time.NewTimer(o.back)
			defer t.Stop()
			back = t.C
		}
		next, ok := w.await(ctx, back)
		if !ok {
			return false
		}
		if !next.crash { // the timer
			return true
		}
		o = next // a restart of what is down already, or one more crash
	}
}

const (
	bindRetry   = 10 * time.Millisecond
	bindTimeout = time.Minute // far beyond what libzmq takes: a machine that stalls must not end a simulation
)

// revive binds the same addresses again. libzmq closes sockets in the
// background, so the first attempts may still find them taken.
func (w *Worker) revive(ctx context.Context) error {
	deadline := time.Now().Add(bindTimeout)
	cfg := w.cfg
	if w.model != "" {
		cfg.Model, cfg.ModelPath = w.model, w.model
	}
	for {
		l, err := newEngine(cfg, w.faults, &w.rooms)
		if err == nil {
			w.engine = l
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("cannot restart worker on %s: %w", w.cfg.Listen, err)
		}
		t := time.NewTimer(bindRetry)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
	}
}
