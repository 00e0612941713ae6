package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/nixl"
)

const (
	// minPause and maxPause bound the pause after a failed connection attempt.
	minPause, maxPause = 200 * time.Millisecond, 5 * time.Second
	maxPulls           = 256 // waiting for one peer
)

// peer is a store that this one asks and pulls from. Its goroutine, run, makes the connections and
// does the pulls.
type peer struct {
	Peer

	client *peerClient
	stop   context.CancelFunc
	pulls  chan *pull
	wake   chan struct{} // capacity 1: the connection for questions has ended
	gone   chan struct{} // closed when run has ended

	asking chan struct{} // capacity 1: its sender owns ask, for one question
	ask    *link
	up     atomic.Bool // ask is connected
	rate   rate        // of pulls
	tried  atomic.Int64

	// The rest belongs to run.
	pullLink *link
	remote   *nixl.Remote
	loaded   uint64 // instance of the metadata of remote
}

// run keeps the connection for questions, and pulls.
func (p *peer) run(ctx context.Context) {
	defer p.drain()
	defer close(p.gone) // a pull that is queued after this is drained by its sender
	defer p.close()
	pause := minPause
	retry := time.NewTimer(0)
	defer retry.Stop()
	check := time.NewTicker(time.Second)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-p.pulls:
			p.pull(ctx, q)
		case <-check.C:
			p.check()
		case <-p.wake:
			retry.Reset(pause)
		case <-retry.C:
			if p.up.Load() {
				continue
			}
			if err := p.connect(ctx); err != nil {
				p.client.security.refused("a peer's KV tier is out of reach", p.Name, err)
				retry.Reset(pause)
				pause = min(pause*2, maxPause)
				continue
			}
			pause = minPause
		}
	}
}

// connect makes the connection for questions.
func (p *peer) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	l, err := p.client.dial(ctx, p.Endpoint)
	if err != nil {
		return err
	}
	if l.welcome.instance == p.client.instance {
		l.close()
		return fmt.Errorf("%w: the peer %s is this store itself", ErrConfig, p.Endpoint)
	}
	p.asking <- struct{}{}
	p.ask = l
	<-p.asking
	p.up.Store(true)
	return nil
}

// question sends a question with f. Ranks of one engine ask at the same moment, and take turns. It
// reports whether the peer has answered.
func (p *peer) question(ctx context.Context, f func(l *link) error) bool {
	select {
	case p.asking <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-p.asking }()
	if p.ask == nil {
		return false
	}
	if f(p.ask) != nil {
		p.dropAsk()
		return false
	}
	return true
}

// has asks for the number of leading pages that the peer holds.
func (p *peer) has(ctx context.Context, r *pageRequest) (n int) {
	answered := p.question(ctx, func(l *link) error {
		body, _, err := l.call(ctx, opHas, r.encode())
		if err == nil {
			n, err = parseCount(body, len(r.hashes))
		}
		return err
	})
	if !answered {
		return 0
	}
	return n
}

// tell tells the peer of clears. After a failure it learns of them when it connects.
func (p *peer) tell(ctx context.Context, c clears) bool {
	return p.question(ctx, func(l *link) error { return p.client.exchange(ctx, l, c) })
}

// dropAsk ends the connection for questions, so that run makes another. The caller owns ask.
func (p *peer) dropAsk() {
	if p.ask == nil {
		return
	}
	p.ask.close()
	p.ask = nil
	p.up.Store(false)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// check drops a connection that the peer has closed, so that the first question after its restart
// is not lost.
func (p *peer) check() {
	select {
	case p.asking <- struct{}{}:
		if p.ask != nil && p.ask.ended() {
			p.dropAsk()
		}
		<-p.asking
	default: // a question under way finds out
	}
}

// close ends the connections.
func (p *peer) close() {
	p.up.Store(false)
	p.asking <- struct{}{}
	p.dropAsk()
	<-p.asking
	p.dropPull(nil)
}

// dropPull ends the connection for pulls, and after a failure of NIXL also its knowledge of the
// peer.
func (p *peer) dropPull(reason error) {
	if p.pullLink != nil {
		p.pullLink.close()
		p.pullLink = nil
	}
	if p.remote != nil && (reason == nil || errors.Is(reason, nixl.ErrPeer) || errors.Is(reason, nixl.ErrTimeout)) {
		p.remote.Close()
		p.remote = nil
	}
}

// drain ends the queued pulls.
func (p *peer) drain() {
	for {
		select {
		case q := <-p.pulls:
			p.client.incoming.end(q)
		default:
			return
		}
	}
}
