package top

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/admin/history"
)

var update = flag.Bool("update", false, "write the screens in testdata")

// noon is the time of the readings.
var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func someWorker(i int) admin.WorkerStatus {
	w := admin.WorkerStatus{State: "ready", StateSeconds: 7300, Overlap: "exact", Blocks: 62_000 - 100*i, Sessions: 3, Sources: []string{"flags"}}
	w.ID = fmt.Sprintf("http://10.0.%d.%d:30000", i/250, i%250+1)
	w.URL, w.Role = w.ID, "regular"
	w.Model, w.Version, w.PageSize = "qwen3-32b", "0.5.23", 16
	w.Requests, w.Failed, w.Share = uint64(1000+i), uint64(i%3), .25
	w.RequestRate = history.Value(i % 5)
	w.PromptTokens, w.HitTokens, w.HitRate, w.InFlight = 1e6, 600_000, .6-float64(i%40)/100, int64(i%7)
	w.Load = admin.LoadStatus{InFlight: int64(4 + i%7), Waiting: int64(i % 3), PendingTokens: 12_000, UsedTokens: 210_000, PoolTokens: 480_000, PrefillPerSecond: 21_500, PredictedWait: .56}
	w.Trust = admin.TrustStatus{Credit: 1, Accuracy: .97, Compared: 64}
	w.Events = &admin.EventsStatus{State: "live", LagMS: 2, Batches: 81_000}
	w.Breaker = admin.BreakerStatus{State: "closed"}
	w.GPUs = &admin.GPUHealthStatus{State: "unknown"}
	return w
}

func someReading(workers int) Reading {
	r := Reading{At: noon}
	no := history.Value(math.NaN())
	r.History.Now = history.Now{TTFT50: no, TTFT99: no, ITL50: no, ITL99: no, Requests: no, PromptTokens: no, GeneratedTokens: no, HitRate: no, ExpectedRate: no, Errors: no, SavedSeconds: no}
	r.Status = admin.Status{Version: "test", UptimeSeconds: 7321, Policy: "kv", Queue: &admin.QueueStatus{}, Models: []admin.ServedModel{{Model: "qwen3-32b", Ready: true}}}
	for i := range workers {
		r.Status.Workers = append(r.Status.Workers, someWorker(i))
	}
	return r
}

// withTraffic adds a quarter of an hour of requests.
func (r Reading) withTraffic() Reading {
	wave := func(low, high float64) (column []history.Value) {
		for i := range 180 {
			column = append(column, history.Value(low+(high-low)*(1+math.Sin(float64(i)/20))/2))
		}
		return column
	}
	zero := func() []history.Value { return wave(0, 0) }
	h := &r.History.Recent
	*h = history.Series{
		StepSeconds: 5, At: make([]float64, 180), TTFT50: wave(.08, .12), TTFT99: wave(.3, .9), ITL50: wave(.011, .012), ITL99: wave(.02, .04),
		Requests: wave(20, 40), PromptTokens: wave(30_000, 60_000), HitTokens: wave(20_000, 30_000), GeneratedTokens: wave(2000, 4000),
		HitRate: wave(.5, .6), ExpectedRate: wave(.55, .65), SavedSeconds: wave(1, 2), Waiting: zero(), InFlight: wave(10, 20), Workers: wave(4, 4), Ready: wave(4, 4),
		Busy: zero(), Keys: zero(), Client: zero(), Worker: zero(), Router: zero(), Cut: zero(),
	}
	r.History.Now = history.Now{
		TTFT50: .113, TTFT99: .801, ITL50: .0118, ITL99: .037, Requests: 36.7, PromptTokens: 55_100, GeneratedTokens: 3700, HitRate: .58, ExpectedRate: .63, SavedSeconds: 289,
	}
	r.Status.InFlight = 16
	return r
}

// concerned adds a concern to a reading, and to its worker i, where it is about one.
func (r *Reading) concerned(i int, severity admin.Severity, seconds float64, text, advice string) {
	c := admin.Concern{Kind: "worker_" + text, Severity: severity, Text: text, Advice: advice, SinceSeconds: seconds}
	if i >= 0 {
		w := &r.Status.Workers[i]
		c.Subject, c.Text = w.ID, w.ID+" "+text
		w.Concerns = append(w.Concerns, c)
	}
	r.Status.Concerns = append(r.Status.Concerns, c)
}

// states are readings of routers, each with another screen.
func states() map[string]Reading {
	empty, normal := someReading(0), someReading(4).withTraffic()
	empty.concerned(-1, admin.Fault, 0, "No workers: every request is refused", "Start the router with --worker, --discover or --cluster, or add a worker with POST /workers.")
	failing := someReading(7).withTraffic()
	for i, change := range []func(w *admin.WorkerStatus){
		func(*admin.WorkerStatus) {},
		func(w *admin.WorkerStatus) { w.State, w.StateSeconds = "dead", 192 },
		func(w *admin.WorkerStatus) { w.State, w.StateSeconds = "slow", 41 },
		func(w *admin.WorkerStatus) { w.State, w.StateSeconds, w.Drain = "draining", 12, []string{"operator"} },
		func(w *admin.WorkerStatus) { w.Events.LagMS = 4200 },
		func(w *admin.WorkerStatus) { w.Breaker = admin.BreakerStatus{State: "open", Faults: 5, Opened: 2} },
		func(w *admin.WorkerStatus) {
			w.Node, w.Cordoned = "gpu-3", true
			w.GPUs = &admin.GPUHealthStatus{State: "dead", Reasons: []string{"GPU 2: XID 79, fallen off the bus"}}
		},
	} {
		change(&failing.Status.Workers[i])
	}
	failing.concerned(1, admin.Fault, 192, "is dead: dial tcp 10.0.0.2:30000: connection refused\x1b[2J\nand more", "Look at the engine's log\x1b[2J.")
	failing.concerned(6, admin.Fault, 0, "has a dead GPU: GPU 2: XID 79, fallen off the bus", "Reset or replace the GPU.")
	failing.concerned(-1, admin.Fault, 0, "7 requests got an error of a worker in the last 5 minutes", "Look at the logs of the engines that have failed requests.")
	failing.concerned(2, admin.Warning, 41, "does not answer its probes in time: timeout", "Look at the load and the network of its machine.")
	failing.concerned(5, admin.Warning, 0, "fails requests: its breaker is not closed: 5 faults in a row", "Look at the engine's log.")
	failing.concerned(4, admin.Warning, 0, "has events behind: 4.2s late", "Look at the network to the worker.")
	failing.Status.Workers[4].Concerns[0].Kind = "worker_events_late"
	failing.concerned(-1, admin.Warning, 3.4, "12 requests in the queue: all workers that could take them are full; 5.5 a second leave it", "If this lasts, add workers.")
	failing.concerned(3, admin.Note, 12, "is draining: operator: 3 requests in flight", "It can be stopped once its requests have ended.")
	failing.Status.Queue = &admin.QueueStatus{Waiting: 12, OldestSeconds: 3.4, Rate: 5.5}
	failing.History.Now.Errors, failing.History.Recent.Worker[170] = 7, 7
	many := someReading(1000).withTraffic()
	for i := range 40 {
		w := &many.Status.Workers[i*17]
		w.State, w.StateSeconds = "dead", float64(60+i)
		w.Concerns = []admin.Concern{{Kind: "worker_dead", Severity: admin.Fault, Subject: w.ID, Text: w.ID + " is dead: connection refused", SinceSeconds: w.StateSeconds}}
	}
	many.concerned(-1, admin.Fault, 60, "40 workers are dead; the latest is http://10.0.0.1:30000: connection refused", "Look at the engine's log and start it again.")
	return map[string]Reading{"empty": empty, "normal": normal, "failing": failing, "many": many}
}

func shownModel(r Reading, width, height int) *model {
	m := &model{router: "http://10.0.0.9:8001", every: 2 * time.Second, width: width, height: height}
	m.learn(&answer{reading: r, at: r.At})
	return m
}

// same compares a screen with the one in testdata, which a person has looked at.
func same(t *testing.T, name, screen string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(screen), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), screen, "go test -run Screens ./dataplane/admin/top -update writes %s", file)
}

func text(m *model) string {
	lines := strings.Split(ansi.Strip(m.screen()), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func press(m *model, keys ...string) {
	codes := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown, "end": tea.KeyEnd, "pgdown": tea.KeyPgDown, "backspace": tea.KeyBackspace}
	for _, k := range keys {
		key := tea.KeyPressMsg{Code: codes[k]}
		if key.Code == 0 {
			key = tea.KeyPressMsg{Code: []rune(k)[0], Text: k}
		}
		m.Update(key)
	}
}

func TestScreens(t *testing.T) {
	for name, r := range states() {
		for _, size := range [][2]int{{80, 24}, {120, 40}} {
			same(t, fmt.Sprintf("%s-%dx%d", name, size[0], size[1]), text(shownModel(r, size[0], size[1])))
		}
	}
	same(t, "many-60x20", text(shownModel(states()["many"], 60, 20)))
	m := shownModel(states()["failing"], 80, 24)
	press(m, "enter")
	same(t, "worker-80x24", text(m))
	m = shownModel(states()["failing"], 80, 24)
	m.learn(&answer{err: errors.New("cannot ask the router at http://10.0.0.9:8001: connection refused"), at: noon.Add(75 * time.Second)})
	same(t, "gone-80x24", text(m))
	var out bytes.Buffer
	require.NoError(t, Snapshot(t.Context(), Config{Router: "http://10.0.0.9:8001", Ask: func(context.Context) (Reading, error) { return states()["failing"], nil }}, &out))
	same(t, "snapshot", out.String())
}

// TestScreenFits: at no size, in no state and on no page is a line too long or missing, and nothing
// of a worker's reaches the terminal as a command.
func TestScreenFits(t *testing.T) {
	for name, r := range states() {
		widths, heights := []int{1, 20, 60, 79, 80, 100, 200, 300}, []int{1, 2, 5, 24, 60}
		if name == "many" { // which takes long to sort
			widths, heights = []int{80}, []int{24}
		}
		for _, width := range widths {
			for _, height := range heights {
				m := shownModel(r, width, height)
				for _, key := range []string{"down", "enter", "esc", "/", "esc", "d"} {
					press(m, key)
					screen := m.screen()
					lines := strings.Split(screen, "\n")
					require.Len(t, lines, height, "%s at %dx%d after %s", name, width, height, key)
					for _, line := range lines {
						require.LessOrEqual(t, ansi.StringWidth(line), width, "%s at %dx%d after %s: %q", name, width, height, key, line)
					}
					require.NotContains(t, screen, "\x1b[2J")
				}
			}
		}
	}
}

// TestNamesTellRowsApart: where not all fits, columns go before the names, whose ends differ.
func TestNamesTellRowsApart(t *testing.T) {
	r := someReading(4)
	for i, name := range []string{strings.Repeat("long-", 40) + "a", "日本語ワーカー\x1b[2J\u202e-b", "👩\u200d👧-c", "d"} {
		r.Status.Workers[i].ID = "http://" + name + ":30000"
	}
	for _, size := range [][2]int{{60, 20}, {80, 24}, {200, 60}} {
		screen := text(shownModel(r, size[0], size[1]))
		for _, end := range []string{"-a:30000", "-b:30000", "-c:30000", " d:30000"} {
			assert.Contains(t, screen, end, "%v", size)
		}
	}
}

// TestNoneReadyIsAnAlarm: the first line is red where nothing serves.
func TestNoneReadyIsAnAlarm(t *testing.T) {
	r := someReading(2)
	require.NotContains(t, shownModel(r, 80, 24).screen(), string(alarm))
	r.Status.Workers[0].State, r.Status.Workers[1].State = "dead", "slow"
	screen := shownModel(r, 80, 24).screen()
	require.True(t, strings.HasPrefix(screen, "\x1b["+string(alarm)+"m"), "%q", screen[:20])
}

func TestCompareNames(t *testing.T) {
	names := []string{"", "10.0.0.2:1", "10.0.0.10:1", "10.0.0.10:2", "gpu", "gpu-1", "gpu-01-a", "gpu-1-b", "gpu-9", "gpu-10", "gpu-100", "gpu-x"}
	for i, a := range names {
		for j, b := range names {
			assert.Equal(t, cmp.Compare(i, j), compareNames(a, b), "%q and %q", a, b)
		}
	}
}

func TestKeys(t *testing.T) {
	m := shownModel(states()["many"], 80, 24)
	chosen := func() string {
		for line := range strings.SplitSeq(text(m), "\n") {
			if strings.HasPrefix(line, "> ") {
				return strings.Fields(line)[1]
			}
		}
		return ""
	}
	require.NotEmpty(t, chosen(), "a row has the cursor")
	press(m, "end")
	last := chosen()
	require.NotEmpty(t, last, "the cursor stays in sight")
	require.Equal(t, last, strings.TrimPrefix(m.chosen, "http://"))

	// The worker stays chosen as its row moves.
	r := states()["many"]
	for i := range r.Status.Workers {
		if r.Status.Workers[i].ID == m.chosen {
			r.Status.Workers[i].State = "dead"
			r.Status.Workers[i].Concerns = []admin.Concern{{Severity: admin.Fault, Text: "It is dead"}}
		}
	}
	m.learn(&answer{reading: r, at: r.At})
	require.Equal(t, last, chosen())
	require.Less(t, m.cursor, 100, "the dead come first")
	press(m, "r")
	require.Equal(t, last, chosen())
	press(m, "r")

	press(m, "/", "d", "e", "a", "d", "x", "backspace")
	require.Contains(t, text(m), "filter: dead_")
	require.Contains(t, text(m), `41 of 1000 with "dead"`)
	press(m, "enter", "q")
	require.Contains(t, text(m), "q quit")
	press(m, "esc")
	require.NotContains(t, text(m), "with")

	for range orders {
		press(m, "s")
	}
	require.Contains(t, text(m), "Workers, by state")
	press(m, "enter")
	require.Contains(t, text(m), "http://"+last)
	require.Contains(t, text(m), "It is dead")
	press(m, "esc")
	require.Equal(t, last, chosen())

	// The worker of an open page may go.
	press(m, "enter")
	m.learn(&answer{reading: someReading(1), at: noon})
	require.Contains(t, text(m), "does not have this worker any more")
	press(m, "esc")
	require.Equal(t, "10.0.0.1:30000", chosen())
	m.learn(&answer{reading: states()["empty"], at: noon})
	press(m, "down", "enter", "up")
	require.Contains(t, text(m), "No workers")
}

// TestRouterGoesAndComes: the last reading stays on the screen, with its age.
func TestRouterGoesAndComes(t *testing.T) {
	m := &model{router: "here", every: time.Second, width: 100, height: 30}
	require.Contains(t, text(m), "Asking here")
	m.learn(&answer{err: errors.New("connection refused"), at: noon})
	require.Contains(t, text(m), "connection refused. Trying again every 1s.")
	require.NotContains(t, text(m), "WORKER")
	m.learn(&answer{reading: someReading(2), at: noon})
	require.NotContains(t, text(m), "refused.")
	m.learn(&answer{err: errors.New("connection refused"), at: noon.Add(time.Minute)})
	require.Contains(t, text(m), "below is the state of 12:00:00, 1 min 0 s ago.")
	require.Contains(t, text(m), "10.0.0.2:30000")
	back := someReading(2)
	back.At = noon.Add(90 * time.Second)
	for i := range back.Status.Workers {
		back.Status.Workers[i].Events, back.Status.Workers[i].GPUs = nil, nil
	}
	m.learn(&answer{reading: back, at: back.At})
	require.NotContains(t, text(m), "refused.")
	press(m, "enter") // of a worker with parts that its router leaves out
	require.Contains(t, text(m), "none, 0 s late")
}

// TestRun runs the program on pipes: it follows its router, and NO_COLOR has no colours.
func TestRun(t *testing.T) {
	for _, tt := range []struct {
		env     string
		colours bool
	}{{"NO_COLOR=1", false}, {"NO_COLOR=", true}} {
		in, keys := io.Pipe()
		asked := 0
		seen := make(chan struct{})
		var out bytes.Buffer
		done := make(chan error, 1)
		go func() {
			done <- Run(t.Context(), Config{Router: "r", Every: time.Millisecond, Ask: func(context.Context) (Reading, error) {
				if asked++; asked == 3 {
					close(seen)
				}
				return states()["failing"], nil
			}}, tea.WithInput(in), tea.WithOutput(&out), tea.WithWindowSize(80, 24), tea.WithEnvironment([]string{"TERM=xterm-256color", "TTY_FORCE=1", tt.env}))
		}()
		<-seen
		_, err := io.WriteString(keys, "q")
		require.NoError(t, err)
		require.NoError(t, <-done)
		_ = keys.Close()
		assert.Contains(t, out.String(), "10.0.0.2:30000")
		assert.Equal(t, tt.colours, strings.Contains(out.String(), "\x1b[33m"), "%s: %q", tt.env, out.String())
	}
}
