//go:build cgo

package zmq_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	zmq4 "github.com/pebbe/zmq4"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/zmq"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

// publishElsewhere starts it and returns its endpoint.
func publishElsewhere(b *testing.B, size int, every time.Duration) string {
	b.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(b.Context()), os.Args[0])
	cmd.Env = append(os.Environ(), publishEnv+"="+strconv.Itoa(size)+" "+strconv.Itoa(int(every.Microseconds())))
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		require.NoError(b, in.Close())
		require.NoError(b, cmd.Wait())
	})
	endpoint, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(b, err)
	return strings.TrimSpace(endpoint)
}

// receivers are the two subscribers compared: ours, and a SUB socket of libzmq read as well as
// Go can.
var receivers = map[string]func(b *testing.B, endpoint string, fn func()) (stop func()){
	"go": func(b *testing.B, endpoint string, fn func()) func() {
		b.Helper()
		return start(b, func(ctx context.Context) error {
			return zmq.Subscribe(ctx, zmq.Subscription{Endpoint: endpoint, OnMessage: func(zmq.Message) { fn() }})
		})
	},
	"libzmq": func(b *testing.B, endpoint string, fn func()) func() {
		b.Helper()
		c, err := zmq4.NewContext()
		require.NoError(b, err)
		s, err := c.NewSocket(zmq4.SUB)
		require.NoError(b, err)
		require.NoError(b, s.SetSubscribe(""))
		require.NoError(b, s.SetRcvtimeo(time.Second))
		require.NoError(b, s.Connect(endpoint))
		return start(b, func(ctx context.Context) error {
			for ctx.Err() == nil {
				if parts, err := s.RecvMessageBytes(0); err == nil && len(parts) == 3 {
					fn()
				}
			}
			if err := s.Close(); err != nil {
				return err
			}
			return c.Term()
		})
	},
}

// usage is the CPU that this process has used, and how often one of its threads went to sleep.
func usage(b *testing.B) (cpu time.Duration, sleeps int64) {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), u.Nvcsw
}

// BenchmarkReceive measures this process's CPU for each message, with the kernel's half of the
// copies, and its sleeps. rate=0 is as fast as possible; the other rate is that of a busy
// engine.
func BenchmarkReceive(b *testing.B) {
	event := kvevent.Event{Kind: kvevent.Stored, Medium: kvevent.MediumGPU, BlockSize: 16}
	for i := range uint32(32 * 16) {
		event.Tokens = append(event.Tokens, i*i*7919%128_000)
	}
	event.Hashes = sglangHashes(event.Tokens, event.BlockSize, "")
	hashes32 := len(kvevent.Append(nil, &kvevent.Batch{Events: []kvevent.Event{event}}, kvevent.SGLang0523))
	for _, size := range []int{1024, hashes32} {
		for _, every := range []time.Duration{0, 2 * time.Millisecond} {
			for _, name := range []string{"go", "libzmq"} {
				rate := 0
				if every > 0 {
					rate = int(time.Second / every)
				}
				b.Run(fmt.Sprintf("payload=%d/rate=%d/%s", size, rate, name), func(b *testing.B) {
					endpoint := publishElsewhere(b, size, every)
					left, first, done := b.N, make(chan struct{}), make(chan struct{})
					stop := receivers[name](b, endpoint, func() {
						switch left--; left {
						case b.N - 1:
							close(first)
						case -1: // The first one only says that it runs.
							close(done)
						}
					})
					next(b, first)
					cpu, sleeps := usage(b)
					b.ResetTimer()
					<-done
					b.StopTimer()
					cpuEnd, sleepsEnd := usage(b)
					stop()
					b.ReportMetric(float64(cpuEnd-cpu)/float64(b.N), "cpu-ns/msg")
					b.ReportMetric(float64(sleepsEnd-sleeps)/float64(b.N), "sleeps/msg")
				})
			}
		}
	}
}

// sglangHashes returns the hashes of tokens' whole pages.
func sglangHashes(tokens []uint32, pageSize int, salt string) (hashes []uint64) {
	c := kvevent.NewChain(salt)
	for ; len(tokens) >= pageSize; tokens = tokens[pageSize:] {
		hashes = append(hashes, c.Next(tokens[:pageSize]))
	}
	return hashes
}

// BenchmarkPublish measures this process's CPU for each message to one subscriber, which reads 50
// messages at once, for our publisher and libzmq's.
func BenchmarkPublish(b *testing.B) {
	publishers := map[string]func(b *testing.B) (endpoint string, publish func([]byte)){
		"go": func(b *testing.B) (string, func([]byte)) {
			b.Helper()
			p, _ := newPublisher(b, zmq.PublisherConfig{Endpoint: anyPort, Topic: "kv"})
			return p.Endpoint(), func(payload []byte) { p.Publish(payload) }
		},
		"libzmq": func(b *testing.B) (string, func([]byte)) {
			b.Helper()
			s, endpoint := rawSocket(b, zmq4.PUB)
			seq := uint64(0)
			return endpoint, func(payload []byte) {
				_, err := s.SendMessage("kv", seqFrame(seq), payload)
				require.NoError(b, err)
				seq++
			}
		},
	}
	const burst = 50
	for _, size := range []int{1024, 85 << 10} {
		for _, name := range []string{"go", "libzmq"} {
			b.Run(fmt.Sprintf("payload=%d/%s", size, name), func(b *testing.B) {
				endpoint, publish := publishers[name](b)
				got, probed := make(chan struct{}, burst), make(chan struct{}, 1)
				subscribe(b, zmq.Subscription{Endpoint: endpoint, Topic: "kv", OnMessage: func(m zmq.Message) {
					if len(m.Payload) > 0 {
						got <- struct{}{}
						return
					}
					select {
					case probed <- struct{}{}:
					default:
					}
				}})
				for publish(nil); len(probed) == 0; publish(nil) { // Until the subscription has arrived.
					runtime.Gosched()
				}
				payload := make([]byte, size)
				cpu, _ := usage(b)
				b.ResetTimer()
				for left := b.N; left > 0; left -= burst {
					n := min(left, burst)
					for range n {
						publish(payload)
					}
					for range n {
						next(b, got)
					}
				}
				b.StopTimer()
				end, _ := usage(b)
				b.ReportMetric(float64(end-cpu)/float64(b.N), "cpu-ns/msg")
			})
		}
	}
}
