package load

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/zmq"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

// Subscriber follows a PUB socket until ctx ends; zmq.Subscribe is one.
type Subscriber func(ctx context.Context, s zmq.Subscription) error

// Follower follows the load messages of workers.
type Follower struct {
	sub Subscriber
	log *slog.Logger

	Malformed atomic.Uint64 // messages that could not be read

	mu      sync.Mutex
	streams map[*worker.Worker]*streams // guarded by mu
}

// streams are the subscriptions of one worker.
type streams struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
}

var _ worker.Observer = (*Follower)(nil)

// New returns a follower; log may be nil.
func New(sub Subscriber, log *slog.Logger) *Follower {
	if log == nil {
		log = slog.Default()
	}
	return &Follower{sub: sub, log: log, streams: make(map[*worker.Worker]*streams)}
}

// Up implements worker.Observer.
func (f *Follower) Up(w *worker.Worker, info *worker.Info) {
	f.Down(w)
	if info == nil || info.Loads == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &streams{cancel: cancel}
	f.mu.Lock()
	f.streams[w] = s
	f.mu.Unlock()
	for i, rank := range w.Ranks() {
		if i < len(info.Loads.Endpoints) {
			s.running.Go(func() { f.follow(ctx, rank, info.Loads.Endpoints[i], info.Loads.Topic) })
		}
	}
}

// Down implements worker.Observer.
func (f *Follower) Down(w *worker.Worker) {
	f.mu.Lock()
	s := f.streams[w]
	delete(f.streams, w)
	f.mu.Unlock()
	if s != nil {
		s.cancel()
		s.running.Wait()
	}
}

func (f *Follower) follow(ctx context.Context, rank *worker.Rank, endpoint, topic string) {
	var l kvevent.Load
	err := f.sub(ctx, zmq.Subscription{
		Endpoint: endpoint, Topic: topic,
		OnMessage: func(msg zmq.Message) {
			if err := l.Decode(msg.Payload); err != nil {
				f.Malformed.Add(1)
				return
			}
			said := report(&l)
			// On other ranks waiting prompts hold no pages yet, and may be cached.
			if rank.Worker.Role() == worker.RoleDecode {
				said.Wanted = l.TotalTokens
			}
			rank.Load.Report(time.Now(), said)
		},
		OnMalformed: func(int) { f.Malformed.Add(1) },
	})
	if err != nil {
		f.log.Error("cannot subscribe to load; asking for it over HTTP", "rank", rank.ID(), "endpoint", endpoint, "error", err)
	}
}

// report converts a message.
func report(l *kvevent.Load) worker.Report {
	return worker.Report{
		Running: l.Running, Waiting: l.Waiting, Queued: l.WaitingUncached, Used: l.Tokens, Pool: l.MaxTotal, Most: l.MaxRunning,
		Prefilled: l.PrefillUncached, Busy: time.Duration(l.PrefillBusyMicros) * time.Microsecond,
	}
}
