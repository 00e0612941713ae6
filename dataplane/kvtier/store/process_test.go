package store

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// soakSite is the processes and their counts.
type soakSite struct {
	t   *testing.T
	all []*soakProcess

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
