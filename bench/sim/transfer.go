package sim

import (
	"encoding/json"
	"net"
	"time"
)

// Between a decode and a prefill worker of the simulator goes one connection for each leg, with
// JSON: keys and values themselves are not sent, their time is. The decode worker sends a joining,
// and perhaps a givingUp; the prefill worker sends a handoff after the transfer. Either side may
// end it by closing, which means nothing good.

// joining is a decode worker's arrival at a room, with the number of cached tokens of its prompt.
type joining struct {
	Rank int
	Room int64
	Have int
}

// givingUp says that the decode worker does not want the request any more.
type givingUp struct{ Abort bool }

// serveTransfers serves the decode workers that connect for keys and values.
func (s *bootstrapServer) serveTransfers() {
	for {
		c, err := s.kv.Accept()
		if err != nil {
			return
		}
		s.wg.Go(func() {
			defer c.Close()
			if s.faults.awaitUnhang(s.ctx) {
				s.serveTransfer(c)
			}
		})
	}
}

// serveTransfer serves one leg of a decode worker.
func (s *bootstrapServer) serveTransfer(c net.Conn) {
	in := json.NewDecoder(c)
	var join joining
	if in.Decode(&join) != nil {
		return
	}
	m, j := roomKey{join.Rank, join.Room}, &decodeConn{cached: join.Have, kv: make(chan handoff, 1)}
	if !s.rooms.addConn(m, j) {
		return
	}
	gone := make(chan bool, 1) // Whether the decode worker has sent an abort.
	s.wg.Go(func() {
		var end givingUp
		gone <- in.Decode(&end) == nil && end.Abort
	})
	told := false
	select {
	case h := <-j.kv:
		_ = json.NewEncoder(c).Encode(h)
		_ = c.SetReadDeadline(time.Now()) // Ends the reader above.
		<-gone
	case told = <-gone:
	case <-s.ctx.Done():
	}
	s.rooms.removeConn(m, j, told)
}
