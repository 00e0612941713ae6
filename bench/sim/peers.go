package sim

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// A decode worker asks each prefill worker that it has legs with for its health every
// heartbeat, and takes it for dead after two that failed. The timeout of one
// is at least a second of the clock: a machine that is slow for a moment is no dead worker.
const (
	heartbeatEvery   = 5 * time.Second
	heartbeatsMissed = 2
	heartbeatTimeout = 3 * time.Second
)

// peers are the prefill workers of a decode worker's legs.
type peers struct {
	mu   sync.Mutex
	life *life
	by   map[string]*peer
}

// peer is one prefill worker, as long as there are legs with it.
type peer struct {
	addr string
	legs int           // guarded by peers.mu
	lost chan struct{} // closed when it is taken for dead
	stop context.CancelFunc

	mu     sync.Mutex
	ranks  int           // 0: not known
	places map[int]place // by rank
}

// place is where a prefill rank hands over.
type place struct {
	rank int
	addr string
}

// enter returns the peer at addr and counts a leg there.
func (s *peers) enter(addr string) *peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.by[addr]
	if p == nil {
		var ctx context.Context
		p = &peer{addr: addr, lost: make(chan struct{}), places: make(map[int]place)}
		ctx, p.stop = context.WithCancel(s.life.ctx)
		s.by[addr] = p
		s.life.wg.Go(func() { s.watch(ctx, p) })
	}
	p.legs++
	return p
}

// exit ends a leg with p.
func (s *peers) exit(p *peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.legs--; p.legs == 0 {
		p.stop()
		if s.by[p.addr] == p {
			delete(s.by, p.addr)
		}
	}
}

// watch asks for p's health until its last leg ends or it is taken for dead.
func (s *peers) watch(ctx context.Context, p *peer) {
	every := time.NewTicker(max(time.Millisecond, s.life.cfg.real(heartbeatEvery)))
	defer every.Stop()
	for missed := 0; missed < heartbeatsMissed; {
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		once, cancel := context.WithTimeout(ctx, s.life.patience())
		status, _, err := fetch(once, p.addr, "/health")
		cancel()
		if missed++; err == nil && status == fasthttp.StatusOK {
			missed = 0
		}
		if ctx.Err() != nil {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[p.addr] == p {
		delete(s.by, p.addr) // legs that come now try anew
	}
	close(p.lost)
}

// patience is how long an answer of a bootstrap server may take. Where time is scaled, the machine that answers is not: one that stands still
// for a while is not dead, as a server that is gone refuses connections at once.
func (l *life) patience() time.Duration {
	if l.cfg.TimeScale > 1 {
		return max(30*time.Second, l.cfg.real(heartbeatTimeout))
	}
	return l.cfg.real(heartbeatTimeout)
}

// forget drops what was learnt of p: it has restarted elsewhere.
func (p *peer) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ranks = 0
	clear(p.places)
}

// find returns where the prefill rank of lg hands over, asking the bootstrap server for
// what is not known yet.
func (p *peer) find(ctx context.Context, l *life, lg *leg) (place, error) {
	ctx, cancel := context.WithTimeout(ctx, l.patience())
	defer cancel()
	p.mu.Lock()
	ranks := p.ranks
	p.mu.Unlock()
	if ranks == 0 {
		o, err := fetchObject(ctx, p.addr, "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1")
		if err == nil {
			ranks, err = o.number("dp_size", 0)
		}
		if page, _ := o.number("page_size", 0); err == nil && page != l.cfg.PageSize {
			err = fmt.Errorf("cannot pair page sizes %d and %d: %w", page, l.cfg.PageSize, ErrConfig)
		}
		if err != nil || ranks < 1 {
			return place{}, fmt.Errorf("cannot read topology of %s: %w", p.addr, err)
		}
	}
	rank := lg.rank
	if rank < 0 {
		rank = int(lg.room % int64(ranks))
	}
	p.mu.Lock()
	p.ranks = ranks
	at, known := p.places[rank]
	p.mu.Unlock()
	if known {
		return at, nil
	}
	return p.ask(ctx, rank)
}

// ask asks for the place of one rank.
func (p *peer) ask(ctx context.Context, rank int) (at place, err error) {
	o, err := fetchObject(ctx, p.addr, "/route?prefill_dp_rank="+strconv.Itoa(rank)+"&prefill_cp_rank=0&target_tp_rank=0&target_pp_rank=0")
	if err != nil {
		return at, err
	}
	host, err := o.text("rank_ip", "")
	if err != nil {
		return at, err
	}
	port, err := o.number("rank_port", 0)
	if err != nil {
		return at, err
	}
	at = place{rank, net.JoinHostPort(host, strconv.Itoa(port))}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.places[rank] = at
	return at, nil
}

// fetchObject gets a JSON object.
func fetchObject(ctx context.Context, addr, path string) (o object, err error) {
	status, body, err := fetch(ctx, addr, path)
	if err != nil {
		return o, err
	}
	if status != fasthttp.StatusOK {
		return o, fmt.Errorf("cannot get %s%s: status %d: %w", addr, path, status, errLookup)
	}
	return parseObject(body)
}

// fetch makes one GET on a connection of its own: fasthttp's client would keep a
// goroutine for ten seconds after the last.
func fetch(ctx context.Context, addr, path string) (status int, body []byte, err error) {
	c, stop, err := dial(ctx, addr)
	if err != nil {
		return 0, nil, err
	}
	defer c.Close()
	defer stop()
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI("http://" + addr + path)
	req.SetConnectionClose()
	w := bufio.NewWriter(c)
	if err = req.Write(w); err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = resp.Read(bufio.NewReader(c))
	}
	return resp.StatusCode(), append([]byte(nil), resp.Body()...), err
}

// dial connects to addr until ctx ends, when the connection's deadline passes as well.
func dial(ctx context.Context, addr string) (c net.Conn, stop func() bool, err error) {
	var d net.Dialer
	if c, err = d.DialContext(ctx, "tcp", addr); err != nil {
		return nil, nil, err
	}
	return c, context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) }), nil
}
