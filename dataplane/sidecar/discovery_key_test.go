package sidecar

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// lockedServer answers as a worker with an API key does, and records what it was shown.
type lockedServer struct {
	url, port string
	mu        sync.Mutex
	shown     map[string]bool // values of Authorization; guarded by mu
}

func newLockedServer(t *testing.T) *lockedServer {
	t.Helper()
	l := &lockedServer{shown: map[string]bool{}}
	l.url, l.port = serveWith(t, func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Authorization")
		l.mu.Lock()
		l.shown[key] = true
		l.mu.Unlock()
		if r.URL.Path != "/ready" && key != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answerAsSGLang(w, r)
	})
	return l
}

func (l *lockedServer) sees(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shown[key]
}

func keysOf(t *testing.T, text string) (file string, keys *worker.Keys) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	keys, err := worker.ReadKeys(file, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return file, keys
}

// TestDiscoveryKeys: a found worker that wants an API key is shown it where its process could read
// the file, or where a line names it, and after the file has changed; any other process is not.
func TestDiscoveryKeys(t *testing.T) {
	ask := func(s *lockedServer, keys *worker.Keys, pid int) (*worker.Info, *discovery, *probedSocket) {
		d, _ := newTestDiscovery(t, Config{Probing: ProbeConfig{Keys: keys}}, s.port)
		sockets, err := readSockets("/proc")
		require.NoError(t, err)
		for _, l := range sockets {
			if strconv.FormatUint(uint64(l.addr.Port()), 10) == s.port {
				c := &probedSocket{listenSocket: l, pid: pid}
				return d.askOne(t.Context(), c, time.Now()), d, c
			}
		}
		t.Fatal("there is no such socket")
		return nil, nil, nil
	}
	_, all := keysOf(t, "secret\n")
	s := newLockedServer(t)
	info, _, _ := ask(s, all, os.Getpid())
	require.NotNil(t, info, "a process of this user")
	s = newLockedServer(t)
	info, _, c := ask(s, all, 0)
	require.Nil(t, info)
	assert.False(t, s.sees("Bearer secret"), "the key went to a process that nobody knows")
	assert.Contains(t, c.reason, "401")
	assert.Contains(t, c.reason, "--worker-api-key-file")
	_, named := keysOf(t, s.url+" secret\n")
	info, _, _ = ask(s, named, 0)
	require.NotNil(t, info, "a line names it")

	s = newLockedServer(t)
	file, keys := keysOf(t, "another\n")
	_, d, c := ask(s, keys, os.Getpid())
	d.noticeKey(c, time.Now())
	require.True(t, c.next.IsZero(), "nothing has changed")
	require.NoError(t, os.WriteFile(file+".new", []byte("secret\n"), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
	require.Eventually(t, func() bool { d.noticeKey(c, time.Now()); return !c.next.IsZero() }, patience, time.Millisecond)
	require.NotNil(t, d.askOne(t.Context(), c, time.Now()))
}

// TestNamedWorkerKey: a worker that the operator names is watched with its key.
func TestNamedWorkerKey(t *testing.T) {
	s := newLockedServer(t)
	_, keys := keysOf(t, "secret\n")
	n := startNode(t, Config{NoDiscovery: true, Workers: []string{s.url}, Probing: ProbeConfig{Keys: keys}})
	require.Eventually(t, func() bool {
		r := n.Report()
		return len(r.Workers) == 1 && r.Workers[0].State == "ready" && r.Workers[0].Model != ""
	}, patience, time.Millisecond)
	// And without the key it is said.
	s = newLockedServer(t)
	n = startNode(t, Config{NoDiscovery: true, Workers: []string{s.url}})
	require.Eventually(t, func() bool {
		r := n.Report()
		return len(r.Workers) == 1 && r.Workers[0].Error != ""
	}, patience, time.Millisecond)
	assert.Contains(t, n.Report().Workers[0].Error, "--worker-api-key-file")
}
