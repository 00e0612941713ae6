package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/discover"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// harness is a manager with workers in memory, in a bubble with a clock of the test's own.
type harness struct {
	t        *testing.T
	manager  *Manager
	registry *worker.Registry
	at       atomic.Value // net.Addr: all names lead to one process there; unset: each to its own

	mu      sync.Mutex
	model   map[string]string // by host:port; "": refuses connections; guarded by mu
	forgets time.Duration     // until a worker's cache is forgotten; guarded by mu
}

// Up implements worker.Observer.
func (*harness) Up(*worker.Worker, *worker.Info) {}

// Down implements worker.Observer.
func (y *harness) Down(*worker.Worker) {
	y.mu.Lock()
	d := y.forgets
	y.mu.Unlock()
	time.Sleep(d)
}

// inHarness runs f with a manager that drains for a minute.
func inHarness(t *testing.T, f func(y *harness)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		y := &harness{t: t, model: map[string]string{}}
		log := slog.New(slog.DiscardHandler)
		y.registry = worker.NewRegistry(worker.Config{Dial: y.dial, LoadEvery: -1, Log: log}, y)
		y.manager = NewManager(y.registry, nil, Config{Drain: time.Minute, Log: log})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		y.manager.Start(ctx)
		running.Go(func() { _ = y.registry.Run(ctx) })
		running.Go(func() { _ = y.manager.Run(ctx) })
		f(y)
		stop()
		running.Wait()
		time.Sleep(time.Minute) // fasthttp cleans up idle connections for 10 s after the last
	})
}

// dial connects to an HTTP server that lives as long as the connection.
func (y *harness) dial(_ context.Context, _, addr string) (net.Conn, error) {
	if y.serves(addr) == "" {
		return nil, syscall.ECONNREFUSED
	}
	near, far := net.Pipe()
	at, _ := y.at.Load().(net.Addr)
	l := &oneConn{conn: make(chan net.Conn, 1), end: make(chan struct{})}
	l.conn <- &lastConn{Conn: far, gone: sync.OnceFunc(func() { close(l.end) })}
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // G114: in memory
			model := y.serves(addr)
			switch {
			case model == "":
				panic(http.ErrAbortHandler)
			case r.URL.Path == "/server_info":
				started := ""
				if at != nil { // its own description
					started = `,"startup_time":{"tokenizer_e2e":17.5}`
				}
				_, _ = io.WriteString(w, `{"version":"0.5.23","page_size":16`+started+`}`)
			case r.URL.Path == "/v1/models":
				_, _ = io.WriteString(w, `{"data":[{"id":"`+model+`"}]}`)
			}
		}))
	}()
	return &nearConn{near, at}, nil
}

// nearConn is a connection to an address; nil is a pipe's.
type nearConn struct {
	net.Conn
	at net.Addr
}

func (c *nearConn) RemoteAddr() net.Addr {
	if c.at != nil {
		return c.at
	}
	return c.Conn.RemoteAddr()
}

// oneConn is a listener with one connection.
type oneConn struct {
	conn chan net.Conn
	end  chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.end:
		return nil, net.ErrClosed
	}
}
func (*oneConn) Close() error   { return nil }
func (*oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// lastConn ends its listener.
type lastConn struct {
	net.Conn
	gone func()
}

func (c *lastConn) Close() error {
	c.gone()
	return c.Conn.Close()
}

func (y *harness) serves(addr string) string {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.model[addr]
}

// run starts workers that serve a model; "" ends them.
func (y *harness) run(model string, hosts ...string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, h := range hosts {
		y.model[h+":1"] = model
	}
}

// pass lets time go by.
func (y *harness) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// states are the workers of the registry: "a=ready b=draining".
func (y *harness) states() map[string]string {
	all := map[string]string{}
	for _, w := range y.registry.Snapshot().Workers {
		all[w.URL[len("http://"):len(w.URL)-len(":1")]] = w.State().String()
	}
	return all
}

func (y *harness) has(want map[string]string, why string) {
	y.t.Helper()
	require.Equal(y.t, want, y.states(), why)
}

func (y *harness) worker(host string) *worker.Worker {
	y.t.Helper()
	w, err := y.registry.Get("http://" + host + ":1")
	require.NoError(y.t, err)
	return w
}

func specsOf(hosts ...string) (specs []worker.Spec) {
	for _, h := range hosts {
		specs = append(specs, worker.Spec{URL: "http://" + h + ":1"})
	}
	return specs
}

// drain begins or ends a drain, and returns its extent.
func (y *harness) drain(host string, on bool) Scope {
	y.t.Helper()
	scope, err := y.manager.Drain(y.t.Context(), Target{URL: "http://" + host + ":1"}, on)
	require.NoError(y.t, err)
	return scope
}

// scripted is a source that the test controls.
type scripted struct {
	name string
	sets chan []worker.Spec
	end  chan error
}

func newScripted(name string) *scripted {
	return &scripted{name: name, sets: make(chan []worker.Spec), end: make(chan error)}
}

func (s *scripted) Name() string { return s.name }

func (s *scripted) Run(ctx context.Context, set func([]worker.Spec)) error {
	for {
		select {
		case specs := <-s.sets:
			set(specs)
		case err := <-s.end:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// says has the source name these hosts, and waits until workers that run are probed.
func (y *harness) says(s *scripted, specs ...worker.Spec) {
	s.sets <- specs
	y.pass(2 * time.Second)
}

// follow runs workers of one model, which a new source names, the manager's only one.
func (y *harness) follow(hosts ...string) *scripted {
	s := newScripted("s")
	y.run("m", hosts...)
	y.manager.SetSources([]discover.Source{s})
	y.says(s, specsOf(hosts...)...)
	return s
}

const ready, draining, dead = "ready", "draining", "dead"

func TestManagerDrainsWhatLeft(t *testing.T) {
	inHarness(t, func(y *harness) {
		s := y.follow("a", "b", "c", "d")
		y.has(map[string]string{"a": ready, "b": ready, "c": ready, "d": ready}, "all are added")

		a, b := y.worker("a").Ranks()[0].Load.Begin(10), y.worker("b").Ranks()[0].Load.Begin(10)
		y.says(s, specsOf("d")...)
		y.has(map[string]string{"a": draining, "b": draining, "c": draining, "d": ready}, "c may be named again")
		y.pass(leastDrain)
		y.has(map[string]string{"a": draining, "b": draining, "d": ready}, "c has nothing in flight")
		require.Equal(t, []string{"leaving"}, y.worker("a").DrainReasons())
		a.End()
		y.pass(time.Second)
		y.has(map[string]string{"b": draining, "d": ready}, "a has nothing in flight any more")
		y.pass(time.Minute)
		y.has(map[string]string{"d": ready}, "b was waited for as long as is allowed")
		b.End()
		y.says(s, specsOf("a", "d")...)
		y.has(map[string]string{"a": ready, "d": ready}, "a worker may come again")
	})
}

// slowMarker is a cluster whose marks reach this router after a while.
type slowMarker struct {
	Marker
	reach func([]cluster.Mark)
	after time.Duration
	down  error
	view  atomic.Pointer[cluster.View]
}

func newSlowMarker(y *harness, after time.Duration) *slowMarker {
	m := &slowMarker{reach: y.manager.SetMarks, after: after}
	m.view.Store(&cluster.View{})
	y.manager.marker = m
	return m
}

func (m *slowMarker) View() *cluster.View { return m.view.Load() }

// ChangeMark implements Marker for one target.
func (m *slowMarker) ChangeMark(_ context.Context, target string, change func(*cluster.Mark)) error {
	if m.down != nil {
		return m.down
	}
	marks := append([]cluster.Mark(nil), m.View().Marks...)
	if len(marks) == 0 {
		marks = []cluster.Mark{{Target: target}}
	}
	if change(&marks[0]); !marks[0].Drain && !marks[0].Cordon {
		marks = nil
	}
	time.AfterFunc(m.after, func() {
		m.view.Store(&cluster.View{Marks: marks})
		m.reach(marks)
	})
	return nil
}

// TestDrainHoldsAtOnce: the router that is asked follows before it answers, unless the mark takes too
// long.
func TestDrainHoldsAtOnce(t *testing.T) {
	inHarness(t, func(y *harness) {
		y.follow("a", "b")
		for _, after := range []time.Duration{markTimeout / 2, markTimeout * 2} {
			newSlowMarker(y, after)
			for _, state := range []string{draining, ready} {
				before := y.states()["a"]
				require.Equal(t, Scope{Cluster: true}, y.drain("a", state == draining))
				if after < markTimeout {
					before = state
				}
				require.Equal(t, map[string]string{"a": before, "b": ready}, y.states(), after)
				y.pass(after)
				require.Equal(t, map[string]string{"a": state, "b": ready}, y.states(), after)
			}
		}
	})
}

// TestDrainAfterAnOutage: a drain of this router alone holds until the cluster's has come.
func TestDrainAfterAnOutage(t *testing.T) {
	inHarness(t, func(y *harness) {
		y.follow("a", "b")
		m := newSlowMarker(y, 2*markTimeout)
		m.down = cluster.ErrDown
		require.NotEmpty(t, y.drain("a", true).Reason)
		m.down = nil
		require.Equal(t, Scope{Cluster: true}, y.drain("a", true))
		y.has(map[string]string{"a": draining, "b": ready}, "the mark is on its way")
		y.pass(m.after)
		y.drain("a", true)
		m.reach(nil)
		y.has(map[string]string{"a": ready, "b": ready}, "another router has ended the drain")
	})
}

// TestMarksAddUp: a second change of a target's mark begins with the first one, whichever it was.
func TestMarksAddUp(t *testing.T) {
	inHarness(t, func(y *harness) {
		y.follow("a")
		newSlowMarker(y, time.Second)
		for _, act := range []func(context.Context, Target, bool) (Scope, error){y.manager.Cordon, y.manager.Drain} {
			_, err := act(y.t.Context(), Target{URL: "http://a:1"}, true)
			require.NoError(t, err)
		}
		require.Equal(t, cluster.Mark{Target: "http://a:1", Drain: true, Cordon: true}, y.manager.inForce("http://a:1"))
	})
}

// TestMarksReachWhatIsHeld: a worker that its sources name no more, and that stays in use, can be drained.
func TestMarksReachWhatIsHeld(t *testing.T) {
	inHarness(t, func(y *harness) {
		y.run("m", "a", "b")
		mark := []cluster.Mark{{Target: "http://b:1", Drain: true}}
		c := &fakeCluster{}
		c.show(marked(up(nodeOf("n", "a", "b")), mark...))
		y.manager.SetSources([]discover.Source{NewClusterSource(c, y.registry.Get, slog.New(slog.DiscardHandler))})
		y.manager.SetMarks(mark)
		y.pass(2 * time.Second)
		y.has(map[string]string{"a": ready, "b": draining}, "the mark holds")
		c.show(up(nodeOf("n")))
		y.pass(2 * time.Second)
		y.manager.SetMarks([]cluster.Mark{{Target: "http://a:1", Drain: true}})
		y.has(map[string]string{"a": draining, "b": ready}, "the other's does")
		require.Equal(t, 2, y.manager.Sources()[0].Kept)
	})
}

// TestManagerRenamesAWorker: a process under a new name is used by it once the old name drains.
func TestManagerRenamesAWorker(t *testing.T) {
	inHarness(t, func(y *harness) {
		y.at.Store(net.Addr(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}))
		y.run("tiny", "a", "b")
		s := newScripted("dns")
		y.manager.SetSources([]discover.Source{s})
		y.says(s, specsOf("a")...)
		y.has(map[string]string{"a": ready}, "one name")
		lease := y.worker("a").Ranks()[0].Load.Begin(10)
		y.says(s, specsOf("b")...)
		y.pass(3 * time.Second)
		y.has(map[string]string{"a": ready, "b": draining}, "b is a")
		for range 60 {
			y.pass(time.Second)
			all := y.states()
			require.True(t, all["a"] == ready || all["b"] == ready, "no name is used: %v", all)
		}
		y.has(map[string]string{"a": draining, "b": ready}, "a has a request in flight")
		lease.End()

		y.says(s, specsOf("a", "b")...)
		y.has(map[string]string{"a": draining, "b": ready}, "b stays the one in use")
		_, err := y.manager.Remove("http://b:1", false)
		require.NoError(t, err)
		require.Equal(t, ready, y.states()["a"], "at once")
	})
}

func TestManagerKeepsWhatIsBack(t *testing.T) {
	inHarness(t, func(y *harness) {
		s := y.follow("a", "b")
		before := y.worker("a")
		lease := before.Ranks()[0].Load.Begin(10)
		y.says(s, specsOf("b")...)
		y.has(map[string]string{"a": draining, "b": ready}, "it left")
		y.says(s, specsOf("a", "b")...)
		y.has(map[string]string{"a": ready, "b": ready}, "it is back")
		require.Same(t, before, y.worker("a"), "its cache is known still")
		lease.End()
		y.pass(2 * time.Minute)
		y.has(map[string]string{"a": ready, "b": ready}, "nothing is left of its leave")
	})
}

// TestManagerKeepsWhatFlaps: an answer of DNS without a name, an endpoint on its way from one slice
// to another and leases that end one after the other cost no cache and not the whole cluster.
func TestManagerKeepsWhatFlaps(t *testing.T) {
	inHarness(t, func(y *harness) {
		s := y.follow("a", "b", "c")
		before := y.worker("a")
		for range 3 {
			y.says(s, specsOf("b", "c")...)
			y.has(map[string]string{"a": draining, "b": ready, "c": ready}, "a is not named")
			y.pass(5 * time.Second)
			y.says(s, specsOf("a", "b", "c")...)
			y.has(map[string]string{"a": ready, "b": ready, "c": ready}, "a is named again")
			require.Same(t, before, y.worker("a"), "its cache is known still")
		}

		y.says(s, specsOf("b", "c")...)
		y.says(s, specsOf("c")...)
		y.has(map[string]string{"a": draining, "b": draining, "c": ready}, "one after the other")
		y.says(s)
		y.has(map[string]string{"a": ready, "b": ready, "c": ready}, "that was the way to an empty set")
		y.run("", "b", "c")
		y.pass(defaultGrace + 2*time.Second)
		y.has(map[string]string{"a": ready}, "b and c have ended")

		y.run("m", "b")
		y.says(s, specsOf("a", "b")...)
		y.pass(leastDrain)
		y.says(s, specsOf("b")...)
		y.run("", "a")
		y.pass(2 * time.Second)
		y.has(map[string]string{"b": ready}, "a worker that has left and ended is removed")
	})
}

// TestManagerDoubtsAnEmptySet: a source that names no worker that answers, and did before, is more likely
// to be wrong than all of them are. They stay while they answer, until it names one that does, or an
// operator or the configuration removes them.
func TestManagerDoubtsAnEmptySet(t *testing.T) {
	// start has the source s name a, b and c, of which c has died, beside other of the flags.
	start := func(y *harness) (s *scripted, flags discover.Source) {
		y.run("m", "a", "b", "c", "other")
		s, flags = newScripted("s"), discover.Static{Title: "flags", Specs: specsOf("other")}
		y.manager.SetSources([]discover.Source{flags, s})
		y.says(s, specsOf("a", "b", "c")...)
		y.run("", "c")
		y.pass(2 * time.Second)
		y.has(map[string]string{"a": ready, "b": ready, "c": dead, "other": ready}, "c died")
		return s, flags
	}
	kept := func(y *harness) int { return y.manager.Sources()[1].Kept }
	all := map[string]string{"a": ready, "b": ready, "other": ready}
	for name, says := range map[string][]worker.Spec{"empty": nil, "one that is dead": specsOf("typo"), "the dead one": specsOf("c")} {
		t.Run(name, func(t *testing.T) {
			inHarness(t, func(y *harness) {
				s, _ := start(y)
				y.says(s, says...)
				y.pass(2 * time.Minute)
				used := func() map[string]string {
					now := y.states()
					maps.DeleteFunc(now, func(_, state string) bool { return state == dead })
					return now
				}
				require.Equal(t, all, used(), "what answers is used on, though others could")
				require.Equal(t, 2, kept(y))

				y.says(s, specsOf("a")...)
				require.Equal(t, all, used(), "the others may be named soon")
				y.pass(leastDrain)
				y.has(map[string]string{"a": ready, "other": ready}, "the source is believed again")
				require.Zero(t, kept(y))
			})
		})
	}
	t.Run("scaled to zero", func(t *testing.T) {
		inHarness(t, func(y *harness) {
			s, _ := start(y)
			y.says(s)
			y.run("", "a", "b")
			y.pass(2 * time.Second)
			y.has(map[string]string{"a": dead, "b": dead, "c": dead, "other": ready}, "they have ended")
			y.pass(defaultGrace)
			y.has(map[string]string{"other": ready}, "and do not come back")
		})
	})
	t.Run("a worker restarts", func(t *testing.T) {
		inHarness(t, func(y *harness) {
			s, _ := start(y)
			y.says(s)
			y.run("", "a")
			y.pass(10 * time.Second)
			y.run("m", "a")
			y.pass(2 * time.Second)
			require.Equal(t, ready, y.states()["a"])
		})
	})
	t.Run("an operator removes one", func(t *testing.T) {
		inHarness(t, func(y *harness) {
			s, _ := start(y)
			y.says(s)
			_, err := y.manager.Remove("http://a:1", false)
			require.NoError(t, err)
			y.pass(time.Minute)
			y.has(map[string]string{"b": ready, "other": ready}, "nothing holds it")
			require.Equal(t, 1, kept(y))
		})
	})
	t.Run("the configuration has the source no more", func(t *testing.T) {
		inHarness(t, func(y *harness) {
			s, flags := start(y)
			y.says(s)
			y.manager.SetSources([]discover.Source{flags})
			y.pass(time.Minute)
			y.has(map[string]string{"other": ready}, "that is meant")
		})
	})
	t.Run("another source names one", func(t *testing.T) {
		inHarness(t, func(y *harness) {
			s, flags := start(y)
			young := newScripted("young")
			y.manager.SetSources([]discover.Source{flags, s, young})
			y.says(young, specsOf("a")...)
			y.says(s)
			y.pass(2 * time.Minute)
			y.has(all, "b is the old one's")
			require.Equal(t, 1, kept(y))
			y.says(young, specsOf("other")...)
			y.pass(time.Minute)
			y.has(map[string]string{"b": ready, "other": ready}, "young is in no doubt")
		})
	})
}

// TestManagerAndAFlappingSource: a source that is empty again and again, as all leases of etcd or all
// endpoints of Kubernetes may be, takes no worker out of use, and what is named again is used at once,
// however long it was not.
func TestManagerAndAFlappingSource(t *testing.T) {
	for _, empty := range []time.Duration{2 * time.Second, 9 * time.Second, 31 * time.Second, 2 * time.Minute} {
		for _, partly := range []bool{false, true} { // one worker is named meanwhile
			t.Run(fmt.Sprintf("%v, partly=%v", empty, partly), func(t *testing.T) {
				inHarness(t, func(y *harness) {
					s := y.follow("a", "b")
					all := map[string]string{"a": ready, "b": ready}
					before := y.worker("a")
					for range 3 {
						if partly {
							y.says(s, specsOf("b")...)
						} else {
							y.says(s)
						}
						step := max(500*time.Millisecond, empty/30)
						for at := 2 * time.Second; at < empty; at += step {
							if partly {
								require.Equal(t, ready, y.states()["b"])
							} else {
								y.has(all, "they answer")
							}
							y.pass(step)
						}
						y.says(s, specsOf("a", "b")...)
						y.has(all, "they are named again")
					}
					if empty < leastDrain || !partly {
						require.Same(t, before, y.worker("a"), "nothing of it was forgotten")
					}
				})
			})
		}
	}
}

func TestManagerWaitsForTheReplacement(t *testing.T) {
	inHarness(t, func(y *harness) {
		s := y.follow("a")
		y.says(s, specsOf("b")...)
		y.has(map[string]string{"a": ready, "b": dead}, "b does not run yet")
		y.pass(2 * time.Minute)
		y.has(map[string]string{"a": ready, "b": dead}, "it loads a large model")
		y.run("m", "b")
		y.pass(2 * time.Second)
		y.has(map[string]string{"a": ready, "b": ready}, "others of its source may be ready soon")
		y.pass(leastDrain)
		y.has(map[string]string{"b": ready}, "b does what a did")

		y.run("another model", "c")
		y.says(s, specsOf("c")...)
		y.has(map[string]string{"b": ready, "c": ready}, "nobody else serves b's model")
		y.pass(defaultGrace)
		y.has(map[string]string{"c": ready}, "that nobody shall serve")
	})
}

// TestManagerTrustsNoSilence replaces a source by one that has told nothing yet, and then by
// none.
func TestManagerTrustsNoSilence(t *testing.T) {
	inHarness(t, func(y *harness) {
		y.run("m", "a", "b")
		old, young := newScripted("old"), newScripted("young")
		y.manager.SetSources([]discover.Source{old})
		y.says(old, specsOf("a", "b")...)
		y.manager.SetSources([]discover.Source{young})
		y.pass(2 * time.Minute)
		y.has(map[string]string{"a": ready, "b": ready}, "young has told nothing")
		require.False(t, y.manager.Sources()[0].Answered)
		y.says(young, specsOf("b")...)
		y.has(map[string]string{"b": ready}, "a is not among young's")

		young.end <- errors.New("for good")
		y.pass(2 * time.Minute)
		y.has(map[string]string{"b": ready}, "what it told last stays")
		require.Equal(t, "for good", y.manager.Sources()[0].Error)
		y.manager.SetSources(nil)
		y.pass(time.Minute)
		y.has(map[string]string{}, "nobody names it")
	})
}

func TestManagerChangesInPlace(t *testing.T) {
	inHarness(t, func(y *harness) {
		y.run("m", "a")
		s, low := newScripted("s"), newScripted("low")
		y.manager.SetSources([]discover.Source{s, low})
		spec := worker.Spec{URL: "http://a:1"}
		y.says(low, worker.Spec{URL: "http://a:1", Role: worker.RoleDecode})
		before := y.worker("a")
		require.Equal(t, worker.RoleDecode, before.Role(), "its release does not tell")
		y.says(s, spec)
		require.Equal(t, worker.RoleDecode, before.Role(), "s expects nothing")
		spec.Role = worker.RoleRegular
		low.sets <- nil
		y.pass(2 * time.Second)
		require.Equal(t, worker.RoleRegular, before.Role())

		spec.Drain = true
		y.says(s, spec)
		y.has(map[string]string{"a": draining}, "its source wants it")
		y.drain("a", true)
		spec.Drain = false
		y.says(s, spec)
		y.has(map[string]string{"a": draining}, "an operator wants it too")
		y.drain("a", false)
		y.has(map[string]string{"a": ready}, "nobody wants it any more")
		require.Same(t, before, y.worker("a"))
	})
}

func TestManagerObeysOperators(t *testing.T) {
	inHarness(t, func(y *harness) {
		y.run("m", "c")
		s := y.follow("a", "b")
		require.NoError(t, y.manager.Add(worker.Spec{URL: "http://c:1/"}))
		y.pass(time.Second)
		require.Equal(t, []string{"api"}, y.manager.Origins("http://c:1"))
		for _, known := range []string{"a", "c"} {
			require.ErrorIs(t, y.manager.Add(specsOf(known)[0]), worker.ErrDuplicate)
		}
		require.ErrorIs(t, y.manager.Add(worker.Spec{URL: "c"}), worker.ErrBadURL)

		lease := y.worker("a").Ranks()[0].Load.Begin(10)
		removed, err := y.manager.Remove("http://a:1/", false)
		require.NoError(t, err)
		require.Equal(t, Removal{InFlight: 1, NamedBy: []string{"s"}}, removed)
		y.says(s, specsOf("b", "a")...)
		y.has(map[string]string{"a": draining, "b": ready, "c": ready}, "the source does not bring a back")
		require.Empty(t, y.manager.Origins("http://a:1"))
		lease.End()
		y.pass(time.Second)
		y.has(map[string]string{"b": ready, "c": ready}, "a is gone")
		require.NoError(t, y.manager.Add(specsOf("a")[0]))
		y.pass(2 * time.Second)
		y.has(map[string]string{"a": ready, "b": ready, "c": ready}, "who added it has taken that back")

		y.worker("b").Ranks()[0].Load.Begin(10)
		_, err = y.manager.Remove("http://b:1", true)
		require.NoError(t, err)
		y.has(map[string]string{"a": ready, "c": ready}, "at once")
		_, err = y.manager.Remove("http://b:1", true)
		require.ErrorIs(t, err, worker.ErrUnknown)
		y.says(s)
		y.says(s, specsOf("b")...)
		y.has(map[string]string{"a": ready, "c": ready}, "a source that leaves it out for a moment ends no refusal")
		y.says(s)
		y.pass(leastDrain)
		y.says(s, specsOf("b")...)
		y.has(map[string]string{"a": ready, "b": ready, "c": ready}, "a refusal holds until the source names it no more")
		removed, err = y.manager.Remove("http://c:1", false)
		require.NoError(t, err)
		require.Equal(t, Removal{}, removed)
		y.has(map[string]string{"a": ready, "b": ready}, "what an operator removes is held by nothing")
	})
}

// TestRemovalDuringARemoval: a worker that is added while its last removal goes on
// can be removed, at once too.
func TestRemovalDuringARemoval(t *testing.T) {
	inHarness(t, func(y *harness) {
		y.run("m", "a")
		add := func() { require.NoError(t, y.manager.Add(specsOf("a")[0])) }
		remove := func(want error) {
			_, err := y.manager.Remove("http://a:1", true)
			require.ErrorIs(t, err, want)
		}
		add()
		y.pass(time.Second)
		y.forgets = time.Minute
		remove(nil)
		add()
		require.ErrorIs(t, y.manager.Add(specsOf("a")[0]), worker.ErrDuplicate)
		remove(nil)
		remove(worker.ErrUnknown)
		y.pass(2 * time.Minute)
		y.has(map[string]string{}, "the first removal has ended")
		add()
		y.pass(time.Second)
		y.has(map[string]string{"a": ready}, "the second removal bars it from nothing")
	})
}

// TestOperatorsDuringARemoval: what operators say of a worker that waits for the end of its last
// removal holds once that has ended.
func TestOperatorsDuringARemoval(t *testing.T) {
	remove := func(y *harness) error { _, err := y.manager.Remove("http://a:1", true); return err }
	add := func(y *harness) error { return y.manager.Add(specsOf("a")[0]) }
	drain := func(y *harness) error {
		_, err := y.manager.Drain(y.t.Context(), Target{URL: "http://a:1"}, true)
		return err
	}
	cordon := func(y *harness) error {
		_, err := y.manager.Cordon(y.t.Context(), Target{URL: "http://a:1"}, true)
		return err
	}
	type acts []func(*harness) error
	for name, tt := range map[string]struct {
		named bool // by a source, else added
		acts  acts
		want  string // its state; "": it is out
	}{
		"drained":                  {false, acts{drain}, draining},
		"cordoned":                 {false, acts{cordon}, ready},
		"drained, removed, added":  {false, acts{drain, remove, add}, ready},
		"of a source":              {true, nil, ready},
		"of a source, drained":     {true, acts{drain}, draining},
		"of a source, cordoned":    {true, acts{cordon}, ""},
		"of a source, removed":     {true, acts{remove}, ""},
		"of a source, added again": {true, acts{drain, remove, add}, ready},
	} {
		t.Run(name, func(t *testing.T) {
			inHarness(t, func(y *harness) {
				s := y.follow("other")
				y.run("m", "a")
				require.NoError(t, add(y))
				y.pass(2 * time.Second)
				y.forgets = time.Minute
				require.NoError(t, remove(y))
				y.pass(leastDrain)
				y.says(s, specsOf("other")...) // which ends the removal's effect on sources
				if tt.named {
					y.says(s, specsOf("other", "a")...)
				} else {
					require.NoError(t, add(y))
				}
				for i, act := range tt.acts {
					require.NoError(t, act(y), i)
				}
				y.has(map[string]string{"other": ready}, "it waits")
				y.pass(2 * time.Minute)
				require.Equal(t, tt.want, y.states()["a"])
			})
		})
	}
}

// TestDrainOfALoneRouter: a router without a cluster keeps its drains while a worker is away, and forgets
// them with a worker that an operator removes.
func TestDrainOfALoneRouter(t *testing.T) {
	inHarness(t, func(y *harness) {
		s := y.follow("a", "b")
		away := func() {
			y.says(s, specsOf("b")...)
			y.pass(time.Minute)
			y.has(map[string]string{"b": ready}, "it is away")
		}
		require.Equal(t, Scope{}, y.drain("a", true))
		away()
		y.says(s, specsOf("a", "b")...)
		y.has(map[string]string{"a": draining, "b": ready}, "it drains as before")
		away()
		y.drain("a", false)
		y.says(s, specsOf("a", "b")...)
		y.has(map[string]string{"a": ready, "b": ready}, "the drain has ended meanwhile")

		for _, busy := range []bool{true, false} { // its removal goes on, or has ended
			y.drain("a", true)
			lease := y.worker("a").Ranks()[0].Load.Begin(10)
			if !busy {
				lease.End()
			}
			_, err := y.manager.Remove("http://a:1", false)
			require.NoError(t, err)
			y.pass(time.Second)
			require.NoError(t, y.manager.Add(specsOf("a")[0]))
			y.pass(2 * time.Second)
			y.has(map[string]string{"a": ready, "b": ready}, "it begins anew")
			lease.End()
		}
	})
}

// TestCordonOfALoneRouter: a router without a cluster keeps its cordons itself.
func TestCordonOfALoneRouter(t *testing.T) {
	inHarness(t, func(y *harness) {
		y.run("m", "b")
		s := y.follow("a")
		cordon := func(host string, on bool) error {
			scope, err := y.manager.Cordon(t.Context(), Target{URL: "http://" + host + ":1/"}, on)
			require.Equal(t, Scope{}, scope, "it holds at this router")
			return err
		}
		require.ErrorIs(t, cordon("b", true), worker.ErrUnknown, "nobody names it")
		require.ErrorIs(t, cordon("a:1/path", true), worker.ErrBadURL)
		require.NoError(t, cordon("a", true))
		y.says(s, specsOf("a", "b")...)
		y.has(map[string]string{"a": ready, "b": ready}, "who is in use serves on")
		marks := y.manager.Marks()
		require.Len(t, marks, 1)
		require.Equal(t, "http://a:1", marks[0].Target)
		require.True(t, marks[0].Cordon && !marks[0].Drain)

		y.says(s, specsOf("b")...)
		y.pass(time.Minute)
		y.says(s, specsOf("a", "b")...)
		y.has(map[string]string{"b": ready}, "it is not in use any more")
		require.NoError(t, cordon("a", true), "twice is once")
		require.Equal(t, marks, y.manager.Marks())
		require.NoError(t, cordon("a", false))
		y.pass(2 * time.Second)
		y.has(map[string]string{"a": ready, "b": ready}, "the cordon is over")
		require.Empty(t, y.manager.Marks())

		for _, act := range []func(context.Context, Target, bool) (Scope, error){y.manager.Drain, y.manager.Cordon} {
			_, err := act(t.Context(), Target{Node: "n"}, true)
			require.ErrorIs(t, err, ErrUnknownNode)
		}
	})
}
