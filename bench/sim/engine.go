package sim

import (
	"context"
	"errors"
	"fmt"
)

// engine is one process of a worker, from its start to its crash.
type engine struct {
	*process
	http      *httpServer
	bootstrap *bootstrapServer // nil unless it is a prefill worker.
	ranks     []*rank
	sockets   []*sockets
}

// newEngine binds all addresses of a worker. Its configuration then holds the addresses that were
// picked, so that the next process can bind the same ones.
func newEngine(c Config, f *Faults, used *usedRooms) (*engine, error) {
	c.silent = func() bool { return f.state().silent }
	p := &process{cfg: &c, faults: f}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	ln, err := listen(c.Listen)
	if err != nil {
		p.cancel()
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	c.Listen = ln.Addr().String()
	e := &engine{process: p}
	if err := e.bind(); err != nil {
		e.kill()
		return nil, errors.Join(err, ln.Close())
	}
	receiver := &kvReceiver{process: p, peers: newPrefillPeers(p)}
	for i, s := range e.sockets {
		k := newRank(i, p.cfg, f, s.publisher(s.events), s.publisher(s.loads))
		k.legs.receive, k.legs.used = receiver.receive, used
		if e.bootstrap != nil {
			k.legs.table = e.bootstrap.rooms
		}
		e.ranks = append(e.ranks, k)
	}
	e.http = newHTTPServer(p, ln, e.ranks)
	return e, nil
}

// bind binds everything but the HTTP address.
func (e *engine) bind() (err error) {
	if e.cfg.Mode == ModePrefill {
		if e.bootstrap, err = newBootstrapServer(e.process); err != nil {
			return err
		}
	}
	e.sockets, err = openSockets(e.cfg)
	return err
}

// start runs the ranks, the sockets and the servers in the background.
func (e *engine) start() {
	if e.bootstrap != nil {
		e.bootstrap.start()
	}
	for i, k := range e.ranks {
		e.wg.Go(func() { k.run(e.ctx) })
		e.sockets[i].run(e.process)
	}
	e.http.start()
}

// kill ends everything at once, as SIGKILL does.
func (e *engine) kill() {
	if e.http != nil {
		e.http.listener.kill() // First: a handler that ends must not complete its answer.
	}
	if e.bootstrap != nil {
		e.bootstrap.kill()
	}
	e.cancel()
	for _, s := range e.sockets {
		s.close()
	}
	e.wg.Wait()
}
