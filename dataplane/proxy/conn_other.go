//go:build !linux

package proxy

// vectors are not needed here.
type vectors struct{}

// peek trusts the connection: a stale one is found by the request, which is then retried.
func (cn *conn) peek(uintptr) { cn.peeked = true }

// tryWrite is not reached: writeNow does not use the raw connection here.
func (cn *conn) tryWrite(uintptr) bool { return true }

// writeNow sends what fits a socket buffer; the rest is left to the writer goroutine.
func (cn *conn) writeNow() { cn.writeSmall() }
