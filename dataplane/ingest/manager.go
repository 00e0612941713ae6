package ingest

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/radix"
	"github.com/warmpath/warmpath/zmq"
)

// Subscriber follows a PUB socket until ctx ends; zmq.Subscribe is one.
type Subscriber func(ctx context.Context, s zmq.Subscription) error

// Replayer asks a replay socket for every message from a sequence on;
// zmq.Replay is one.
type Replayer func(ctx context.Context, endpoint string, from uint64, fn func(zmq.Message) error) (int, error)

// Config holds the intake's settings; zero fields take the defaults.
type Config struct {
	// Of one replay; default 20 s, for 10,000 batches from a busy engine.
	ReplayTimeout time.Duration
	// Between two resyncs for unknown parents, longer where they do not help; default 10 s.
	ResyncEvery time.Duration
	// Between two checks of a quiet stream for dropped messages; default 5 s.
	TailCheck time.Duration
	HoldBytes int // of live messages of one rank that wait for a replay; default 16 MiB
	// OnRestart, which may be nil, is called with a rank of a new process. It must not call
	// back.
	OnRestart func(*worker.Rank)
	// OnClear, which may be nil, is called with a rank that has published that its cache is
	// empty. It must not call back.
	OnClear func(*worker.Rank)
	Log     *slog.Logger
}

func (c *Config) setDefaults() {
	c.ReplayTimeout = cmp.Or(c.ReplayTimeout, 20*time.Second)
	c.ResyncEvery = cmp.Or(c.ResyncEvery, 10*time.Second)
	c.TailCheck = cmp.Or(c.TailCheck, 5*time.Second)
	c.HoldBytes = cmp.Or(c.HoldBytes, 16<<20)
	if c.Log == nil {
		c.Log = slog.Default()
	}
}

// Manager runs a stream for each rank that publishes events.
type Manager struct {
	cfg    Config
	index  *radix.Index
	sub    Subscriber
	replay Replayer
	view   atomic.Pointer[View]
	full   sync.Once // that the index is full was logged

	mu       sync.Mutex
	streams  map[*worker.Worker][]*Stream // guarded by mu
	restored map[string]*restored         // by rank, until a stream takes it over; guarded by mu
}

var _ worker.Observer = (*Manager)(nil)

// NewManager returns a manager that fills index.
func NewManager(cfg Config, index *radix.Index, sub Subscriber, replay Replayer) *Manager {
	cfg.setDefaults()
	m := &Manager{cfg: cfg, index: index, sub: sub, replay: replay}
	m.streams, m.restored = make(map[*worker.Worker][]*Stream), make(map[string]*restored)
	m.view.Store(&View{})
	return m
}

// View returns the current shapes.
func (m *Manager) View() *View { return m.view.Load() }

// Stream returns the stream of a rank, or nil when it publishes no events.
func (m *Manager) Stream(r *worker.Rank) *Stream {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.streams[r.Worker] {
		if s.rank == r {
			return s
		}
	}
	return nil
}

// Up implements worker.Observer: it begins to follow the worker's ranks.
func (m *Manager) Up(w *worker.Worker, info *worker.Info) {
	m.Down(w) // a worker that was missed going down starts from nothing too
	if info.Events == nil {
		m.cfg.Log.Info("worker publishes no KV events; its cache is estimated from its answers", "worker", w.URL)
		return
	}
	var streams []*Stream
	m.mu.Lock()
	for i, rank := range w.Ranks() {
		if i < len(info.Events.Endpoints) {
			s := newStream(m, rank, info, i)
			m.adoptLocked(s)
			streams = append(streams, s)
		}
	}
	m.streams[w] = streams
	m.shareLocked()
	m.publishLocked()
	m.mu.Unlock()
	for _, s := range streams {
		s.start()
	}
}

// Down implements worker.Observer: it forgets all that the worker held.
func (m *Manager) Down(w *worker.Worker) {
	m.mu.Lock()
	streams := m.streams[w]
	delete(m.streams, w)
	for _, s := range streams {
		s.rank.ShareEvents(time.Now(), false)
	}
	m.shareLocked()
	m.publishLocked()
	m.mu.Unlock()
	for _, s := range streams {
		s.cancel()
	}
	for _, s := range streams {
		<-s.done // its blocks are out of the index
	}
}

// shareLocked finds the ranks with an address that another process names, too: containers of one
// host that name the ports inside of them, for one.
func (m *Manager) shareLocked() {
	at := make(map[string][]*Stream)
	for _, streams := range m.streams {
		for _, s := range streams {
			at[s.endpoint] = append(at[s.endpoint], s)
			if replay := s.follower.recovery.endpoint; replay != "" && replay != s.endpoint {
				at[replay] = append(at[replay], s)
			}
		}
	}
	shared := make(map[*Stream]bool)
	for _, all := range at {
		for _, s := range all {
			if s.process == 0 && len(all) > 1 || s.process != all[0].process {
				for _, s := range all {
					shared[s] = true
				}
				break
			}
		}
	}
	now := time.Now()
	for _, streams := range m.streams {
		for _, s := range streams {
			s.rank.ShareEvents(now, shared[s])
		}
	}
}

// publish makes a new view after a change in a stream's holders or shapes.
func (m *Manager) publish() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.publishLocked()
}

func (m *Manager) publishLocked() {
	var all []*Stream
	for _, streams := range m.streams {
		all = append(all, streams...)
	}
	m.view.Store(buildView(all))
}
