package sidecar

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stranger is a user that this process is not.
const stranger = 54321

// tableOf is a /proc with the sockets of one table, to be replaced as the test goes on.
func tableOf(t *testing.T, lines ...string) (proc string, replace func(lines ...string)) {
	t.Helper()
	proc = fakeProc(t, nil).proc
	require.NoError(t, os.Mkdir(filepath.Join(proc, "net"), 0o755))
	replace = func(lines ...string) {
		table := heading + strings.Join(lines, "")
		require.NoError(t, os.WriteFile(filepath.Join(proc, "net", "tcp"), []byte(table), 0o600))
	}
	replace(lines...)
	return proc, replace
}

// dialed records the addresses that a discovery asks; each question is answered by the server at base, or by none.
type dialed struct {
	mu   sync.Mutex
	to   string
	list []string // guarded by mu
}

func (d *dialed) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d.mu.Lock()
	d.list = append(d.list, addr)
	d.mu.Unlock()
	if d.to == "" {
		return nil, &net.OpError{Op: "dial", Err: errors.New("silence")}
	}
	return new(net.Dialer).DialContext(ctx, network, d.to)
}

// TestAsksNoStranger has engines of other users beside one of this process's, and named and admitted ones.
func TestAsksNoStranger(t *testing.T) {
	at := netip.MustParseAddrPort
	own, foreign := line(at("127.0.0.1:30000"), "0A", 7), lineOf(at("0.0.0.0:30001"), "0A", 8, stranger)
	for name, tt := range map[string]struct {
		lines  []string
		cfg    Config
		asked  []string
		reason string
	}{
		"another's":                   {lines: []string{own, foreign}, asked: []string{"127.0.0.1:30000"}, reason: "--find-user " + userName(stranger)},
		"admitted":                    {lines: []string{own, foreign}, cfg: Config{Users: Users{ids: []uint32{stranger}}}, asked: []string{"127.0.0.1:30000", "127.0.0.1:30001"}},
		"all are admitted":            {lines: []string{foreign}, cfg: Config{Users: Users{all: true}}, asked: []string{"127.0.0.1:30001"}},
		"another one is admitted":     {lines: []string{foreign}, cfg: Config{Users: Users{ids: []uint32{1}}}, reason: "is not asked"},
		"of one port on IPv4 and 6":   {lines: []string{line(at("[::]:30001"), "0A", 7), foreign}, reason: "is not asked"},
		"a loopback before all":       {lines: []string{line(at("[::]:30001"), "0A", 7), lineOf(at("127.0.0.1:30001"), "0A", 8, stranger)}, reason: "is not asked"},
		"another address, same port":  {lines: []string{line(at("127.0.0.1:30001"), "0A", 7), lineOf(at("10.9.8.7:30001"), "0A", 8, stranger)}, asked: []string{"127.0.0.1:30001"}, reason: "is not asked"},
		"named, so not asked by scan": {lines: []string{foreign}, cfg: Config{Workers: []string{"http://127.0.0.1:30001"}}},
	} {
		var log bytes.Buffer
		d := &dialed{}
		tt.cfg.Proc, _ = tableOf(t, tt.lines...)
		tt.cfg.Probing.Dial = d.dial
		f, _ := newTestDiscovery(t, tt.cfg, "30000", "30001")
		f.log = slog.New(slog.NewTextHandler(&log, nil))
		f.scan(t.Context(), time.Now())
		assert.ElementsMatch(t, tt.asked, d.list, name)
		_, report, _ := f.view()
		var reasons []string
		for _, n := range report.NotWorkers {
			reasons = append(reasons, n.Reason)
		}
		why := strings.Join(reasons, "\n")
		if tt.reason == "" {
			assert.NotContains(t, why, "find-user", name)
			assert.NotContains(t, log.String(), "find-user", name)
			continue
		}
		assert.Contains(t, why, tt.reason, name)
		assert.Contains(t, log.String(), "--find-user", name)
		log.Reset()
		f.scan(t.Context(), time.Now())
		assert.Empty(t, log.String(), "%s: it is said once", name)
	}
}

// TestStrangerTakesThePort: a worker ends, and another user listens in its place before it is forgotten.
func TestStrangerTakesThePort(t *testing.T) {
	base, port, asked := serve(t, 200, sglang)
	addr := netip.MustParseAddrPort("127.0.0.1:" + port)
	proc, replace := tableOf(t, line(addr, "0A", 7))
	d := &dialed{to: addr.String()}
	f, registry := newTestDiscovery(t, Config{Proc: proc, Probing: ProbeConfig{Dial: d.dial}}, port)
	now := time.Now()
	f.scan(t.Context(), now)
	require.Equal(t, ledger{base: true}, registry)
	replace(lineOf(addr, "0A", 8, stranger))
	f.scan(t.Context(), now.Add(time.Second))
	assert.Empty(t, registry)
	assert.EqualValues(t, 1, asked.Load())
}

// TestEngineOfAnother names the engines of other users, as far as their command lines can be read.
func TestEngineOfAnother(t *testing.T) {
	var log bytes.Buffer
	l := listenSocket{netip.MustParseAddrPort("0.0.0.0:30000"), 8, stranger}
	f, _ := newTestDiscovery(t, Config{})
	f.log = slog.New(slog.NewTextHandler(&log, nil))
	f.sockets[l] = &probedSocket{listenSocket: l, command: "python -m sglang.launch_server"}
	f.excludeForeign([]listenSocket{l})
	assert.Contains(t, log.String(), "an engine of another user is not used")
	assert.Contains(t, log.String(), "0.0.0.0:30000")
}

func TestParseUsers(t *testing.T) {
	self, err := user.Current()
	require.NoError(t, err)
	u, err := ParseUsers([]string{self.Username, "12345"})
	require.NoError(t, err)
	assert.True(t, u.has(12345) && u.has(uint32(os.Geteuid())))
	assert.False(t, u.has(stranger))
	u, err = ParseUsers([]string{"any"})
	require.NoError(t, err)
	assert.True(t, u.has(stranger))
	for _, bad := range []string{"", "no such user", "-1", "4294967296"} {
		_, err := ParseUsers([]string{bad})
		assert.ErrorIs(t, err, ErrUsers, bad)
	}
}

// TestForeignListener knows this process as no stranger. Another user's socket needs another user.
func TestForeignListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, foreign, err := ForeignListener("nats://" + l.Addr().String())
	require.NoError(t, err)
	assert.False(t, foreign)
}
