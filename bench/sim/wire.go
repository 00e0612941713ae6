package sim

import (
	"bufio"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"
)

// Between a decode and a prefill worker of the simulator goes one connection for each
// leg, with lines of text: keys and values themselves are not sent, their time is.
//
//	decode:  join RANK ROOM HAVE      HAVE tokens are cached already
//	decode:  abort                    the request is given up
//	prefill: kv FIRST CACHED PROMPT   after the transfer: the first token, how many
//	                                  tokens were cached, how many there are
//
// Either side may end it by closing, which means nothing good.
const maxLine = 128

var errLine = errors.New("sim: malformed line between workers")

func appendJoin(dst []byte, m roomKey, have int) []byte {
	dst = appendInt(append(dst, "join "...), m.rank)
	dst = strconv.AppendInt(append(dst, ' '), m.room, 10)
	return append(appendInt(append(dst, ' '), have), '\n')
}

func parseJoin(line string) (m roomKey, have int, err error) {
	n, err := lineNumbers(line, "join ", 3)
	if err != nil {
		return m, 0, err
	}
	return roomKey{int(n[0]), n[1]}, int(n[2]), nil
}

func appendHandoff(dst []byte, h handoff) []byte {
	dst = appendInt(append(dst, "kv "...), int(h.first))
	dst = appendInt(append(dst, ' '), h.cached)
	return append(appendInt(append(dst, ' '), h.prompt), '\n')
}

func parseHandoff(line string) (h handoff, err error) {
	n, err := lineNumbers(line, "kv ", 3)
	if err != nil || n[0] >= vocabularySize || n[1] > n[2] {
		return h, errLine
	}
	return handoff{uint32(n[0]), int(n[1]), int(n[2])}, nil
}

// lineNumbers reads the count numbers behind word, none below 0 and each as the
// simulator would write it.
func lineNumbers(line, word string, count int) (all []int64, err error) {
	rest, ok := strings.CutPrefix(line, word)
	fields := strings.Split(rest, " ")
	if !ok || len(fields) != count {
		return nil, errLine
	}
	for _, f := range fields {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil || n < 0 || strconv.FormatInt(n, 10) != f {
			return nil, errLine
		}
		all = append(all, n)
	}
	return all, nil
}

// readLine reads a line without its end.
func readLine(in *bufio.Reader) (string, error) {
	b, err := in.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	return string(b[:len(b)-1]), nil
}

// serveTransfers serves the decode workers that come for keys and values.
func (s *bootstrapServer) serveTransfers() {
	for {
		c, err := s.kv.Accept()
		if err != nil {
			return
		}
		s.wg.Go(func() {
			defer c.Close()
			if s.faults.pass(s.ctx) {
				s.serveTransfer(c)
			}
		})
	}
}

// serveTransfer serves one leg of a decode worker.
func (s *bootstrapServer) serveTransfer(c net.Conn) {
	in := bufio.NewReaderSize(c, maxLine)
	line, err := readLine(in)
	if err != nil {
		return
	}
	m, have, err := parseJoin(line)
	if err != nil {
		return
	}
	j := &decodeConn{cached: have, kv: make(chan handoff, 1)}
	if !s.rooms.addConn(m, j) {
		return
	}
	gone := make(chan bool, 1) // whether the decode worker said so
	s.wg.Go(func() {
		line, err := readLine(in)
		gone <- err == nil && line == "abort"
	})
	told := false
	select {
	case h := <-j.kv:
		_, _ = c.Write(appendHandoff(nil, h))
		_ = c.SetReadDeadline(time.Now()) // the reader above is not needed any more
		<-gone
	case told = <-gone:
	case <-s.ctx.Done():
	}
	s.rooms.removeConn(m, j, told)
}
