package store

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/nixl/nixltest"
)

// soakEnv is the duration of TestSoak for each transport, such as "10m"; without it, soakLength
// over TCP.
const soakEnv = "WARMPATH_TIER_SOAK"

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

// soakSite is the processes and their counts.
type soakSite struct {
	t     *testing.T
	nodes []*soakProcess
	all   []*soakProcess
	long  bool // longer stops than any lease

	kills, engineKills, stops, hints atomic.Int64

	mu     sync.Mutex
	counts soakCounts // of engines that have ended; guarded by mu
	past   Stats      // of tiers that have ended; guarded by mu
	worst  int64      // pages in quarantine at a time; guarded by mu
}

// soakProcess is a process and its successors.
type soakProcess struct {
	site *soakSite
	name string
	env  []string // its spec, and variables of the test
	node *soakNode

	mu     sync.Mutex // guards all below
	cmd    *exec.Cmd
	in     io.Closer
	out    sync.WaitGroup
	stderr *bytes.Buffer // read after the process has ended
	ending bool          // it is meant to end
	counts soakCounts    // of an engine, as it told last
	stats  Stats         // of a tier, as it answered last
	wrong  string
}

// start starts a process.
func (p *soakProcess) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), p.env...)
	p.stderr = &bytes.Buffer{}
	cmd.Stderr = p.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.in, p.counts, p.stats, p.ending = cmd, in, soakCounts{}, Stats{}, false
	p.out.Go(func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			var c soakCounts
			if json.Unmarshal(lines.Bytes(), &c) != nil {
				continue
			}
			p.mu.Lock()
			p.counts = c
			if c.Wrong != "" {
				p.wrong = c.Wrong
			}
			p.mu.Unlock()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.ending {
			p.site.t.Errorf("%s ended by itself", p.name)
		}
	})
	return nil
}

// end ends the process by a signal, or by the end of its input for signal 0, and checks its
// output.
func (p *soakProcess) end(signal syscall.Signal) {
	p.mu.Lock()
	p.ending = true
	p.mu.Unlock()
	if signal == 0 {
		p.in.Close()
	} else {
		_ = p.cmd.Process.Signal(signal)
	}
	p.out.Wait()
	err := p.cmd.Wait()
	p.in.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	t, said := p.site.t, p.stderr.String()
	bad := p.wrong != "" || err != nil && (signal == 0 || t.Failed())
	if bad || strings.Contains(said, "DATA RACE") || strings.Contains(said, "panic:") || strings.Contains(said, "fatal error:") {
		t.Errorf("%s: %s, %v\n%s", p.name, p.wrong, err, said[max(0, len(said)-8000):])
	}
	s := p.site
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.add(p.counts)
	s.past.Pulled += p.stats.Pulled
	s.past.Served += p.stats.Served
	s.past.Stored += p.stats.Stored
	s.past.Evicted += p.stats.Evicted
	s.past.SlabsMoved += p.stats.SlabsMoved
	s.past.Expired += p.stats.Expired
	s.past.Abandoned += p.stats.Abandoned
	s.past.PullFailures += p.stats.PullFailures
	s.past.Refused += p.stats.Refused
	s.past.Hinted += p.stats.Hinted
	s.past.Warmed += p.stats.Warmed
}

// look asks a store for its counts; false while it does not answer.
func (p *soakProcess) look(client *http.Client) (Stats, bool) {
	var s Stats
	resp, err := client.Get("http://" + p.node.HTTP + "/tier")
	if err != nil {
		return s, false
	}
	defer resp.Body.Close()
	if json.NewDecoder(resp.Body).Decode(&s) != nil {
		return s, false
	}
	p.mu.Lock()
	p.stats = s
	p.mu.Unlock()
	p.site.mu.Lock()
	p.site.worst = max(p.site.worst, s.Quarantined)
	p.site.mu.Unlock()
	return s, true
}

func newSoakSite(t *testing.T, library string) *soakSite {
	t.Helper()
	s := &soakSite{t: t}
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte("a key that only the nodes of this soak know\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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

// add adds a process.
func (s *soakSite) add(name, role string, spec any, node *soakNode, env ...string) *soakProcess {
	s.t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		s.t.Fatal(err)
	}
	p := &soakProcess{site: s, name: name, env: append(env, role+"="+string(text)), node: node}
	if err := p.start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { // where the test has failed before their end
		p.mu.Lock()
		p.ending = true
		p.mu.Unlock()
		_ = p.cmd.Process.Kill()
		p.out.Wait()
		_ = p.cmd.Wait()
	})
	s.all = append(s.all, p)
	return p
}

// harm kills, stops and restarts a process until stop is closed, and leaves it running.
func (s *soakSite) harm(p *soakProcess, stop <-chan struct{}) {
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
func (s *soakSite) watch(stop <-chan struct{}) {
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
func (s *soakSite) total() (soakCounts, Stats) {
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
	s := newSoakSite(t, library)
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
		"%d sets abandoned, %d slabs moved, %d hinted, %d warmed, %d connections refused, %d in quarantine at a time", length, s.counts, s.kills.Load(), s.engineKills.Load(),
		s.stops.Load(), s.hints.Load(), st.Stored, st.Evicted, st.Pulled, st.PullFailures, st.Served, st.Expired, st.Abandoned, st.SlabsMoved, st.Hinted, st.Warmed, st.Refused, s.worst)
}

// recover waits until all processes work with each other again.
func (s *soakSite) recover() {
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
