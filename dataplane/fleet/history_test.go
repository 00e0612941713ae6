package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/discover"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// said is what operators and two sources have said of a worker.
type said struct {
	added, drained, cordoned, removed bool
	named                             [2]bool   // by source
	unnamed                           time.Time // since when none does
}

func (s *said) isNamed() bool { return s.named[0] || s.named[1] }

// wanted reports whether the worker is to be in use, cordons apart.
func (s *said) wanted() bool { return s.added || s.isNamed() && !s.removed }

// history is a random one of three workers.
type history struct {
	*harness
	random  *rand.Rand
	sources [2]*scripted // nil: not configured
	of      map[string]*said
	host    string // of the last step
	log     []string
}

var hosts = []string{"a", "b", "c"}

func (h *history) note(parts ...any) { h.log = append(h.log, fmt.Sprintln(parts...)) }

// name has a source name workers.
func (h *history) name(i int, named ...string) {
	h.note("source", i, named)
	h.sources[i].sets <- specsOf(named...)
	h.hear(i, named)
}

// hear notes which workers a source names, and lets the manager follow.
func (h *history) hear(i int, named []string) {
	for host, s := range h.of {
		was := s.isNamed()
		s.named[i] = slices.Contains(named, host)
		switch {
		case was && !s.isNamed():
			s.unnamed = time.Now()
		case !was && s.isNamed() && time.Since(s.unnamed) >= leastDrain:
			s.removed = false
		}
	}
	h.pass(0)
}

// reload takes a source out of the configuration, or puts a new one in.
func (h *history) reload(i int) {
	h.note("reload", i)
	if h.sources[i] == nil {
		h.sources[i] = newScripted(strconv.Itoa(i))
	} else {
		h.sources[i] = nil
	}
	var all []discover.Source
	for _, s := range h.sources {
		if s != nil {
			all = append(all, s)
		}
	}
	h.manager.SetSources(all)
	h.hear(i, nil)
}

// operate has an operator do something, and checks the answer.
func (h *history) operate(host string) {
	s, target, what, on := h.of[host], Target{URL: "http://" + host + ":1"}, h.random.IntN(5), h.random.IntN(2) == 0
	used := h.states()[host] != ""
	if !s.isNamed() && time.Since(s.unnamed) >= leastDrain {
		s.removed = false
	}
	known := used || s.added || s.drained || s.cordoned || s.isNamed()
	want, wrong := known, worker.ErrUnknown
	var err error
	switch what {
	case 0:
		err = h.manager.Add(worker.Spec{URL: target.URL})
		if want, wrong = !s.added && (!used || !s.wanted()), worker.ErrDuplicate; want {
			s.added, s.removed = true, false
		}
	case 1:
		_, err = h.manager.Drain(h.t.Context(), target, on)
		s.drained = on && known
	case 2:
		_, err = h.manager.Cordon(h.t.Context(), target, on)
		s.cordoned = on && known
	default:
		_, err = h.manager.Remove(target.URL, on)
		if want = used || s.added || s.wanted() && !s.cordoned; want {
			s.added, s.drained, s.removed, s.unnamed = false, false, true, time.Now()
			require.False(h.t, on && h.states()[host] != "")
		}
	}
	h.note(host, []string{"add", "drain", "cordon", "remove", "remove"}[what], on, err)
	if want {
		require.NoError(h.t, err, h.log)
	} else {
		require.ErrorIs(h.t, err, wrong, h.log)
	}
}

// step has one thing happen, and checks that what was said holds on.
func (h *history) step() {
	if h.host == "" || h.random.IntN(4) == 0 { // a story of one worker has several steps
		h.host = hosts[h.random.IntN(len(hosts))]
	}
	before, source := h.states(), h.random.IntN(2)
	switch act := h.random.IntN(24); {
	case act < 3 && h.sources[source] != nil:
		h.name(source, slices.DeleteFunc(slices.Clone(hosts), func(string) bool { return h.random.IntN(2) == 0 })...)
	case act == 3:
		h.reload(source)
	case act < 6 && before[h.host] != "":
		h.note("request", h.host)
		lease := h.worker(h.host).Ranks()[0].Load.Begin(10)
		time.AfterFunc(time.Duration(h.random.IntN(90))*time.Second, lease.End)
	case act < 9:
		model := []string{"", "m"}[h.random.IntN(2)]
		h.note("runs", h.host, model)
		h.run(model, h.host)
	default:
		h.operate(h.host)
	}
	for _, d := range []time.Duration{0, 100 * time.Millisecond, []time.Duration{0, 0, time.Second, 15 * time.Second}[h.random.IntN(4)]} {
		h.pass(d)
		for host, state := range h.states() {
			s := h.of[host]
			require.False(h.t, state == ready && (s.drained || s.removed), "%s is used after %v", host, h.log)
			require.False(h.t, before[host] == "" && s.cordoned && !s.added, "%s is used after %v", host, h.log)
		}
	}
	h.note("  ", h.states())
}

// TestHistories: operators are answered by what they and sources have said, and that holds on,
// whatever processes do, and while the caches of removed workers are being forgotten.
func TestHistories(t *testing.T) {
	for seed := range uint64(11) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			inHarness(t, func(y *harness) {
				h := &history{harness: y, random: rand.New(rand.NewPCG(seed, 0)), of: map[string]*said{"a": {}, "b": {}, "c": {}}}
				h.reload(0)
				h.reload(1)
				y.forgets = time.Duration(h.random.IntN(3)) * 10 * time.Second
				y.run("m", hosts...)
				for range 40 {
					h.step()
				}
				y.run("m", "a", "b", "c", "other")
				want := map[string]string{"other": ready}
				for i := range h.sources {
					if h.sources[i] == nil {
						h.reload(i)
					}
					h.name(i, "a", "other")
				}
				for host, s := range h.of {
					if s.cordoned {
						_, err := y.manager.Cordon(y.t.Context(), Target{URL: "http://" + host + ":1"}, false)
						require.NoError(y.t, err)
					}
					switch {
					case s.wanted() && s.drained:
						want[host] = draining
					case s.wanted():
						want[host] = ready
					}
				}
				y.pass(2 * time.Minute)
				y.has(want, fmt.Sprint(h.log))
			})
		})
	}
}
