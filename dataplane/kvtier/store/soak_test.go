//go:build soak

package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/nixl/nixltest"
)

// soakEnv is the duration of TestSoak for each transport, such as "10m"; without it, soakLength
// over TCP.
const soakEnv, soakLength = "WARMPATH_TIER_SOAK", 10 * time.Second

const (
	soakNodes   = 3
	soakEngines = 2        // of each node, one of each form
	soakMemory  = 12 << 20 // of each node: a tenth of the pages in use
)

// TestSoak runs stores and engines as processes, which are killed, stopped and restarted at
// random. Engines store pages whose bytes follow from their hashes, read those of other engines,
// on this node and on others, and compare each byte.
func TestSoak(t *testing.T) {
	t.Run("tcp", func(t *testing.T) { runSoak(t, "") })
	if os.Getenv(soakEnv) == "" {
		return
	}
	t.Run("nixl", func(t *testing.T) { runSoak(t, nixltest.Library(t)) })
}

// soakRun is a site whose processes are killed and stopped.
type soakRun struct {
	soakSite

	nodes []*soakProcess
	long  bool // longer stops than any lease

	kills, engineKills, stops, hints atomic.Int64
}

func newSoakRun(t *testing.T, library string) *soakRun {
	t.Helper()
	s := &soakRun{soakSite: soakSite{t: t}}
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	require.NoError(t, os.WriteFile(key, []byte("a key that only the nodes of this soak know\n"), 0o600))
	var specs []*soakNode
	for i := range soakNodes {
		specs = append(specs, &soakNode{
			Name: fmt.Sprint("node", i), Socket: filepath.Join(dir, strconv.Itoa(i)), Listen: natstest.Address(t), HTTP: natstest.Address(t), Bytes: soakMemory, Library: library, Key: key,
		})
	}
	for i, spec := range specs {
		for j, other := range specs {
			if i != j {
				spec.Peers = append(spec.Peers, other.Listen)
			}
		}
		s.nodes = append(s.nodes, s.add(spec.Name, soakNodeEnv, spec, spec))
	}
	for i, spec := range specs {
		for form := range soakEngines {
			s.add(fmt.Sprintf("engine%d.%d", i, form), soakEngineEnv, soakEngine{spec.Socket, form}, nil)
		}
	}
	return s
}

// harm kills, stops and restarts a process until stop is closed, and leaves it running.
func (s *soakRun) harm(p *soakProcess, stop <-chan struct{}) {
	pause := 6 * time.Second
	if p.node != nil {
		pause = 5 * time.Second
	}
	if p.node != nil && p.node.Library != "" {
		pause = 15 * time.Second // agents take a second or two to make
	}
	for wait(stop, rand.N(pause)) {
		if rand.IntN(3) == 0 {
			s.stops.Add(1)
			_ = p.cmd.Process.Signal(syscall.SIGSTOP)
			limit := 3 * time.Second
			if s.long && rand.IntN(6) == 0 {
				limit = 20 * time.Second
			}
			wait(stop, rand.N(limit))
			if rand.IntN(3) > 0 {
				_ = p.cmd.Process.Signal(syscall.SIGCONT)
				continue
			}
		}
		if p.node != nil {
			s.kills.Add(1)
		} else {
			s.engineKills.Add(1)
		}
		p.end(syscall.SIGKILL)
		wait(stop, rand.N(time.Second))
		if err := p.start(); err != nil {
			s.t.Errorf("%s does not start again: %v", p.name, err)
			return
		}
	}
}

// wait waits for a time; false where stop is closed before.
func wait(stop <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-stop:
		return false
	case <-timer.C:
		return true
	}
}

// watch asks the stores for their counts, and sends them hints, until stop is closed.
func (s *soakRun) watch(stop <-chan struct{}) {
	client := &http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	for wait(stop, 100*time.Millisecond) {
		p := s.nodes[rand.IntN(len(s.nodes))]
		if _, ok := p.look(client); !ok {
			continue
		}
		prompt := uint32(rand.ExpFloat64() * soakPrompts / 5)
		hint := Hint{Model: "soak"}
		for range soakLongest {
			hint.InputIDs = append(hint.InputIDs, prompt)
		}
		body, err := json.Marshal(hint)
		if err != nil {
			s.t.Error(err)
			return
		}
		if resp, err := client.Post("http://"+p.node.HTTP+"/prefetch", "application/json", bytes.NewReader(body)); err == nil {
			resp.Body.Close()
			s.hints.Add(1)
		}
	}
}

// total returns the sum of all counts.
func (s *soakRun) total() (soakCounts, Stats) {
	s.mu.Lock()
	c, st := s.counts, s.past
	s.mu.Unlock()
	for _, p := range s.all {
		p.mu.Lock()
		c.add(p.counts)
		st.Pulled += p.stats.Pulled
		st.Evicted += p.stats.Evicted
		if p.wrong != "" {
			c.Wrong = p.wrong
		}
		p.mu.Unlock()
	}
	return c, st
}

func runSoak(t *testing.T, library string) {
	t.Helper()
	length := soakLength
	if text := os.Getenv(soakEnv); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	s := newSoakRun(t, library)
	s.long = length >= time.Minute
	stop := make(chan struct{})
	var harmers sync.WaitGroup
	harmers.Go(func() { s.watch(stop) })
	for _, p := range s.all {
		harmers.Go(func() { s.harm(p, stop) })
	}
	var c soakCounts
	for begin := time.Now(); c.Wrong == "" && !t.Failed(); {
		wait(nil, 100*time.Millisecond)
		var st Stats
		c, st = s.total()
		tried := c.Checked > 0 && c.Stored > 0 && st.Pulled > 0 && st.Evicted > 0 && s.kills.Load() > 0 && s.engineKills.Load() > 0 && s.stops.Load() > 0 && s.hints.Load() > 0
		if took := time.Since(begin); took > length && (tried || took > length+4*patience) {
			if !tried {
				t.Errorf("not everything was tried: %+v, %+v", c, st)
			}
			break
		}
	}
	close(stop)
	harmers.Wait()
	if !t.Failed() {
		s.recover()
	}
	for _, p := range s.all[soakNodes:] {
		p.end(0)
	}
	for _, p := range s.nodes {
		p.end(0)
	}
	st := s.past
	t.Logf("%v: %+v; %d tiers and %d engines killed, %d stopped, %d hints; tiers: %d pages stored, %d evicted, %d pulled, %d pulls failed, %d served, %d leases expired, "+
		"%d sets abandoned, %d slabs moved, %d hinted, %d connections refused, %d in quarantine at a time", length, s.counts, s.kills.Load(), s.engineKills.Load(),
		s.stops.Load(), s.hints.Load(), st.Stored, st.Evicted, st.Pulled, st.PullFailures, st.Served, st.Expired, st.Abandoned, st.SlabsMoved, st.Hinted, st.Refused, s.worst)
}

// recover waits until all processes work with each other again.
func (s *soakRun) recover() {
	client := &http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	began := map[*soakProcess]int64{}
	for _, p := range s.all {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		p.mu.Lock()
		began[p] = p.counts.Checked
		p.mu.Unlock()
	}
	for _, p := range s.nodes {
		pulled := int64(-1)
		within(s.t, 4*patience, p.name+" has its peers again and pulls from them", func() bool {
			st, ok := p.look(client)
			if ok && pulled < 0 {
				pulled = st.Pulled
			}
			return ok && st.Peers == soakNodes-1 && st.Pulled > pulled && (p.node.Library == "" || st.NIXL)
		})
	}
	for _, p := range s.all[soakNodes:] {
		within(s.t, 4*patience, p.name+" reads again", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.counts.Checked > began[p] || p.wrong != ""
		})
	}
}
