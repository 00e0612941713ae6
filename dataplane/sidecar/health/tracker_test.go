package health

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/nvml"
)

// machine is a fake machine with a clock of the test.
type machine struct {
	now  time.Time
	snap nvml.Snapshot
	tr   *Tracker
}

func newMachine(t *testing.T, gpus int) *machine {
	t.Helper()
	m := &machine{now: epoch, tr: NewTracker(Config{}), snap: nvml.Snapshot{State: nvml.StateReady}}
	for i := range gpus {
		m.snap.GPUs = append(m.snap.GPUs, well(i))
	}
	m.run(5 * time.Second)
	return m
}

// read returns a snapshot, as a copy: snapshots do not change.
func (m *machine) read() []Result {
	s := m.snap
	s.At, s.GPUs = m.now, append([]nvml.GPU(nil), m.snap.GPUs...)
	return m.tr.Update(m.now, &s)
}

// run reads once a second, and returns the last results.
func (m *machine) run(d time.Duration) []Result {
	var last []Result
	for end := m.now.Add(d); !m.now.After(end); m.now = m.now.Add(time.Second) {
		last = m.read()
	}
	return last
}

func (m *machine) xid(gpu, code int) {
	m.snap.GPUs[gpu].XIDs = append(m.snap.GPUs[gpu].XIDs, nvml.XID{Code: code, At: m.now})
}

func TestTrackerWell(t *testing.T) {
	m := newMachine(t, 8)
	for i, r := range m.run(time.Minute) {
		assert.Equal(t, Result{GPU: m.snap.GPUs[i].UUID.Value, Index: i, Weight: 1, TP: true, Since: epoch}, r)
	}
}

// A lost GPU counts in the same read, and stays for Fall after its return.
func TestFatalCountsAtOnce(t *testing.T) {
	m := newMachine(t, 2)
	m.snap.GPUs[1].Err = &nvml.Error{Code: nvml.CodeLost}
	res := m.read()
	assert.Equal(t, Dead, res[1].State)
	assert.Equal(t, m.now, res[1].Since)
	assert.Equal(t, Healthy, res[0].State)

	m.snap.GPUs[1].Err = nil
	assert.Equal(t, Dead, m.run(28 * time.Second)[1].State)
	assert.Equal(t, Healthy, m.run(5 * time.Second)[1].State)
}

func TestGlitchDoesNotCount(t *testing.T) {
	m := newMachine(t, 1)
	g := &m.snap.GPUs[0]
	for range 20 {
		g.Throttle = nvml.Some(nvml.PowerBrake)
		assert.Equal(t, Healthy, m.run(time.Second)[0].State)
		g.Throttle = nvml.Some(nvml.Throttle(0))
		assert.Equal(t, Healthy, m.run(3 * time.Second)[0].State)
	}
	g.Throttle, g.Clocks.SM = nvml.Some(nvml.PowerBrake), nvml.Some(1000)
	res := m.run(4 * time.Second)[0]
	assert.Equal(t, Degraded, res.State)
	assert.InDelta(t, 0.5, res.Weight, 0)
}

// A weight falls at once, and rises after Fall to the least of that time.
func TestWeightFollows(t *testing.T) {
	m := newMachine(t, 1)
	g := &m.snap.GPUs[0]
	weight := func(clock int, d time.Duration) float64 {
		g.Clocks.SM = nvml.Some(clock)
		return m.run(d)[0].Weight
	}
	g.Throttle = nvml.Some(nvml.HWThermal)
	assert.InDelta(t, 0.5, weight(1000, 5*time.Second), 0)
	assert.InDelta(t, 0.25, weight(500, time.Second), 0)
	assert.InDelta(t, 0.25, weight(1600, 10*time.Second), 0)
	assert.InDelta(t, 0.25, weight(1200, 10*time.Second), 0)
	assert.InDelta(t, 0.6, weight(1600, 12*time.Second), 0)
	assert.InDelta(t, 0.8, weight(1600, 32*time.Second), 0)
	g.Throttle = nvml.Some(nvml.Throttle(0))
	assert.InDelta(t, 1.0, weight(1800, 32*time.Second), 0)
	assert.Equal(t, Healthy, m.read()[0].State)
}

func TestLinkDownLeavesTensorParallelWork(t *testing.T) {
	m := newMachine(t, 4)
	links := append([]nvml.Link(nil), m.snap.GPUs[2].Links...)
	links[5].Up = nvml.Some(false)
	m.snap.GPUs[2].Links = links
	for i, r := range m.read() {
		assert.Equal(t, i != 2, r.TP)
		assert.InDelta(t, 1.0, r.Weight, 0, "alone it is as fast as ever")
	}
	// A tracker that begins now knows it from the other GPUs.
	m.tr = NewTracker(Config{})
	assert.False(t, m.read()[2].TP)
	// Where all are alike, it is by design.
	for i := range m.snap.GPUs {
		m.snap.GPUs[i].Links = links
	}
	m.tr = NewTracker(Config{})
	for _, r := range m.read() {
		assert.True(t, r.TP)
	}
}

func TestCountersThatRise(t *testing.T) {
	m := newMachine(t, 1)
	g := &m.snap.GPUs[0]
	g.ECC.VolatileUncorrected = nvml.Some(uint64(1))
	res := m.read()[0]
	require.Len(t, res.Reasons, 1)
	assert.Equal(t, "ecc", res.Reasons[0].Rule)
	assert.Equal(t, Healthy, m.run(40 * time.Second)[0].State, "an error is over when no other follows")

	links := append([]nvml.Link(nil), g.Links...)
	links[0].Recoveries = nvml.Some(uint64(3))
	g.Links = links
	assert.InDelta(t, 0.8, m.read()[0].Weight, 0)
	// The driver was reloaded: counters begin anew.
	g.Links = well(0).Links
	assert.Equal(t, Healthy, m.run(40 * time.Second)[0].State)
}

func TestXIDAndRecovery(t *testing.T) {
	m := newMachine(t, 1)
	m.xid(0, 31)
	assert.Equal(t, Healthy, m.run(time.Second)[0].State, "a program's fault")
	m.xid(0, 79)
	assert.Equal(t, Dead, m.read()[0].State)
	m.now = m.now.Add(time.Minute)
	// The driver was reloaded.
	m.snap.GPUs[0].Since, m.snap.GPUs[0].XIDs = m.now, nil
	assert.Equal(t, Healthy, m.run(31 * time.Second)[0].State)
}

func TestDriverThatIsGone(t *testing.T) {
	m := newMachine(t, 2)
	gpus := m.snap.GPUs
	m.snap = nvml.Snapshot{State: nvml.StateBroken, Detail: "version mismatch"}
	for _, r := range m.read() {
		assert.Equal(t, Degraded, r.State, "engines run on when only NVML cannot be used")
		assert.InDelta(t, 0.5, r.Weight, 0)
	}
	m.snap = nvml.Snapshot{State: nvml.StateNoDriver}
	for _, r := range m.read() {
		assert.Equal(t, Dead, r.State)
	}
	m.snap = nvml.Snapshot{State: nvml.StateReady, GPUs: gpus[:1]}
	res := m.run(40 * time.Second)
	assert.Equal(t, []State{Healthy, Dead}, []State{res[0].State, res[1].State}, "one of two is back")
	assert.Empty(t, NewTracker(Config{}).Update(m.now, &nvml.Snapshot{State: nvml.StateStarting}))
}

// Stale facts are doubted: a call into the driver hangs.
func TestStaleFacts(t *testing.T) {
	m := newMachine(t, 1)
	s := m.snap
	s.At = m.now
	assert.Equal(t, Healthy, m.tr.Update(m.now.Add(10*time.Second), &s)[0].State)
	res := m.tr.Update(m.now.Add(11*time.Second), &s)[0]
	assert.Equal(t, Degraded, res.State)
	assert.Equal(t, "unreadable", res.Reasons[0].Rule)
}

// A GPU lost from the start is known by its index until it has a UUID.
func TestLostFromTheStart(t *testing.T) {
	tr := NewTracker(Config{})
	s := &nvml.Snapshot{State: nvml.StateReady, At: epoch, GPUs: []nvml.GPU{{Err: &nvml.Error{Code: nvml.CodeLost}}}}
	assert.Equal(t, "index 0", tr.Update(epoch, s)[0].GPU)
	s.GPUs = []nvml.GPU{well(0)}
	res := tr.Update(epoch, s)
	require.Len(t, res, 1)
	assert.Equal(t, "GPU-a", res[0].GPU)
}

// noise changes one random fact of a GPU.
func noise(m *machine, r *rand.Rand, gpu int) {
	g := &m.snap.GPUs[gpu]
	on := r.IntN(2) == 0
	switch r.IntN(10) {
	case 0:
		g.Throttle = nvml.Some(map[bool]nvml.Throttle{true: nvml.HWThermal}[on])
	case 1:
		g.Clocks.SM = nvml.Some(200 + r.IntN(1800))
	case 2:
		g.Memory.Free = nvml.Some(uint64(r.IntN(4 << 30)))
	case 3:
		g.Rows.Pending = nvml.Some(on)
	case 4:
		g.ECC.VolatileUncorrected = nvml.Some(uint64(r.IntN(5)))
	case 5:
		g.Links = append([]nvml.Link(nil), g.Links...)
		g.Links[r.IntN(18)].Up = nvml.Some(on)
	case 6:
		g.Fabric.Value.Health.BandwidthDegraded = nvml.Some(on)
	case 7:
		g.Err = map[bool]*nvml.Error{true: {Code: nvml.CodeLost}}[on]
	case 8:
		g.PCIe.Width = nvml.Some(map[bool]int{true: 4, false: 16}[on])
	case 9:
		m.xid(gpu, []int{13, 31, 94, 63}[r.IntN(4)])
		g.XIDs = g.XIDs[max(len(g.XIDs)-32, 0):]
	}
}

// TestNoFlapping gives random faults for 20 minutes, and then none. The bound: a rule without
// effect was silent for Fall, so it can begin and end only so often, and a state changes only
// with a rule.
func TestNoFlapping(t *testing.T) {
	const noisy = 20 * time.Minute
	const kinds = 12 // rules that noise can trouble
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 9))
		m := newMachine(t, 2)
		begins, states := map[string]int{}, 0
		before := m.read()[0]
		for end := m.now.Add(noisy); m.now.Before(end); m.now = m.now.Add(time.Second) {
			for range r.IntN(4) {
				noise(m, r, 0)
			}
			res := m.read()
			now := res[0]
			if res[1].State != Healthy {
				t.Fatalf("seed %d: trouble of one GPU is another's: %+v", seed, res[1])
			}
			if now.Weight <= 0 || now.Weight > 1 || (now.State == Healthy) != (len(now.Reasons) == 0) {
				t.Fatalf("seed %d: %+v", seed, now)
			}
			if changed := now.State != before.State; changed != now.Since.Equal(m.now) {
				t.Fatalf("seed %d: state %v after %v since %v", seed, now.State, before.State, now.Since)
			} else if changed {
				states++
			}
			for _, reason := range now.Reasons {
				if reason.Since.Equal(m.now) {
					begins[reason.Rule]++
				}
			}
			before = now
		}
		most := int(noisy/(30*time.Second)) + 1
		for rule, n := range begins {
			assert.LessOrEqual(t, n, most, "seed %d: %s began too often", seed, rule)
		}
		assert.LessOrEqual(t, states, 2*most*kinds, "seed %d", seed)

		// The last trouble is over: all is well once every hold has run out.
		clean := well(0)
		clean.XIDs, clean.ECC = m.snap.GPUs[0].XIDs, m.snap.GPUs[0].ECC
		m.snap.GPUs[0] = clean
		res := m.run(containedHold + 2*time.Minute)[0]
		assert.Equal(t, Healthy, res.State, "seed %d: %+v", seed, res.Reasons)
		assert.InDelta(t, 1.0, res.Weight, 0)
		assert.True(t, res.TP)
	}
}

// A fault that comes and goes every second changes the state twice: at its begin and its end.
func TestOneNoisySignal(t *testing.T) {
	for _, change := range []func(*nvml.GPU, bool){
		func(g *nvml.GPU, on bool) { g.Rows.Pending = nvml.Some(on) },
		func(g *nvml.GPU, on bool) { g.PCIe.Width = nvml.Some(map[bool]int{true: 8, false: 16}[on]) },
		func(g *nvml.GPU, on bool) { g.Err = map[bool]*nvml.Error{true: {Code: nvml.CodeLost}}[on] },
	} {
		m := newMachine(t, 1)
		changes, state := 0, Healthy
		look := func() {
			if s := m.run(0)[0].State; s != state {
				changes, state = changes+1, s
			}
		}
		for i := range 600 {
			change(&m.snap.GPUs[0], i%2 == 0)
			look()
		}
		for range 60 {
			look()
		}
		assert.Equal(t, 2, changes)
		assert.Equal(t, Healthy, state)
	}
}

func TestOnce(t *testing.T) {
	m := newMachine(t, 2)
	m.snap.GPUs[1].Throttle = nvml.Some(nvml.PowerBrake)
	res := Once(m.now, &m.snap)
	assert.Equal(t, []State{Healthy, Degraded}, []State{res[0].State, res[1].State})
	assert.Equal(t, "GPU-b", res[1].GPU)
}

func TestResultJSON(t *testing.T) {
	m := newMachine(t, 1)
	m.snap.GPUs[0].Rows.Failed = nvml.Some(true)
	data, err := json.Marshal(m.read()[0])
	require.NoError(t, err)
	assert.Contains(t, string(data), `"state":"draining"`)
	assert.Contains(t, string(data), `"action":"replace"`)
	assert.Equal(t, "state 9", State(9).String())
	assert.Equal(t, "action 9", Action(9).String())
}
