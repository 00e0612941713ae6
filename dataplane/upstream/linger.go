package upstream

import (
	"bufio"
	"io"
	"time"

	"github.com/valyala/fasthttp"
)

// Limits of Linger: what a client may still send of a body that was refused.
const (
	lingerTime  = 2 * time.Second
	lingerBytes = 256 << 20
)

// Linger sends the answer to a request whose body will not be read, and then
// reads on until the client has seen it. Closing a connection with unread
// bytes resets it, and a reset discards the answer on its way to the client:
// people would see "connection reset" where they should see a 413. What
// fasthttp sends after this goes to a closed socket.
func Linger(ctx *fasthttp.RequestCtx) {
	conn := ctx.Conn()
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || conn.SetDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	ctx.SetConnectionClose()
	w := bufio.NewWriter(conn)
	if ctx.Response.Write(w) != nil || w.Flush() != nil || half.CloseWrite() != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, lingerBytes)) // ends with the client, or by the deadline
}
