//go:build cgo

package zmq_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"

	zmq4 "github.com/pebbe/zmq4"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/zmq"
)

// connectRaw opens a socket of libzmq that connects to endpoint.
func connectRaw(t *testing.T, kind zmq4.Type, endpoint string, options ...func(*zmq4.Socket) error) *zmq4.Socket {
	t.Helper()
	c, err := zmq4.NewContext()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Term()) })
	s, err := c.NewSocket(kind)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, s.SetLinger(0))
	require.NoError(t, s.SetRcvtimeo(patience))
	for _, set := range options {
		require.NoError(t, set(s))
	}
	require.NoError(t, s.Connect(endpoint))
	return s
}

func topic(s string) func(*zmq4.Socket) error {
	return func(socket *zmq4.Socket) error { return socket.SetSubscribe(s) }
}

func requireParts(t *testing.T, s *zmq4.Socket, want ...string) {
	t.Helper()
	got, err := s.RecvMessage(0)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// TestLibzmqSubscribes: SUB sockets of libzmq receive from our publisher by topic, over tcp and
// ipc, and nothing after an unsubscription.
func TestLibzmqSubscribes(t *testing.T) {
	for _, endpoint := range []string{anyPort, freePath(t)} {
		p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: endpoint, Topic: "kv-events"})
		all := connectRaw(t, zmq4.SUB, p.Endpoint(), topic(""))
		some := connectRaw(t, zmq4.SUB, p.Endpoint(), topic("kv"), topic("kv-"), topic("load"))
		other := connectRaw(t, zmq4.SUB, p.Endpoint(), topic("load"))
		require.NoError(t, p.WaitSubscriptions(waitCtx(t), 5))
		for i, size := range []int{0, 1, 255, 256, 65535, 65536, 1 << 20} {
			payload := strings.Repeat("p", size)
			require.EqualValues(t, i, p.Publish([]byte(payload)))
			for _, s := range []*zmq4.Socket{all, some} {
				requireParts(t, s, "kv-events", string(seqFrame(uint64(i))), payload)
			}
		}
		require.NoError(t, some.SetUnsubscribe("kv"))
		require.NoError(t, some.SetUnsubscribe("kv-"))
		require.NoError(t, some.SetSubscribe("mark")) // Behind them in the same stream.
		require.NoError(t, p.WaitSubscriptions(waitCtx(t), 6))
		p.Publish([]byte("for all"))
		requireParts(t, all, "kv-events", string(seqFrame(7)), "for all")
		for _, s := range []*zmq4.Socket{some, other} {
			_, err := s.RecvBytes(zmq4.DONTWAIT)
			require.Error(t, err)
		}
	}
}

// TestLibzmqReceivesAll: 100,000 messages of all sizes, from our publisher to libzmq.
func TestLibzmqReceivesAll(t *testing.T) {
	const n = 100_000
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, Topic: "kv", BufferSteps: 1})
	s := connectRaw(t, zmq4.SUB, p.Endpoint(), topic("kv"), func(s *zmq4.Socket) error { return s.SetRcvhwm(0) })
	require.NoError(t, p.WaitSubscriptions(waitCtx(t), 1))
	rng := rand.New(rand.NewPCG(1, 2))
	pool := make([]byte, 400_000)
	for i := range pool {
		pool[i] = byte(rng.Uint32())
	}
	want := make([]uint32, n)
	for i := range want {
		size := rng.IntN(1 << rng.IntN(11))
		if i%5000 == 0 {
			size = rng.IntN(300_000)
		}
		at := rng.IntN(len(pool) - size)
		want[i] = crc32.ChecksumIEEE(pool[at : at+size])
		p.Publish(pool[at : at+size])
	}
	for i, sum := range want {
		parts, err := s.RecvMessageBytes(0)
		require.NoError(t, err)
		require.Len(t, parts, 3)
		require.Equal(t, seqFrame(uint64(i)), parts[1])
		require.Equal(t, sum, crc32.ChecksumIEEE(parts[2]))
	}
	require.Zero(t, p.Dropped())
}

// TestLibzmqHeartbeats: our publisher answers libzmq's PINGs at both sockets.
func TestLibzmqHeartbeats(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, ReplayEndpoint: anyPort, Topic: "kv"})
	for kind, endpoint := range map[zmq4.Type]string{zmq4.SUB: p.Endpoint(), zmq4.DEALER: p.ReplayEndpoint()} {
		proxy, pongs := relay(t, strings.TrimPrefix(endpoint, "tcp://"))
		s := connectRaw(t, kind, proxy,
			func(s *zmq4.Socket) error { return s.SetHeartbeatIvl(1e6) }, // 1 ms
			func(s *zmq4.Socket) error { return s.SetHeartbeatTimeout(patience) },
		)
		for range 10 {
			next(t, pongs)
		}
		require.NoError(t, s.Disconnect(proxy))
	}
}

// relay passes bytes between one client and an address, and reports each PONG on its way back.
func relay(t *testing.T, address string) (endpoint string, pongs chan struct{}) {
	t.Helper()
	pongs = make(chan struct{}, 1<<16)
	return scripted(t, func(client net.Conn) {
		server, err := new(net.Dialer).Dial("tcp", address)
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.Close()
		}()
		b := make([]byte, 4096)
		for {
			n, err := server.Read(b)
			for range bytes.Count(b[:n], []byte("\x04PONG")) {
				pongs <- struct{}{}
			}
			if _, failed := client.Write(b[:n]); failed != nil || err != nil {
				_ = client.Close()
				return
			}
		}
	}), pongs
}

// TestLibzmqAsksForReplay: a REQ socket of libzmq receives the first answer, a DEALER all of
// more than ZeroMQ queues by default, twice over one connection.
func TestLibzmqAsksForReplay(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, ReplayEndpoint: anyPort, Topic: "kv"})
	const n = 5000
	for i := range n {
		p.Publish(fmt.Append(nil, i))
	}
	req := connectRaw(t, zmq4.REQ, p.ReplayEndpoint())
	_, err := req.SendMessage(seqFrame(7))
	require.NoError(t, err)
	requireParts(t, req, "kv", string(seqFrame(7)), "7")

	dealer := connectRaw(t, zmq4.DEALER, p.ReplayEndpoint(), func(s *zmq4.Socket) error { return s.SetRcvhwm(0) })
	for range 2 {
		_, err := dealer.SendMessage("", seqFrame(0))
		require.NoError(t, err)
		for i := range n {
			requireParts(t, dealer, "", "kv", string(seqFrame(uint64(i))), strconv.Itoa(i))
		}
		requireParts(t, dealer, "", "", string(seqFrame(1<<64-1)), "")
	}
}

// TestLibzmqIsSlow: our publisher drops for a SUB socket of libzmq that does not read, and
// counts it. The rest arrives in order, up to the last message.
func TestLibzmqIsSlow(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, HWM: 100})
	s := connectRaw(t, zmq4.SUB, p.Endpoint(), topic(""), func(s *zmq4.Socket) error { return s.SetRcvhwm(10) })
	require.NoError(t, p.WaitSubscriptions(waitCtx(t), 1))
	payload := make([]byte, 16<<10)
	sent := 0
	for ; p.Dropped() < 1000; sent++ {
		p.Publish(payload)
	}
	after := ""
	for range sent - p.Dropped() {
		parts, err := s.RecvMessage(0)
		require.NoError(t, err)
		require.Greater(t, parts[1], after)
		after = parts[1]
	}
	dropped := p.Dropped()
	seq := p.Publish(payload)
	requireParts(t, s, "", string(seqFrame(seq)), string(payload))
	require.Equal(t, dropped, p.Dropped())
}
