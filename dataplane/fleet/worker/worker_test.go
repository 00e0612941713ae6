package worker_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// unwatched returns a registry of unreachable workers.
func unwatched(t *testing.T) *worker.Registry {
	t.Helper()
	f := newFake()
	f.mode = refusing
	r := worker.NewRegistry(worker.Config{Log: slog.New(slog.DiscardHandler), Dial: f.dial}, nil)
	t.Cleanup(func() {
		for _, w := range r.Snapshot().Workers {
			require.NoError(t, r.Remove(w.URL))
		}
	})
	return r
}

func TestAddChecksURLs(t *testing.T) {
	tests := []struct {
		raw, url, addr string // url "": refused
		tls            bool
	}{
		{raw: "http://10.0.0.5:30000", url: "http://10.0.0.5:30000", addr: "10.0.0.5:30000"},
		{raw: "http://10.0.0.5:30000//", url: "http://10.0.0.5:30000", addr: "10.0.0.5:30000"},
		{raw: "HTTP://gpu-1", url: "http://gpu-1", addr: "gpu-1:80"},
		{raw: "https://gpu-1", url: "https://gpu-1", addr: "gpu-1:443", tls: true},
		{raw: "https://gpu-1:8443", url: "https://gpu-1:8443", addr: "gpu-1:8443", tls: true},
		{raw: "http://[fd00::1]:30000", url: "http://[fd00::1]:30000", addr: "[fd00::1]:30000"},
		{raw: "http://GPU-1.Example:30000", url: "http://gpu-1.example:30000", addr: "gpu-1.example:30000"},
		{raw: "http://gpu-1:80", url: "http://gpu-1", addr: "gpu-1:80"},
		{raw: "https://gpu-1:443", url: "https://gpu-1", addr: "gpu-1:443", tls: true},
		{raw: "http://gpu-1:443", url: "http://gpu-1:443", addr: "gpu-1:443"},
		{raw: "http://[FD00:0:0:0:0:0:0:1]:30000", url: "http://[fd00::1]:30000", addr: "[fd00::1]:30000"},
		{raw: "http://[fd00::0:1]", url: "http://[fd00::1]", addr: "[fd00::1]:80"},
		{raw: "http://[::ffff:10.0.0.5]:30000", url: "http://10.0.0.5:30000", addr: "10.0.0.5:30000"},
		{raw: "http://[FE80::1%25Eth0]:30000", url: "http://[fe80::1%25Eth0]:30000", addr: "[fe80::1%Eth0]:30000"},
		{raw: ""},
		{raw: "gpu-1:30000", url: "http://gpu-1:30000", addr: "gpu-1:30000"},
		{raw: "10.0.0.5:30000", url: "http://10.0.0.5:30000", addr: "10.0.0.5:30000"},
		{raw: "[fd00::1]:30000", url: "http://[fd00::1]:30000", addr: "[fd00::1]:30000"},
		{raw: "gpu-1"},
		{raw: ":30000"},
		{raw: "gpu-1:30000/v1"},
		{raw: "http://"},
		{raw: "http://:30000"},
		{raw: "ftp://gpu-1"},
		{raw: "http://gpu-1/v1"},
		{raw: "http://gpu-1?a=b"},
		{raw: "http://gpu-1?"},
		{raw: "http://gpu-1#1"},
		{raw: "http://user:secret@gpu-1"},
		{raw: "http://gpu-1:"},
		{raw: "http://gpu-1:0"},
		{raw: "http://gpu-1:65536"},
		{raw: "http://gpu-1:http"},
		{raw: "http://gpu 1"},
		{raw: "http://gpu-\xff"},
		{raw: "http://%ff:80"},
		{raw: "http://%c3%a4:80"},
		{raw: "http://gpu-\u202e1"},
		{raw: "gpu-\u009b1:30000"},
	}
	for _, tt := range tests {
		t.Run(tt.raw, func(t *testing.T) {
			r := unwatched(t)
			w, err := r.Add(tt.raw)
			if tt.url == "" {
				require.ErrorIs(t, err, worker.ErrBadURL, "Add(%q)", tt.raw)
				require.Empty(t, r.Snapshot().Workers)
				return
			}
			require.NoError(t, err, "Add(%q)", tt.raw)
			require.Equal(t, tt.url, w.URL)
			require.Equal(t, tt.addr, w.Addr)
			require.Equal(t, tt.tls, w.TLS != nil, "TLS of %q", tt.raw)
			for _, spelling := range []string{tt.raw, w.URL, w.URL + "/"} {
				got, err := r.Get(spelling)
				require.NoError(t, err)
				require.Same(t, w, got)
				_, err = r.Add(spelling)
				require.ErrorIs(t, err, worker.ErrDuplicate)
			}
			require.NoError(t, r.Remove(tt.raw))
		})
	}
}

func TestAddTwice(t *testing.T) {
	r := unwatched(t)
	_, err := r.Add("http://b:1")
	require.NoError(t, err)
	_, err = r.Add("http://a:1")
	require.NoError(t, err)
	_, err = r.Add("http://a:1/")
	require.ErrorIs(t, err, worker.ErrDuplicate)
	snap := r.Snapshot()
	require.Equal(t, []string{"http://a:1", "http://b:1"}, []string{snap.Workers[0].URL, snap.Workers[1].URL}, "workers in order")
	require.Len(t, snap.Ranks, 2)
}

func TestSnapshotStaysAsItWas(t *testing.T) {
	r := unwatched(t)
	_, err := r.Add("http://a:1")
	require.NoError(t, err)
	before := r.Snapshot()
	_, err = r.Add("http://b:1")
	require.NoError(t, err)
	require.Len(t, before.Workers, 1)
	require.Len(t, before.Ranks, 1)
}

func TestHolders(t *testing.T) {
	var r worker.Rank
	require.Nil(t, r.IndexIDs(), "holders of a rank without events")
	r.SetIndexIDs([]uint32{3, 5})
	require.Equal(t, []uint32{3, 5}, r.IndexIDs())
	r.SetIndexIDs(nil)
	require.Empty(t, r.IndexIDs())
}

func TestStateNames(t *testing.T) {
	for state, want := range map[worker.State]string{
		worker.Probing: "probing", worker.Ready: "ready", worker.Slow: "slow", worker.Dead: "dead", worker.Draining: "draining",
	} {
		require.Equal(t, want, state.String())
	}
}

func TestClassify(t *testing.T) {
	dial := func(err error) error {
		return fmt.Errorf("cannot get /ready: %w", &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)})
	}
	tests := []struct {
		name string
		err  error
		want worker.State
	}{
		{"no error", nil, worker.Ready},
		{"time-out of the request", fmt.Errorf("cannot get /ready: %w", fasthttp.ErrTimeout), worker.Slow},
		{"time-out of the connection", fmt.Errorf("cannot get /ready: %w", os.ErrDeadlineExceeded), worker.Slow},
		{"time-out of the kernel", dial(syscall.ETIMEDOUT), worker.Slow},
		{"name server does not answer", &net.DNSError{IsTimeout: true}, worker.Slow},
		{"no file descriptor", dial(syscall.EMFILE), worker.Slow},
		{"no port", dial(syscall.EADDRNOTAVAIL), worker.Slow},
		{"refused", dial(syscall.ECONNREFUSED), worker.Dead},
		{"reset", dial(syscall.ECONNRESET), worker.Dead},
		{"closed", fmt.Errorf("cannot get /ready: %w", io.ErrUnexpectedEOF), worker.Dead},
		{"closed before the answer", fasthttp.ErrConnectionClosed, worker.Dead},
		{"no such name", &net.DNSError{IsNotFound: true}, worker.Dead},
		{"something else", errors.New("bad"), worker.Dead},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want.String(), worker.Classify(tt.err).String(), "state after %v", tt.err)
		})
	}
}

// TestNoCancelAfterBegun: once Begun has returned, the memory of the request
// may serve another one.
func TestNoCancelAfterBegun(t *testing.T) {
	w, err := unwatched(t).Add("http://a:1")
	require.NoError(t, err)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	hung := make(chan struct{})
	go func() {
		defer close(hung)
		for {
			select {
			case <-stop:
				return
			default:
				w.GiveUp()
			}
		}
	}()
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 3))
			for range 2000 {
				canceled := 0 // written by GiveUp only, so -race sees a call after Begun
				key := w.Await(func(bool) bool { canceled++; return true })
				if rng.IntN(2) == 0 {
					w.Probe()
				}
				w.Begun(key)
				if canceled > 1 {
					t.Errorf("canceled %d times", canceled)
				}
				canceled = 0
			}
		})
	}
	wg.Wait()
	close(stop)
	<-hung
}
