package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/testkit"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

// says waits until the process has logged a text n times.
func (p *process) says(text string, n int) {
	p.t.Helper()
	testkit.AwaitThat(p.t, func() bool { return strings.Count(p.log.String(), text) >= n }, func() string { return text + " is not in\n" + p.log.String() })
}

// hangUp sends SIGHUP.
func (p *process) hangUp() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGHUP))
}

// A service that follows no configuration file reads on SIGHUP what it has, and goes on.
func TestHangupWithoutConfiguration(t *testing.T) {
	t.Parallel()
	alive := func(addr string) {
		t.Helper()
		resp, err := http.Get("http://" + addr + "/health")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
	t.Run("nothing", func(t *testing.T) {
		addr := freePorts(t, 1)[0]
		p := newProcess(t, "serve", "--listen", addr)
		p.says("warmpath serves", 1)
		for n := range 2 {
			p.hangUp()
			p.says("nothing to reload on SIGHUP", n+1)
			alive(addr)
		}
	})
	t.Run("certificate", func(t *testing.T) {
		authority := tlstest.NewAuthority(t)
		pair := authority.Issue("127.0.0.1")
		p := newProcess(t, "serve", "--listen", "127.0.0.1:0", "--tls-cert", pair.Cert, "--tls-key", pair.Key)
		p.says("warmpath serves", 1)
		authority.Reissue(pair, time.Now().Add(time.Hour), "127.0.0.1")
		p.hangUp()
		p.says(`reloaded name="certificates for clients"`, 1)
		require.NoError(t, os.WriteFile(pair.Key, []byte("no key"), 0o600))
		p.hangUp()
		p.says(`level=WARN msg="cannot reload; the earlier content stays in use" name="certificates for clients"`, 1)
	})
	t.Run("operator key of a node", func(t *testing.T) {
		key, addrs := filepath.Join(t.TempDir(), "key"), freePorts(t, 2)
		replace(t, key, "one\n")
		p := newProcess(t, "node", "--no-find", "--listen", addrs[0], "--route", "--route-listen", addrs[1], "--operator-key", "@"+key)
		p.says("warmpath node runs", 1)
		opens := func(url, given string) bool {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+given)
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			return resp.StatusCode == http.StatusOK
		}
		places := []string{"http://" + addrs[0] + "/debug/pprof/heap", "http://" + addrs[1] + "/status"}
		for n, now := range []string{"one", "another", "another"} {
			if n > 0 {
				replace(t, key, map[int]string{1: "another\n", 2: ""}[n]) // an empty file is one that someone writes
				p.hangUp()
				p.says("read again on SIGHUP", n)
			}
			for _, place := range places {
				require.Equal(t, now == "one", opens(place, "one"), "%d: %s", n, place)
				require.Equal(t, now == "another", opens(place, "another"), "%d: %s", n, place)
			}
		}
		p.says("the earlier key stays in use", 1)
	})
	t.Run("operator key", func(t *testing.T) {
		key, addr := filepath.Join(t.TempDir(), "key"), freePorts(t, 1)[0]
		replace(t, key, "one\n")
		p := newProcess(t, "serve", "--listen", addr, "--operator-key", "@"+key)
		p.says("warmpath serves", 1)
		replace(t, key, "another\n")
		p.hangUp()
		p.says("settings=[operator-key]", 1)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/status", http.NoBody)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer another")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.NotContains(t, p.log.String(), "nothing to reload")
	})
	for _, command := range []string{"serve", "node"} {
		t.Run("worker keys of "+command, func(t *testing.T) {
			keys := filepath.Join(t.TempDir(), "keys")
			replace(t, keys, "one\n")
			addr := freePorts(t, 1)[0]
			args := []string{command, "--listen", addr, "--worker-api-key-file", keys}
			if command == "node" {
				args = append(args, "--no-find")
			}
			p := newProcess(t, args...)
			p.says("warmpath "+strings.Replace(command, "node", "node runs", 1), 1)
			replace(t, keys, "another\n")
			p.hangUp()
			p.says(`reloaded name="API keys of workers"`, 1)
			if command == "node" {
				require.NoError(t, p.cmd.Process.Signal(upgradeSignal))
				p.says("no upgrade", 1)
			}
			alive(addr)
		})
	}
}
