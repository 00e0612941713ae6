package zmq_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/zmq"
)

// publishEnv makes the test's binary a publisher in a process of its own, so that its CPU is
// not counted. Its value is the payload's size, and the microseconds between two messages or 0
// for none.
const publishEnv = "WARMPATH_BENCH_PUBLISH"

// publishForBenchmarks runs that publisher until its standard input ends.
func publishForBenchmarks(spec string) {
	var size, micros int
	if _, err := fmt.Sscan(spec, &size, &micros); err != nil {
		panic(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println("tcp://" + l.Addr().String())
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}()
	message := wire("", 0, strings.Repeat("x", size))
	if micros == 0 {
		message = []byte(strings.Repeat(string(message), 1+256<<10/len(message)))
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			panic(err)
		}
		greetAs(conn, peerHello, peerReady, len(asked31)-len("kv"))
		for next := time.Now(); err == nil; {
			if micros > 0 {
				next = next.Add(time.Duration(micros) * time.Microsecond)
				time.Sleep(time.Until(next))
			}
			_, err = conn.Write(message)
		}
	}
}

// BenchmarkIdle measures the heap, stack and goroutines of each of many silent subscriptions.
func BenchmarkIdle(b *testing.B) {
	const streams = 4000
	p, _ := newPublisher(b, zmq.PublisherConfig{Endpoint: anyPort})
	for range b.N {
		before := memory()
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error, streams)
		connected := make(chan struct{}, streams)
		for range streams {
			go func() {
				ended <- zmq.Subscribe(ctx, zmq.Subscription{
					Endpoint: p.Endpoint(), OnMessage: func(zmq.Message) {}, OnConnect: func() { connected <- struct{}{} },
				})
			}()
		}
		for range streams {
			next(b, connected)
		}
		after := memory()
		b.ReportMetric(float64(after-before)/streams, "B/stream")
		cancel()
		for range streams {
			require.NoError(b, next(b, ended))
		}
	}
}
