//go:build soak

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/testkit"
)

// outage is one thing that is done to a site under load, and what has healed when it is over.
type outage struct {
	name string
	// harm does it and returns what to print of how long the parts took, beginning with the harm. heal undoes it.
	harm, heal func(s *site) []timing
	mayCut     bool // answers that had begun may end
}

type timing struct {
	what string
	took time.Duration
}

// outages are those that the cluster must survive.
func outages() []outage {
	return []outage{
		{"router killed", func(s *site) []timing {
			s.routers[0].kill()
			return []timing{{"out of the view", s.awaitView(3, 1)}}
		}, func(s *site) []timing {
			s.routers[0].start()
			return []timing{{"restarted, has all 6 workers", s.awaitReady(s.fronts[0], 6)}, {"in the view", s.awaitView(3, 2)}}
		}, true},
		{"sidecar killed", func(s *site) []timing {
			s.nodes[1].kill()
			return []timing{{"out of the view", s.awaitView(2, 2)}, {"its workers still used", s.awaitReady(s.fronts[1], 6)}}
		}, func(s *site) []timing {
			s.nodes[1].start()
			return []timing{{"restarted, in the view", s.awaitView(3, 2)}}
		}, false},
		{"worker killed", func(s *site) []timing {
			s.sims[2].kill()
			return []timing{{"out of the choice", s.awaitReady(s.fronts[0], 5)}, {"of the other router too", s.awaitReady(s.fronts[1], 5)}}
		}, func(s *site) []timing {
			s.sims[2].start()
			return []timing{{"restarted, in the choice", s.awaitReady(s.fronts[0], 6)}, {"of the other router too", s.awaitReady(s.fronts[1], 6)}}
		}, true},
		{"NATS killed", func(s *site) []timing {
			s.nats.Kill()
			return []timing{{"noticed", s.awaitDown()}, {"workers still used", s.awaitReady(s.fronts[0], 6)}}
		}, func(s *site) []timing {
			s.nats.Run()
			return []timing{{"restarted, view whole", s.awaitView(3, 2)}}
		}, false},
		{"NATS killed, its store lost", func(s *site) []timing {
			s.nats.Kill()
			s.nats.Lose()
			return []timing{{"noticed", s.awaitDown()}}
		}, func(s *site) []timing {
			s.nats.Run()
			return []timing{{"restarted, view whole", s.awaitView(3, 2)}}
		}, false},
		{"NATS stopped", func(s *site) []timing {
			s.nats.Stop()
			return []timing{{"noticed", s.awaitDown()}}
		}, func(s *site) []timing {
			s.nats.Continue()
			return []timing{{"goes on, view whole", s.awaitView(3, 2)}}
		}, false},
		{"NATS killed, then a worker and a router", func(s *site) []timing {
			s.nats.Kill()
			down := s.awaitDown()
			s.sims[5].kill()
			s.routers[1].kill()
			return []timing{{"noticed", down}, {"worker out of the choice", s.awaitReady(s.fronts[0], 5)}}
		}, func(s *site) []timing {
			s.nats.Run()
			s.sims[5].start()
			s.routers[1].start()
			return []timing{{"all restarted, view whole", s.awaitView(3, 2)}, {"all workers used", s.awaitReady(s.fronts[1], 6)}}
		}, true},
	}
}

func (s *site) awaitDown() time.Duration {
	s.t.Helper()
	begin := time.Now()
	testkit.AwaitThat(s.t, func() bool { return !s.seen.View().Up }, func() string { return "still up" })
	return time.Since(begin)
}

// TestOutages kills each part of a cluster in turn, under load. No request that had not begun may fail. WARMPATH_OUTAGE_ROUNDS
// repeats it, WARMPATH_RESULTS names a folder for the table.
func TestOutages(t *testing.T) {
	t.Parallel() // it waits most of its time
	s := startSite(t)
	c, stop := startCrowd(t, s.fronts, 6)
	c.awaitAnswers(t, outageAnswers)
	var table bytes.Buffer
	fmt.Fprintf(&table, "%-42s %9s %7s %7s %5s %9s   %s\n", "outage", "answered", "failed", "retried", "cut", "slowest", "healed after")
	for round := range envInt(t, "WARMPATH_OUTAGE_ROUNDS", 1) {
		for _, o := range outages() {
			before := c.now()
			c.slowest.Store(0)
			times := o.harm(s)
			c.awaitAnswers(t, outageAnswers)
			times = append(times, o.heal(s)...)
			c.awaitAnswers(t, outageAnswers)
			after := c.now()
			cut := after.cut - before.cut
			fmt.Fprintf(&table, "%-42s %9d %7d %7d %5d %7.2f s   %s\n", o.name, after.answered-before.answered, after.failed-before.failed,
				after.moved-before.moved, cut, time.Duration(c.slowest.Load()).Seconds(), inWords(times))
			assert.Zero(t, after.failed-before.failed, "%s, round %d: requests that nobody answered", o.name, round)
			if !o.mayCut {
				assert.Zero(t, cut, "%s, round %d: answers that ended early", o.name, round)
			}
		}
	}
	stop()
	if len(c.failures) > 0 {
		assert.Fail(t, "a request that nobody answered", "%d of them; the first: %.1000s", len(c.failures), c.failures[0])
	}
	t.Logf("\n%s", table.String())
	if dir := os.Getenv("WARMPATH_RESULTS"); dir != "" {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "table.txt"), table.Bytes(), 0o600))
	}
}

func inWords(times []timing) string {
	parts := make([]string, len(times))
	for i, x := range times {
		parts[i] = fmt.Sprintf("%s %.2f s", x.what, x.took.Seconds())
	}
	return strings.Join(parts, "; ")
}

// crowd is clients that send one request after the other, each to the next router: to the other one where a router cannot be
// reached or dies before the first byte of its answer, as load balancers and client libraries do.
type crowd struct {
	fronts   []string
	client   *http.Client
	answered atomic.Int64 // whole answers
	moved    atomic.Int64 // requests that a dead router lost before an answer, and another one answered
	cut      atomic.Int64 // answers that had begun and ended early
	slowest  atomic.Int64 // ns to the first byte
	mu       sync.Mutex
	failures []string // requests that nobody answered
}

// startCrowd runs n clients until the test, or the returned function, ends them.
func startCrowd(t *testing.T, fronts []string, n int) (*crowd, func()) {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: n}
	c := &crowd{fronts: fronts, client: &http.Client{Transport: transport, Timeout: pairPatience}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() {
			for turn := i; ctx.Err() == nil; turn++ {
				c.one(turn)
				time.Sleep(crowdThinks) // which leaves the machine to the processes
			}
		})
	}
	stop := sync.OnceFunc(func() {
		cancel()
		running.Wait()
		transport.CloseIdleConnections()
	})
	t.Cleanup(stop)
	return c, stop
}

// one sends one request and notes its end.
func (c *crowd) one(turn int) {
	body := fmt.Sprintf(`{"text":"%s question %d","sampling_params":{"max_new_tokens":16,"ignore_eos":true},"stream":true}`,
		strings.Repeat("shared words ", 20*(turn%5)), turn%97)
	begin := time.Now()
	var problems []string
	for try := range 20 * len(c.fronts) {
		begun, err := c.ask(c.fronts[(turn+try)%len(c.fronts)], body, begin)
		switch {
		case err == nil:
			c.answered.Add(1)
			if try > 0 {
				c.moved.Add(1)
			}
			return
		case begun:
			c.cut.Add(1)
			return
		}
		problems = append(problems, err.Error())
		if toldClient(err) {
			break
		}
		time.Sleep(10 * time.Millisecond) // both are away: a client waits
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = append(c.failures, strings.Join(problems, "; "))
}

// toldClient tells whether an error is a router's answer: it has tried all that it can.
func toldClient(err error) bool {
	var told toldError
	return errors.As(err, &told)
}

// ask tells whether an answer had begun, and what went wrong.
func (c *crowd) ask(front, body string, begin time.Time) (begun bool, err error) {
	resp, err := c.client.Post("http://"+front+"/generate", "application/json", strings.NewReader(body))
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return false, toldError(fmt.Sprint(resp.StatusCode, " ", string(text)))
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	last := ""
	for lines.Scan() {
		if !begun {
			begun = true
			for wait := int64(time.Since(begin)); ; {
				old := c.slowest.Load()
				if wait <= old || c.slowest.CompareAndSwap(old, wait) {
					break
				}
			}
		}
		if text := lines.Text(); text != "" {
			last = text
		}
	}
	if last != "data: [DONE]" {
		return begun, fmt.Errorf("%w: the stream ends with %.80q", io.ErrUnexpectedEOF, last)
	}
	return true, lines.Err()
}

// since is a crowd's answers and failures since a moment.
type since struct{ answered, moved, cut, failed int64 }

func (c *crowd) now() since {
	c.mu.Lock()
	defer c.mu.Unlock()
	return since{c.answered.Load(), c.moved.Load(), c.cut.Load(), int64(len(c.failures))}
}

// awaitAnswers waits for n more whole answers.
func (c *crowd) awaitAnswers(t *testing.T, n int64) {
	t.Helper()
	want := c.answered.Load() + n
	testkit.AwaitThat(t, func() bool { return c.answered.Load() >= want }, func() string { return fmt.Sprintf("%+v of %d", c.now(), want) })
}

// envInt reads a number from the environment.
func envInt(t *testing.T, name string, def int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	var n int
	_, err := fmt.Sscanf(text, "%d", &n)
	require.NoError(t, err, name)
	return n
}
