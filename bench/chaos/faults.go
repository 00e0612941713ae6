package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/bench/sim"
)

// role is a part of the cluster that a fault meets.
type role int

const (
	whole role = iota
	prefill
	decode
	front // a router
	hub   // the cluster's NATS
	sidecar
	nobody
)

// kind is a kind of fault.
type kind struct {
	name  string
	roles []role
	hold  time.Duration // at most
	away  bool          // its target serves nobody meanwhile
	// Its effects on the router's clients, beside the errors that a worker's fault explains.
	breaks   bool // broken and refused connections
	unusable bool // files with which no router starts
	// do begins it with a random number. The returned function, which may be nil, ends it.
	do doing
}

var workers = []role{whole, prefill, decode}

func kinds() []kind {
	worker, router := func(s *site, i int) *process { return s.sims[i] }, func(s *site, i int) *process { return s.fronts[i] }
	nats, node := func(s *site, _ int) *process { return s.hub }, func(s *site, _ int) *process { return s.node }
	list := []kind{
		{"worker kill -9", workers, 3 * time.Second, true, false, false, ending(worker, syscall.SIGKILL)},
		{"worker SIGTERM", workers, 3 * time.Second, true, false, false, ending(worker, syscall.SIGTERM)},
		{"worker SIGSTOP", workers, 15 * time.Second, true, false, false, stop(worker)},
		{"worker's connections cut", workers, time.Second, false, false, false, cutting(worker, func(*site, int, int, int) bool { return true })},
		{"event sockets cut", []role{front}, time.Second, false, false, false, cutting(router, func(s *site, i, local, peer int) bool { return local != s.ports[i] && !s.known[peer] })},
		{"router's worker connections cut", []role{front}, time.Second, false, false, false, cutting(router, func(s *site, i, local, peer int) bool { return local != s.ports[i] && s.known[peer] })},
		{"router's client connections cut", []role{front}, time.Second, false, true, false, cutting(router, func(s *site, i, local, _ int) bool { return local == s.ports[i] })},
		{"router kill -9", []role{front}, 2 * time.Second, true, true, false, ending(router, syscall.SIGKILL)},
		{"router SIGTERM", []role{front}, time.Second, true, true, false, ending(router, syscall.SIGTERM)},
		{"router SIGSTOP", []role{front}, 3 * time.Second, true, false, false, stop(router)},
		{"router upgrade", []role{front}, 5 * time.Second, true, false, false, func(s *site, i, _ int) func() {
			p := s.fronts[i]
			before := p.taken.Load()
			p.signal(syscall.SIGUSR2)
			return func() {
				s.await(p.name+"'s upgrade", func() string {
					if p.taken.Load() > before {
						return ""
					}
					return "not done"
				})
			}
		}},
		{"SIGHUP", []role{front}, time.Second, false, false, false, func(s *site, i, _ int) func() {
			s.fronts[i].signal(syscall.SIGHUP)
			return nil
		}},
		{"disk full", []role{front}, 5 * time.Second, false, false, false, filling(router)},
		{"router out of files", []role{front}, 5 * time.Second, false, true, false, func(s *site, i, _ int) func() {
			return s.fronts[i].limitFiles()
		}},
		{"configuration without a worker", []role{front}, 5 * time.Second, false, false, false, func(s *site, i, n int) func() {
			s.must(s.writeConfig(i, n%len(s.listed)))
			return func() { s.must(s.writeConfig(i, -1)) }
		}},
		{"configuration of nonsense", []role{front}, 5 * time.Second, false, false, true, func(s *site, i, n int) func() {
			s.must(os.WriteFile(s.config(i), []byte("polcy: kv\nworker: 7\n"[:n%20]), 0o600))
			return func() { s.must(s.writeConfig(i, -1)) }
		}},
		{"keys rewritten", []role{nobody}, 5 * time.Second, false, false, true, func(s *site, _, n int) func() {
			switch n % 3 {
			case 0:
				s.must(s.writeKeys(steadyKey))
			case 1:
				s.must(s.writeKeys(limitedKey, rotatingKey, steadyKey))
			default:
				s.must(replaceFile(s.keys(), []byte("nonsense\n")))
			}
			return func() { s.must(s.writeAllKeys()) }
		}},
		{"certificate renewed", []role{nobody}, time.Second, false, false, false, func(s *site, _, _ int) func() {
			s.must(s.authority.issue(s.cert(), s.certKey()))
			return nil
		}},
		{"NATS kill -9", []role{hub}, 8 * time.Second, true, false, false, ending(nats, syscall.SIGKILL)},
		{"NATS SIGSTOP", []role{hub}, 10 * time.Second, true, false, false, stop(nats)},
		{"NATS disk full", []role{hub}, 5 * time.Second, false, false, false, filling(nats)},
		{"NATS connections cut", []role{hub}, time.Second, false, false, false, cutting(nats, func(s *site, _, local, _ int) bool { return local == s.natsPort })},
		{"sidecar SIGSTOP", []role{sidecar}, 10 * time.Second, true, false, false, stop(node)},
		{"sidecar's connections cut", []role{sidecar}, time.Second, false, false, false, cutting(node, func(*site, int, int, int) bool { return true })},
		{"sidecar kill -9", []role{sidecar}, 5 * time.Second, true, false, false, ending(node, syscall.SIGKILL)},
		{"clients that do not read", []role{nobody}, 10 * time.Second, false, false, false, func(s *site, _, n int) func() { return s.deaf(n) }},
		{"clients that stop in a request", []role{nobody}, 10 * time.Second, false, false, false, func(s *site, _, n int) func() { return s.dumb(n) }},
	}
	for _, f := range []sim.Fault{
		{Kind: "error", Count: 20},
		{Kind: "error", Count: 20, Status: http.StatusTooManyRequests},
		{Kind: "empty", Count: 10},
		{Kind: "error-json", Count: 10},
		{Kind: "reset", Count: 10},
		{Kind: "reset-late", Count: 10},
		{Kind: "error-event", Count: 10},
		{Kind: "error-event-late", Count: 10},
		{Kind: "slow", Factor: 20},
		{Kind: "hang"},
		{Kind: "drop-events", Count: 5},
		{Kind: "drop-events", Count: 5, Lost: true},
		{Kind: "replay-silent"},
		{Kind: "cached-as-used"},
		{Kind: "busy-runs-behind", Factor: 3},
		{Kind: "wrong-pool", Factor: 0.5},
	} {
		list = append(list, simulated(f, workers))
	}
	for _, f := range []sim.Fault{{Kind: "bootstrap-down"}, {Kind: "bootstrap-503"}, {Kind: "stall-transfer", Count: 2}, {Kind: "slow-transfer", Factor: 20}} {
		list = append(list, simulated(f, []role{prefill}))
	}
	return list
}

// doing begins a fault, as [kind] has it.
type doing func(s *site, target, n int) (heal func())

// stop is SIGSTOP until it is healed.
func stop(of func(*site, int) *process) doing {
	return func(s *site, i, _ int) func() {
		of(s, i).signal(syscall.SIGSTOP)
		return func() { of(s, i).signal(syscall.SIGCONT) }
	}
}

// ending ends a process until it is healed.
func ending(of func(*site, int) *process, by syscall.Signal) doing {
	return func(s *site, i, _ int) func() {
		of(s, i).end(by)
		return func() { s.must(of(s, i).start()) }
	}
}

// cutting cuts connections by their ports.
func cutting(of func(*site, int) *process, match func(s *site, i, local, peer int) bool) doing {
	return func(s *site, i, _ int) func() {
		of(s, i).cut(func(local, peer int) bool { return match(s, i, local, peer) })
		return nil
	}
}

// filling leaves no room on a process's disk.
func filling(of func(*site, int) *process) doing {
	return func(s *site, i, _ int) func() {
		of(s, i).limit(64)
		return func() { of(s, i).limit(1 << 62) }
	}
}

// simulated is a fault that a simulated worker makes itself.
func simulated(f sim.Fault, roles []role) kind {
	name := "worker: " + f.Kind
	if f.Status != 0 {
		name += fmt.Sprint(" ", f.Status)
	}
	if f.Lost {
		name += ", lost"
	}
	return kind{name, roles, 10 * time.Second, f.Kind == "hang", false, false, func(s *site, i, _ int) func() {
		s.order(i, f)
		return func() { s.order(i, sim.Fault{Kind: "none"}) }
	}}
}

// order tells a simulated worker of a fault. One that has just been killed has none.
func (s *site) order(i int, f sim.Fault) {
	body, err := json.Marshal(f)
	s.must(err)
	if resp, err := s.plain.Post("http://"+s.addrs[i]+"/sim/fault", "application/json", bytes.NewReader(body)); err == nil {
		_ = resp.Body.Close()
	}
}

// entry is a fault of the schedule, and then one that has happened.
type entry struct {
	kind     *kind
	role     role
	target   int // worker or router
	n        int
	at, hold time.Duration // since the storm began

	began, ended time.Time // guarded by site.mu
}

func (e *entry) String() string {
	return fmt.Sprintf("%7.2f s, for %5.2f s: %s, target %d of %d, n %d", e.at.Seconds(), e.hold.Seconds(), e.kind.name, e.target, e.role, e.n)
}

// rest is between two faults of one target. The routers have time to notice the end of a fault,
// and a process to start.
const rest = 2 * time.Second

// free reports whether e may begin beside the faults so far. On a busy machine these last longer
// than their schedule says.
func (e *entry) free(faults []*entry, now time.Time) bool {
	for _, f := range faults {
		over := !f.ended.IsZero() && now.Sub(f.ended) >= rest
		if !over && f.role == e.role && (f.target == e.target || f.kind.away && e.kind.away) {
			return false
		}
	}
	return true
}

// schedule draws the faults of a storm. One of each role stays, and nothing has two faults at a
// time.
func schedule(seed, storm uint64, all []kind, size [nobody + 1]int, first [nobody + 1]int, lasts, every time.Duration) (list []*entry) {
	rng := rand.New(rand.NewPCG(seed, storm))
	var busy [nobody + 1]map[int]time.Duration // until when, by target
	var gone [nobody + 1]time.Duration         // until when one of the role is away
	for r := range busy {
		busy[r] = map[int]time.Duration{}
	}
	for at := time.Duration(0); at < lasts; at += time.Duration(rng.ExpFloat64() * float64(every)) {
		k := &all[rng.IntN(len(all))]
		r := k.roles[rng.IntN(len(k.roles))]
		i := first[r] + rng.IntN(size[r])
		e := &entry{kind: k, role: r, target: i, n: rng.IntN(1000), at: at, hold: time.Duration(rng.Float64() * float64(k.hold))}
		if busy[r][i] > at || k.away && size[r] > 1 && gone[r] > at {
			continue
		}
		busy[r][i] = at + e.hold + rest
		if k.away {
			gone[r] = at + e.hold + rest
		}
		list = append(list, e)
	}
	return list
}
