package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// names is a name server, and the network of the hosts that it names.
type names struct {
	mu     sync.Mutex
	hosts  map[string]*fake // by address
	answer []string         // dials go to the first
	failed error
	turn   bool // each answer has one of the addresses
	asked  int
}

func (n *names) set(addrs ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answer = addrs
}

func (n *names) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed = err
}

func (n *names) takeTurns() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turn = true
}

func (n *names) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	n.mu.Lock()
	host := n.hosts[netip.MustParseAddr(n.answer[0]).Unmap().String()]
	n.mu.Unlock()
	return host.dial(ctx, network, addr)
}

func (n *names) resolve(context.Context, string) (all []netip.Addr, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	for i, a := range n.answer {
		if !n.turn || n.asked%len(n.answer) == i {
			all = append(all, netip.MustParseAddr(a))
		}
	}
	return all, n.failed
}

// TestNamesThatMove: a name may lead to another address while the old one still answers.
func TestNamesThatMove(t *testing.T) {
	const from, to = "10.0.0.1", "10.0.0.2"
	tests := []struct {
		name   string
		change func(n *names)
		calls  []string
		moves  int
	}{
		{"nothing happens", func(*names) {}, []string{"up"}, 0},
		{"to another process", func(n *names) { n.set(to) }, []string{"up", "down", "up"}, 1},
		{"to the same process", func(n *names) {
			n.hosts[to].with(func() { n.hosts[to].process(17.5, "tiny") })
			n.set(to)
		}, []string{"up"}, 1},
		{"to a process that looks alike", func(n *names) { n.set(to) }, []string{"up", "down", "up"}, 1},
		{"to a host that refuses", func(n *names) { n.hosts[to].set(refusing); n.set(to) }, []string{"up", "down"}, 1},
		{"another address joins", func(n *names) { n.set(to, from) }, []string{"up"}, 0},
		{"as IPv4 in IPv6", func(n *names) { n.set("::ffff:" + from) }, []string{"up"}, 0},
		{"addresses take turns", func(n *names) { n.takeTurns(); n.set(to, from) }, []string{"up"}, 0},
		{"without an answer", func(n *names) { n.fail(errors.New("SERVFAIL")); n.set(to) }, []string{"up"}, 0},
		{"for a moment", func(n *names) {
			n.set(to)
			time.Sleep(11 * time.Second)
			n.set(from)
		}, []string{"up"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				n := &names{answer: []string{from}, hosts: map[string]*fake{from: newFake(), to: newFake()}}
				for at, f := range n.hosts {
					f.at = &net.TCPAddr{IP: net.ParseIP(at), Port: 30000}
				}
				if tt.name != "to a process that looks alike" { // of an engine that nothing identifies
					n.hosts[from].process(17.5, "tiny")
					n.hosts[to].process(18.5, "tiny")
				}
				moved := []string{}
				told := &calls{}
				r := worker.NewRegistry(worker.Config{
					Log: slog.New(slog.DiscardHandler), Dial: n.dial, Resolve: n.resolve, LoadEvery: -1,
					Moved: func(addr string) { moved = append(moved, addr) },
				}, told)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- r.Run(ctx) }()
				_, err := r.Add("http://gpu-1:30000")
				require.NoError(t, err)
				time.Sleep(12 * time.Second)
				synctest.Wait()
				tt.change(n)
				time.Sleep(45 * time.Second)
				synctest.Wait()
				require.Equal(t, tt.calls, told.all())
				require.Equal(t, slices.Repeat([]string{"gpu-1:30000"}, tt.moves), moved)
				cancel()
				require.NoError(t, <-done)
				time.Sleep(time.Minute) // the client's cleaner of connections ends
			})
		})
	}
}
