package sim

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// A decode worker checks the health of each prefill worker that it has legs with, and takes it
// for dead after two failed checks. The timeout is at least a second of the wall clock, because
// a machine that is slow for a moment is not dead.
const (
	heartbeatEvery   = 5 * time.Second
	heartbeatsMissed = 2
	heartbeatTimeout = 3 * time.Second
)

// prefillPeers are the prefill workers of a decode worker's legs.
type prefillPeers struct {
	*process
	mu     sync.Mutex
	byAddr map[string]*prefillPeer // guarded by mu
}

func newPrefillPeers(p *process) *prefillPeers {
	return &prefillPeers{process: p, byAddr: make(map[string]*prefillPeer)}
}

// prefillPeer is one prefill worker while there are legs with it.
type prefillPeer struct {
	addr string
	legs int           // guarded by prefillPeers.mu
	lost chan struct{} // Closed when it is taken for dead.
	stop context.CancelFunc

	mu        sync.Mutex
	ranks     int                 // 0: unknown.
	addresses map[int]rankAddress // by rank
}

// rankAddress is the transfer address of a prefill rank.
type rankAddress struct {
	rank int
	addr string
}

// enter returns the peer at addr and counts a leg there.
func (s *prefillPeers) enter(addr string) *prefillPeer {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.byAddr[addr]
	if p == nil {
		var ctx context.Context
		p = &prefillPeer{addr: addr, lost: make(chan struct{}), addresses: make(map[int]rankAddress)}
		ctx, p.stop = context.WithCancel(s.ctx)
		s.byAddr[addr] = p
		s.wg.Go(func() { s.watch(ctx, p) })
	}
	p.legs++
	return p
}

// exit ends a leg with p.
func (s *prefillPeers) exit(p *prefillPeer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.legs--; p.legs == 0 {
		p.stop()
		if s.byAddr[p.addr] == p {
			delete(s.byAddr, p.addr)
		}
	}
}

// watch checks p's health until its last leg ends or it is taken for dead.
func (s *prefillPeers) watch(ctx context.Context, p *prefillPeer) {
	every := time.NewTicker(max(time.Millisecond, s.cfg.real(heartbeatEvery)))
	defer every.Stop()
	for missed := 0; missed < heartbeatsMissed; {
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		once, cancel := context.WithTimeout(ctx, s.patience())
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
	if s.byAddr[p.addr] == p {
		delete(s.byAddr, p.addr) // Later legs try again.
	}
	close(p.lost)
}

// forget drops the addresses of a prefill worker that has restarted.
func (p *prefillPeer) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ranks = 0
	clear(p.addresses)
}

// find returns the transfer address of lg's prefill rank, and asks the bootstrap server if it
// is unknown.
func (p *prefillPeer) find(ctx context.Context, w *process, lg *leg) (rankAddress, error) {
	ctx, cancel := context.WithTimeout(ctx, w.patience())
	defer cancel()
	p.mu.Lock()
	ranks := p.ranks
	p.mu.Unlock()
	if ranks == 0 {
		o := fetchObject(ctx, p.addr, "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1")
		ranks = o.number("dp_size", 0)
		if page := o.number("page_size", 0); page != w.cfg.PageSize {
			o.fail(fmt.Errorf("cannot pair page sizes %d and %d: %w", page, w.cfg.PageSize, ErrConfig))
		}
		if o.err != nil || ranks < 1 {
			return rankAddress{}, fmt.Errorf("cannot read topology of %s: %w", p.addr, o.err)
		}
	}
	rank := lg.rank
	if rank < 0 {
		rank = int(lg.room % int64(ranks))
	}
	p.mu.Lock()
	p.ranks = ranks
	at, known := p.addresses[rank]
	p.mu.Unlock()
	if known {
		return at, nil
	}
	return p.ask(ctx, rank)
}

// ask requests the transfer address of one rank.
func (p *prefillPeer) ask(ctx context.Context, rank int) (at rankAddress, err error) {
	o := fetchObject(ctx, p.addr, "/route?prefill_dp_rank="+strconv.Itoa(rank)+"&prefill_cp_rank=0&target_tp_rank=0&target_pp_rank=0")
	at = rankAddress{rank, net.JoinHostPort(o.text("rank_ip", ""), strconv.Itoa(o.number("rank_port", 0)))}
	if o.err != nil {
		return rankAddress{}, o.err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addresses[rank] = at
	return at, nil
}

// fetchObject gets a JSON object.
func fetchObject(ctx context.Context, addr, path string) *object {
	status, body, err := fetch(ctx, addr, path)
	if err == nil && status != fasthttp.StatusOK {
		err = fmt.Errorf("cannot get %s%s: status %d: %w", addr, path, status, errLookup)
	}
	if err != nil {
		return &object{err: err}
	}
	return parseObject(body)
}

// oneAsk sends each request over a connection of its own, so that no goroutine outlives an answer.
var oneAsk = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// fetch sends one GET.
func fetch(ctx context.Context, addr, path string) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := oneAsk.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}
