package discover_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/warmpath/warmpath/dataplane/fleet/discover"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// nameServer answers every question over UDP and TCP of one port as a test scripts it.
type nameServer struct {
	t    *testing.T
	addr string

	mu      sync.Mutex
	code    dnsmessage.RCode
	targets []string // host:port
	silent  bool
	asked   map[string]int // by network
}

func newNameServer(t *testing.T) *nameServer {
	t.Helper()
	s := &nameServer{t: t, asked: map[string]int{}}
	var udp net.PacketConn
	var tcp net.Listener
	for range 100 { // until one port is free for both
		var err error
		udp, err = net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		if tcp, err = net.Listen("tcp", udp.LocalAddr().String()); err == nil {
			break
		}
		require.NoError(t, udp.Close())
	}
	require.NotNil(t, tcp)
	s.addr = tcp.Addr().String()
	var running sync.WaitGroup
	running.Go(func() { s.serveUDP(udp) })
	running.Go(func() { s.serveTCP(tcp) })
	t.Cleanup(func() {
		_ = udp.Close()
		_ = tcp.Close()
		running.Wait()
	})
	return s
}

func (s *nameServer) serveUDP(conn net.PacketConn) {
	buf := make([]byte, 4096)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		reply := s.reply("udp", buf[:n])
		if reply == nil {
			continue
		}
		wrong := append([]byte(nil), reply...)
		wrong[0]++ // an answer to another question comes first
		_, _ = conn.WriteTo(wrong, from)
		_, _ = conn.WriteTo(reply, from)
	}
}

func (s *nameServer) serveTCP(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err == nil {
			question := make([]byte, binary.BigEndian.Uint16(length[:]))
			if _, err := io.ReadFull(conn, question); err == nil {
				reply := s.reply("tcp", question)
				_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
			}
		}
		_ = conn.Close()
	}
}

func (s *nameServer) reply(network string, question []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[network]++
	var m dnsmessage.Message
	if s.silent || m.Unpack(question) != nil {
		return nil
	}
	reply := answerTo(s.t, m.ID, m.Questions[0], s.code, s.targets)
	if network == "udp" && len(reply) > 1232 {
		cut := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, Truncated: true}, Questions: m.Questions}
		reply, _ = cut.Pack()
	}
	return reply
}

func answerTo(t *testing.T, id uint16, q dnsmessage.Question, code dnsmessage.RCode, targets []string) []byte {
	t.Helper()
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: id, Response: true, RCode: code}, Questions: []dnsmessage.Question{q}}
	head := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 5}
	m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.TXTResource{TXT: []string{"no business of ours"}}})
	for i, target := range targets {
		host, port, err := net.SplitHostPort(target)
		require.NoError(t, err)
		var n uint16
		_, err = fmt.Sscan(port, &n)
		require.NoError(t, err)
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.SRVResource{
			Priority: uint16(i), Weight: 1, Port: n, Target: dnsmessage.MustNewName(host + "."),
		}})
	}
	packed, err := m.Pack()
	require.NoError(t, err)
	return packed
}

func (s *nameServer) set(code dnsmessage.RCode, targets ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code, s.targets = code, targets
}

// askedAgain waits for two more questions: the first may have got the earlier answer.
func (s *nameServer) askedAgain(t *testing.T) {
	t.Helper()
	count := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.asked["udp"]
	}
	before := count()
	await(t, "two questions", func() bool { return count() >= before+2 })
}

func TestSRV(t *testing.T) {
	ns := newNameServer(t)
	ns.set(dnsmessage.RCodeNameError)
	d, s := follow(t, "dns-srv:prefill:_sglang._tcp.workers.example?interval=100ms&server="+ns.addr)
	troubled(t, s, "NameError")
	require.Zero(t, d.count(), "no name is no answer")

	ns.set(dnsmessage.RCodeSuccess, "W2.example:30000", "w1.example:30001", "w1.example:30001")
	got := d.tells(t, "http://w1.example:30001", "http://w2.example:30000")
	require.Equal(t, worker.RolePrefill, got[0].Role)
	troubled(t, s, "")

	for code, words := range map[dnsmessage.RCode]string{
		dnsmessage.RCodeServerFailure: "ServerFailure", dnsmessage.RCodeNameError: "NameError", dnsmessage.RCodeRefused: "Refused",
	} {
		ns.set(code)
		troubled(t, s, words)
		ns.askedAgain(t)
	}
	require.Equal(t, 1, d.count(), "a failed look-up keeps the last set, and one that says nothing new is no news")

	ns.set(dnsmessage.RCodeSuccess)
	d.tells(t)
	ns.set(dnsmessage.RCodeSuccess, "w3.example:1")
	d.tells(t, "http://w3.example:1")
	require.Equal(t, 3, d.count())
}

// TestSRVOverTCP has more workers than fit into a UDP answer.
func TestSRVOverTCP(t *testing.T) {
	ns := newNameServer(t)
	var targets, want []string
	for i := range 200 {
		targets = append(targets, fmt.Sprintf("w%03d.example:30000", i))
		want = append(want, "https://"+targets[i])
	}
	ns.set(dnsmessage.RCodeSuccess, targets...)
	d, _ := follow(t, "dns-srv:_x._tcp.workers.example?scheme=https&server="+ns.addr)
	d.tells(t, want...)
	ns.mu.Lock()
	defer ns.mu.Unlock()
	require.Positive(t, ns.asked["tcp"])
}

// TestSRVSilence ends while no server answers.
func TestSRVSilence(t *testing.T) {
	ns := newNameServer(t)
	ns.mu.Lock()
	ns.silent = true
	ns.mu.Unlock()
	d, s := follow(t, "dns-srv:_x._tcp.workers.example?interval=100ms&server="+ns.addr)
	troubled(t, s, "timeout")
	require.Zero(t, d.count())
}

// FuzzSRVAnswer reads answers of a second implementation: intact ones yield all records, cut or
// changed ones never more.
func FuzzSRVAnswer(f *testing.F) {
	f.Add([]byte{1, 2, 3}, uint16(0), byte(0))
	f.Add([]byte{}, uint16(40), byte(255))
	f.Fuzz(func(t *testing.T, ports []byte, at uint16, change byte) {
		name := "_x._tcp.example."
		var targets []string
		for i, p := range ports[:min(len(ports), 64)] {
			targets = append(targets, fmt.Sprintf("w%d.example:%d", i, int(p)+1))
		}
		q := dnsmessage.Question{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeSRV, Class: dnsmessage.ClassINET}
		reply := answerTo(t, 7, q, dnsmessage.RCodeSuccess, targets)
		got, truncated, err := discover.SRVAnswer(reply, name)
		require.NoError(t, err)
		require.False(t, truncated)
		require.Equal(t, len(targets), len(got))
		for i := range got {
			require.Equal(t, targets[i], got[i])
		}
		if int(at) < len(reply) {
			_, _, err := discover.SRVAnswer(reply[:at], name)
			require.Error(t, err, "cut at %d of %d", at, len(reply))
			reply[at] ^= change // must not panic
			_, _, _ = discover.SRVAnswer(reply, name)
		}
	})
}
