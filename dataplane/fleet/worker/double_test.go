package worker_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// TestOneProcessUnderTwoNames: the names of one process are told of each other, once, and one of them is
// used where they lead to one address. The other one takes its place while that name leads nowhere.
func TestOneProcessUnderTwoNames(t *testing.T) {
	const here, there = "10.0.0.1", "10.0.0.2"
	const name, number = "http://gpu-1:30000", "http://10.0.0.1:30000"
	tests := map[string]struct {
		change func(named, numbered *fake)
		double bool // each is a name of the other's process
		once   bool // one of them is used
	}{
		"one process": {func(*fake, *fake) {}, true, true},
		"behind a balancer, or two of one snapshot": {func(named, _ *fake) { named.at = &net.TCPAddr{IP: net.ParseIP(there), Port: 30000} }, true, false},
		"at an unknown address":                     {func(named, _ *fake) { named.at = nil }, true, false},
		"by the host's name":                        {func(named, _ *fake) { named.process(18.5, "tiny") }, false, false}, // an ingress
		"of pages of another size": {func(named, _ *fake) {
			named.answers["/server_info"] = `{"page_size":1,"version":"0.5.23","model_path":"/models/tiny","served_model_name":"tiny","startup_time":{"tokenizer_e2e":17.5}}`
		}, false, false},
		"that nothing identifies": {func(named, numbered *fake) {
			for _, f := range []*fake{named, numbered} {
				f.answers["/server_info"] = `{"version":"0.5.23","page_size":16}`
			}
		}, false, false},
	}
	for title, tt := range tests {
		t.Run(title, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				named, numbered, log := newFake(), newFake(), &testkit.Text{}
				for _, f := range []*fake{named, numbered} {
					f.at = &net.TCPAddr{IP: net.ParseIP(here), Port: 30000}
					f.process(17.5, "tiny")
				}
				tt.change(named, numbered)
				var lost atomic.Bool
				r := worker.NewRegistry(worker.Config{LoadEvery: -1, Log: log.Log(), Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
					switch {
					case addr != "gpu-1:30000":
						return numbered.dial(ctx, network, addr)
					case lost.Load():
						return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "gpu-1"}}
					}
					return named.dial(ctx, network, addr)
				}}, nil)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- r.Run(ctx) }()
				first, err := r.Add(name)
				require.NoError(t, err)
				time.Sleep(3 * time.Second)
				second, err := r.Add(number)
				require.NoError(t, err)
				time.Sleep(10 * time.Second)
				synctest.Wait()

				require.Equal(t, worker.Ready.String(), first.State().String(), first.LastError())
				require.Empty(t, first.Double(), "it was there before")
				require.Equal(t, map[bool]string{true: name}[tt.double], second.Double())
				require.Equal(t, tt.once, second.State() == worker.Draining, second.DrainReasons())
				if tt.double {
					require.Equal(t, 1, strings.Count(log.String(), "two workers are one process"))
				}
				if tt.once {
					require.Equal(t, []string{"double"}, second.DrainReasons())
					lost.Store(true)
					named.cut(func() {})
					time.Sleep(10 * time.Second)
					synctest.Wait()
					require.NotEqual(t, worker.Ready, first.State())
					require.Equal(t, worker.Ready.String(), second.State().String(), "the process lives")
					lost.Store(false)
					time.Sleep(10 * time.Second)
					synctest.Wait()
					require.Equal(t, worker.Draining.String(), first.State().String())
					require.Equal(t, worker.Ready.String(), second.State().String(), "it stays in use")
					second.DrainFor(worker.DrainLeaving, true)
					r.FindDoubles()
					require.Equal(t, worker.Ready.String(), first.State().String(), "its other name leaves")
					require.Equal(t, []string{"leaving", "double"}, second.DrainReasons())
				}
				cancel()
				require.NoError(t, <-done)
				time.Sleep(time.Minute) // the client's cleaner of connections ends
			})
		})
	}
}
