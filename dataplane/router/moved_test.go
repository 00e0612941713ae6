package router

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/warmpath/warmpath/dataplane/fleet"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/router/config"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// nameServer answers all questions of this process with one IPv4 address.
type nameServer struct{ at atomic.Pointer[netip.Addr] }

// newNameServer takes the place of the system's resolver.
func newNameServer(t *testing.T) *nameServer {
	t.Helper()
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	s, before := &nameServer{}, net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		// A net.Dialer would read net.DefaultResolver, in lookups that nobody waits for.
		return net.DialUDP("udp", nil, l.LocalAddr().(*net.UDPAddr))
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		_ = l.Close()
	})
	go func() {
		for p := make([]byte, 1500); ; {
			n, from, err := l.ReadFrom(p)
			if err != nil {
				return
			}
			_, _ = l.WriteTo(s.answer(p[:n]), from)
		}
	}()
	return s
}

func (s *nameServer) answer(question []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) != 1 {
		return nil
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: s.at.Load().As4()},
		}}
	}
	answer, _ := m.Pack()
	return answer
}

// namedEngine is an engine at an address that tells its name in each answer.
func namedEngine(t *testing.T, at, name string) {
	t.Helper()
	l, err := net.Listen("tcp", at)
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/server_info":
			_, _ = io.WriteString(w, `{"version":"0.5.23","served_model_name":"tiny","page_size":4,"dp_size":1,"random_seed":`+strings.TrimPrefix(name, "engine ")+`}`)
		case "/v1/models":
			_, _ = io.WriteString(w, `{"data":[{"id":"tiny"}]}`)
		case "/generate":
			_, _ = io.WriteString(w, `{"text":"`+name+`","meta_info":{"id":"x"}}`)
		}
	}))
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
}

// TestAWorkersNameMoves: requests and probes follow the name of a worker to another address, although
// the engine at the old one answers on, and the connections to it are kept.
func TestAWorkersNameMoves(t *testing.T) {
	names := newNameServer(t)
	from, to := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
	names.at.Store(&from)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, _ := net.SplitHostPort(free.Addr().String())
	require.NoError(t, free.Close())
	namedEngine(t, net.JoinHostPort(from.String(), port), "engine 1")
	namedEngine(t, net.JoinHostPort(to.String(), port), "engine 2")

	d, err := New(Config{
		Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler), Sources: fleet.SourceConfig{Workers: []string{"http://engine.test:" + port}},
		Probes: config.Probes{Timeout: time.Minute, HangAfter: time.Hour}, // this machine may be busy
	})
	require.NoError(t, err)
	d.registry.Configure(func(c *worker.Config) { c.LookEvery = 20 * time.Millisecond })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{}}
	defer func() {
		client.CloseIdleConnections()
		stop()
		require.NoError(t, <-done)
	}()
	answered := func() string {
		resp, err := client.Post("http://"+d.Addr()+"/generate", "application/json", strings.NewReader(`{"input_ids":[1,2,3]}`))
		if err != nil {
			return err.Error()
		}
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(resp.Body)
		return string(body)
	}
	testkit.AwaitThat(t, func() bool { return strings.Contains(answered(), "engine 1") }, answered)
	names.at.Store(&to)
	testkit.AwaitThat(t, func() bool { return strings.Contains(answered(), "engine 2") }, answered)
	for range 20 {
		require.Contains(t, answered(), "engine 2", "no connection to the old one is left")
	}
}
