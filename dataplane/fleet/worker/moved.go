package worker

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"
)

// named reports whether the worker's host is a name, whose address may change.
func (w *Worker) named() bool {
	_, err := netip.ParseAddr(w.host)
	return err != nil
}

// followName asks for the addresses of the worker's name until ctx ends. The name has moved when
// two answers in a row lack the address of the probes' connection: balancers of clouds name some
// of their addresses in each answer. A failure, or an answer without any address, says nothing.
func (m *monitor) followName(ctx context.Context, resolve func(context.Context, string) ([]netip.Addr, error), every time.Duration) {
	tick := time.NewTicker(m.offset(every))
	defer tick.Stop()
	var missing *netip.Addr // from the last answer
	warned := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			tick.Reset(every)
		}
		patient, cancel := context.WithTimeout(ctx, every)
		all, err := resolve(patient, m.w.host)
		cancel()
		at := m.w.probe.at.Load()
		if err != nil || len(all) == 0 || at == nil {
			continue
		}
		if n := countIPv4(all); !warned && max(n, len(all)-n) > 1 {
			warned = true
			m.cfg.Log.Warn("worker's name has several addresses: where they are several engines, name each of them",
				"worker", m.w.URL, "addresses", all)
		}
		switch {
		case slices.ContainsFunc(all, func(a netip.Addr) bool { return plain(a) == *at }):
			missing = nil
		case missing == nil || *missing != *at:
			missing = at
		default:
			missing = nil
			m.w.probe.moved.Store(true)
			m.w.Probe()
		}
	}
}

func countIPv4(all []netip.Addr) (n int) {
	for _, a := range all {
		if a.Unmap().Is4() {
			n++
		}
	}
	return n
}

// plain is an address in the form in which two of one host are equal.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// reached notes the address of a connection of the probes.
func (p *probed) reached(remote net.Addr) {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return
	}
	at := plain(tcp.AddrPort().Addr())
	p.at.Store(&at)
}

// redial has probes and requests connect anew, because the worker's name has moved. Requests in
// flight stay where they are.
func (m *monitor) redial() {
	from := m.w.probe.at.Swap(nil)
	if from == nil {
		return // it was done just now
	}
	m.cfg.Log.Warn("worker's name has moved to another address; new connections go there", "worker", m.w.URL, "from", from.String())
	m.moved = true
	m.probe.client.CloseIdleConnections()
	m.closeBootstrap()
	if m.cfg.Moved != nil {
		m.cfg.Moved(m.w.Addr)
	}
}
