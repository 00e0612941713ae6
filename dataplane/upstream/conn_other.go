//go:build !linux

package upstream

// vectors are not needed here.
type vectors struct{}

// peek trusts the connection: a stale one is found by the request, which is then retried.
func (cn *conn) peek(uintptr) { cn.peeked = true }

// lends says that a conn needs a buffer to wait here.
func (cn *conn) lends() bool { return false }

// quiet says that requests are written before their answers are waited for.
func (cn *conn) quiet() bool { return false }

// waitFill, tryFill and readNow are not reached where lends is false.
func (cn *conn) waitFill() error             { return nil }
func (cn *conn) tryFill(uintptr) bool        { return true }
func (cn *conn) readNow([]byte) (int, error) { return 0, nil }

// tryWrite is not reached: writeNow does not use the raw connection here.
func (cn *conn) tryWrite(uintptr) bool { return true }

// writeNow sends what fits a socket buffer; the rest is left to the writer goroutine.
func (cn *conn) writeNow() { cn.writeSmall() }
