package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// life is what a worker is between two crashes.
type life struct {
	cfg     *Config
	faults  *Faults
	born    time.Time
	seed    int64                   // random_seed
	weights atomic.Pointer[weights] // that are loaded
	ln      *listener
	http    *fasthttp.Server
	ranks   []*rank
	sockets []*sockets
	turn    atomic.Uint32 // of the rank that gets the next request
	busy    registry
	served  requestCounts
	dying   atomic.Bool // of a request

	desk      *roomTable // of a prefill worker
	bootstrap *listener  // of a prefill worker, nil for others
	kv        *listener  // likewise
	table     routeTable
	peers     *peers // of a decode worker

	ctx    context.Context // ends with this life
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// newLife binds everything a worker listens on. Its cfg has the addresses that it
// got, so that the next life can get the same ones.
func newLife(c Config, f *Faults, used *usedRooms) (*life, error) {
	c.silent = f.silent.Load
	cfg := &c
	raw, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	l := &life{cfg: cfg, faults: f, born: time.Now(), seed: rand.Int64N(1 << 30), ln: newListener(raw)}
	l.weights.Store(&weights{name: cfg.Model, path: cfg.ModelPath, version: "default"})
	cfg.Listen = raw.Addr().String()
	if err = l.openPairing(); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	if l.sockets, err = openSockets(cfg); err != nil {
		l.closePairing()
		return nil, errors.Join(err, raw.Close())
	}
	for i := range cfg.DPSize {
		s := l.sockets[i]
		k := newRank(i, cfg, f, s.publisher(s.events), s.publisher(s.loads))
		k.legs.table, k.legs.receive, k.legs.used = l.desk, l.receive, used
		l.ranks = append(l.ranks, k)
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.http = newServer(l)
	return l, nil
}

// start runs the ranks, the sockets and the HTTP server in the background.
func (l *life) start() {
	if l.bootstrap != nil {
		l.startPairing()
	}
	for i := range l.ranks {
		l.wg.Go(func() { l.ranks[i].run(l.ctx) })
		l.sockets[i].run(l)
	}
	l.wg.Go(func() {
		if err := l.http.Serve(l.ln); err != nil && l.ctx.Err() == nil {
			l.cfg.Log.Error("http server ended", "listen", l.cfg.Listen, "error", err)
		}
	})
}

// kill ends everything at once, in the middle of whatever it does.
func (l *life) kill() {
	l.ln.kill() // first: a handler that ends must not end its answer in order
	l.closePairing()
	l.cancel()
	for _, s := range l.sockets {
		s.close()
	}
	l.wg.Wait()
}

// pick is the rank for a request that names none: in turn, as SGLang does.
func (l *life) pick() *rank {
	return l.ranks[int(l.turn.Add(1)-1)%len(l.ranks)]
}
