package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// monitor watches one worker. Only its run goroutine probes, changes the probed state and calls
// the observer.
type monitor struct {
	r      *Registry
	w      *Worker
	cfg    *Config // as of the last probe
	cancel context.CancelFunc
	done   chan struct{}
	number uint64 // of the worker, in the order of addition

	probe     *prober
	bootstrap *prober   // of a prefill worker's bootstrap server; nil: not asked yet
	poller    *poller   // while known
	known     bool      // the observer's last call was Up
	since     time.Time // of that call
	failing   time.Time // first of the unanswered probes in a row
	gaveUp    bool      // this hang was logged

	checked time.Time     // whether the process is still the known one
	wait    time.Duration // between two such checks
	conn    uint64        // number of the probes' connection at the last check
	moved   bool          // since then it leads to another address

	reported   error     // last discovery error that was logged
	mode       string    // disaggregation_mode by the worker itself
	contrary   bool      // that the worker and its spec differ was logged
	refused    time.Time // when the worker was last asked for a description that it did not give
	asked      time.Time // when it was last asked for its vocabulary
	asks       int       // how often
	gaveUpFor  int64     // the death of its GPUs after which requests were given up
	factsStale bool      // stale facts about its GPUs were logged
	aside      []asideField
}

func (m *monitor) run(ctx context.Context) {
	defer close(m.done)
	if m.cfg.Resolve != nil && m.w.named() {
		var follower sync.WaitGroup
		defer follower.Wait()
		resolve, every := m.cfg.Resolve, m.cfg.LookEvery
		follower.Go(func() { m.followName(ctx, resolve, every) })
	}
	defer func() { m.probe.client.CloseIdleConnections() }()
	defer m.closeBootstrap()
	defer m.down()
	tick := time.NewTicker(m.offset(m.cfg.Interval))
	defer tick.Stop()
	apart := false // in time from the probes of workers added together
	for {
		if cfg := m.r.cfg.Load(); cfg != m.cfg {
			m.configure(ctx, cfg, tick)
		}
		m.w.key.Store(m.cfg.Key(m.w.URL))
		if m.w.probe.moved.Swap(false) {
			m.redial()
		}
		err := m.probe.ready()
		if ctx.Err() != nil { // a canceled probe proves nothing
			return
		}
		m.step(ctx, err)
		m.checkGPUs(time.Now())
		m.r.compare(time.Now())
		m.logAside()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if !apart {
				tick.Reset(m.cfg.Interval)
				apart = true
			}
		case <-m.w.probe.now:
		case <-m.suspicionTimer(time.Now()):
		}
	}
}

// offset is the time from the first probe to the second, or to the first look at a name. All
// workers of a list are probed at once at first, so that routing can begin; a hundred probes at one
// instant, four times a second, would delay requests. Multiples of the golden ratio spread any
// number of workers evenly over the interval, without chance.
func (m *monitor) offset(interval time.Duration) time.Duration {
	const golden = 0.6180339887498949
	_, turn := math.Modf(float64(m.number) * golden)
	return time.Duration((1 - turn) * float64(interval))
}

// step takes in one probe's result. The state is published before the
// observer hears of a death: to forget a large cache takes a while, and
// meanwhile nothing more must be sent to where it was.
func (m *monitor) step(ctx context.Context, err error) {
	state := classify(err)
	if state == Probing && m.known { // a proxy may keep its connection while the process changes
		m.w.probe.suspected.Store(true)
	}
	if errors.Is(err, errForeignServer) && m.reported == nil {
		m.reported = err
		m.cfg.Log.Warn("worker is no model server", "worker", m.w.URL, "is", m.probe.engine, "error", err)
	}
	if m.w.specChanged.Swap(false) && m.known {
		m.reconsider()
	}
	if state == Ready && !m.known {
		if err = m.discover(ctx); err != nil {
			state = Probing
		}
	}
	if state == Ready && m.known {
		m.retryDescription(ctx, time.Now())
	}
	if state == Ready && m.known && m.suspected() && m.w.probe.suspectAfter(time.Now()) <= 0 {
		err = m.recognize(ctx)
		state = classify(err)
	}
	if state == Ready && m.w.Role() == RolePrefill {
		err = m.checkBootstrap(ctx)
		state = classify(err)
	}
	if ctx.Err() != nil { // as above
		return
	}
	if info := m.w.Info(); m.known && info.Refused != 0 { // the reason for whatever else is wrong
		err = errors.New("worker: it is " + info.Engine)
	}
	m.w.probe.failed.Store(&err)
	if state == Ready {
		m.w.probe.alive.Store(time.Now().UnixNano())
		m.learnVocabulary(time.Now())
	}
	m.become(state)
	if state == Slow {
		m.slow()
		return
	}
	m.failing, m.gaveUp = time.Time{}, false
	if state == Dead {
		m.w.waiting.giveUp(true)
		m.down()
		m.closeBootstrap()
		m.probe.path = readyPaths[0] // the next process may be another release
	}
}

// become publishes a state.
func (m *monitor) become(state State) {
	old := m.w.setState(state)
	if state == Ready && (old == Probing || old == Dead) {
		m.w.Breaker.Reset() // the faults were before
	}
	if old != state {
		level := slog.LevelInfo
		if state == Dead { // a restart does it too, but operators look for it among the warnings
			level = slog.LevelWarn
		}
		m.cfg.Log.Log(context.Background(), level, "worker changed state", "worker", m.w.URL, "state", state.String(), "error", m.w.LastError())
	}
}

// discover reads the worker's description and calls the observer. Without a description the
// router cannot route, so the worker is not ready yet.
func (m *monitor) discover(ctx context.Context) error {
	m.checking()
	info, err := m.probe.discover(discoverTimeout)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		m.w.probe.suspected.Store(true)
		if m.reported == nil {
			m.cfg.Log.Warn("worker is ready but does not describe itself", "worker", m.w.URL, "error", err)
		}
		m.reported = err
		return err
	}
	m.reported = nil
	m.adopt(ctx, info)
	return nil
}

// adopt begins the life of a process that has described itself.
func (m *monitor) adopt(ctx context.Context, info *Info) {
	if old := m.w.Info(); old != nil && info.Process != 0 && info.sameProcess(old) {
		info.keepNames(old) // it was out of reach, and lives
	}
	m.mode, m.moved = info.Mode, false
	info.Vocabulary = m.probe.vocabulary(info)
	m.asks, m.asked, m.refused = 1, time.Now(), time.Now()
	switch {
	case info.Refused != 0:
		m.cfg.Log.Warn("worker does not describe itself without its API key", "worker", m.w.URL, "is", info.Engine, "means", info.Consequence())
	case info.Engine != "":
		m.cfg.Log.Warn("worker is no SGLang", "worker", m.w.URL, "is", info.Engine, "means", info.Consequence())
	}
	m.applySpec(info)
	m.w.info.Store(info)
	if len(m.w.Ranks()) != info.DPSize {
		ranks := newRanks(m.w, info.DPSize, &m.r.numbers)
		m.w.ranks.Store(&ranks)
	}
	for _, rank := range m.w.Ranks() {
		rank.Load.setChunk(info.Chunk)
	}
	m.r.publish()
	m.known, m.since = true, time.Now()
	if m.cfg.LoadEvery > 0 {
		m.poller = startPoller(ctx, m.w, m.cfg)
	}
	if m.r.observer != nil {
		m.r.observer.Up(m.w, info)
	}
}

// reconsider takes in a new spec of a worker that has described itself. The process is the same:
// observers are not called.
func (m *monitor) reconsider() {
	info := *m.w.Info()
	info.Mode, m.contrary = m.mode, false
	m.applySpec(&info)
	m.w.info.Store(&info)
	m.r.publish()
}

// configure takes over settings that have changed.
func (m *monitor) configure(ctx context.Context, cfg *Config, tick *time.Ticker) {
	m.cfg = cfg
	path := m.probe.path
	m.probe.client.CloseIdleConnections()
	m.probe = newWatcher(ctx, m.w, cfg)
	m.probe.path, m.conn = path, 0
	m.closeBootstrap()
	tick.Reset(cfg.Interval)
}

// worked reports whether an answer of the worker has gone on since the last call: then it is busy
// and does not hang.
func (m *monitor) worked(now time.Time) (is bool) {
	for _, r := range m.w.Ranks() {
		is = r.Load.workedSince(r.look) || is
		r.look = r.Load.Look(now)
	}
	return is
}

// slow counts how long the worker has not answered.
func (m *monitor) slow() {
	now := time.Now()
	if worked := m.worked(now); worked || m.failing.IsZero() {
		m.failing = now
	}
	if now.Sub(m.failing) < m.cfg.HangAfter {
		return
	}
	if !m.gaveUp {
		m.gaveUp = true
		m.cfg.Log.Warn("worker hangs; its waiting requests go to other workers, if there are any", "worker", m.w.URL)
	}
	// After each probe: for requests that came since, and for ones that another worker can take
	// only now.
	m.w.waiting.giveUp(false)
}

// down tells the observer that the worker's cache is gone.
func (m *monitor) down() {
	if !m.known {
		return
	}
	m.known = false
	if m.poller != nil {
		m.poller.stop()
		m.poller = nil
	}
	for _, rank := range m.w.Ranks() {
		rank.Load.Forget()
		rank.Trust.Forget()
		rank.Events.forget()
		rank.fullSpeed.Store(0)
	}
	if m.r.observer != nil {
		m.r.observer.Down(m.w)
	}
}

// applySpec completes a description by the worker's spec, and logs once where the two differ.
func (m *monitor) applySpec(info *Info) {
	want := m.w.Spec()
	switch {
	case want.Role == RoleRegular: // any role
	case info.Mode == "":
		info.Mode = want.Role.mode() // a release without the field
	case info.Role() != want.Role && !m.contrary:
		m.contrary = true
		m.cfg.Log.Warn("worker has another role than it was added with; its own counts", "worker", m.w.URL, "added_as", want.Role.String(), "says", info.Role().String())
	}
	port, own := want.Bootstrap.Port, info.BootstrapPort
	if port != 0 && info.Role() == RolePrefill && own != 0 && own != port && want.Bootstrap.Host == "" && !m.contrary {
		m.contrary = true
		m.cfg.Log.Warn("prefill worker names another bootstrap port; the given one counts", "worker", m.w.URL, "given", port, "says", own)
	}
}

// bootstrapPath asks for the topology of a whole prefill worker. Its answer is 503 until every
// rank has registered; the worker's own /ready is 200 earlier, when a decode worker would still
// wait for a missing rank.
const bootstrapPath = "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"

// checkBootstrap returns nil when decode workers can meet the worker. A bootstrap server that is
// gone is no death: the worker's process lives, and its cache with it.
func (m *monitor) checkBootstrap(ctx context.Context) error {
	addr := m.w.Bootstrap().Addr()
	if m.bootstrap == nil || m.bootstrap.client.Addr != addr {
		m.closeBootstrap()
		if addr == m.w.Addr { // SGLang's server in Rust has both on one port
			m.bootstrap = newProber(ctx, m.w, m.cfg)
		} else {
			m.bootstrap = proberOf(ctx, "http://"+addr, addr, nil, m.cfg)
		}
	}
	a, err := m.bootstrap.fetch(bootstrapPath, m.bootstrap.timeout)
	switch {
	case err == nil && a.status == fasthttp.StatusOK:
		return nil
	case err == nil:
		return fmt.Errorf("cannot use prefill worker, GET /route of its bootstrap server %s answered %d: %w", addr, a.status, errNotReady)
	case timedOut(err):
		return fmt.Errorf("cannot use prefill worker, its bootstrap server %s: %w", addr, err)
	default:
		return fmt.Errorf("cannot use prefill worker, its bootstrap server %s: %w: %w", addr, errNotReady, err)
	}
}

func (m *monitor) closeBootstrap() {
	if m.bootstrap != nil {
		m.bootstrap.client.CloseIdleConnections()
		m.bootstrap = nil
	}
}

// asideField is a field of a rank's load reports, or "" for its KV events, that the log calls set
// aside.
type asideField struct {
	rank  *Rank
	field string
}

// logAside logs each field once when it is set aside, and once when it counts again.
func (m *monitor) logAside() {
	var now []asideField
	for _, rank := range m.w.Ranks() {
		if m.known && time.Since(m.since) > newFor {
			rank.Events.known()
		}
		if fault := rank.Events.Fault(); fault != NoEventFault {
			events := asideField{rank, ""}
			if now = append(now, events); !slices.Contains(m.aside, events) {
				m.cfg.Log.Warn("a rank's KV events are set aside; it is known by the requests sent to it and by their answers until they are right",
					"rank", rank.ID(), "why", fault.Why())
			}
		}
		for _, s := range rank.Load.SetAside() {
			field := asideField{rank, s.Field}
			if now = append(now, field); !slices.Contains(m.aside, field) {
				m.cfg.Log.Warn("a rank's load report contradicts the router's account; the field is set aside", "rank", rank.ID(),
					"field", s.Field, "why", s.Why, "reported", s.Reported, "instead", s.Instead)
			}
		}
	}
	for _, a := range m.aside {
		switch {
		case slices.Contains(now, a):
		case a.field == "":
			m.cfg.Log.Info("a rank's KV events are believed again", "rank", a.rank.ID())
		default:
			m.cfg.Log.Info("a rank's load report is believed again", "rank", a.rank.ID(), "field", a.field)
		}
	}
	m.aside = now
}
