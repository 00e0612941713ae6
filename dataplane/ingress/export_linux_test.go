package ingress

import (
	"net"
	"sync"
)

// watch is a leaver for one connection.
type watch struct{ gone func() }

func (w *watch) left() { w.gone() }

// Watch has gone called when the client of nc leaves; stop ends that.
func (w *Watcher) Watch(nc net.Conn, gone func()) (stop func(), err error) {
	reg, err := w.register(nc, &watch{gone})
	return sync.OnceFunc(func() { w.forget(reg) }), err
}
