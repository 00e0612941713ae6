package chaos

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// ErrViolated is the end of a run in which an invariant did not hold.
var ErrViolated = errors.New("an invariant did not hold")

// Config describes a run.
type Config struct {
	Program  string // `warmpath`, built with -race
	Seed     uint64
	Duration time.Duration // of storms; calms come on top
	Storm    time.Duration // of one storm; default 1 min
	Every    time.Duration // between two faults, on average; default 0.5 s
	Clients  int           // default 24
	Calm     int           // requests of a calm, asked twice; default 120
	Dir      string        // of logs, journals and files; default a new temporary one
	Progress io.Writer
}

// storms are repeated until the time is over.
const (
	thinkTime = 200 * time.Millisecond
	// graceful is how long a fault explains failures after its end: breakers, time-outs, restarts.
	graceful = 30 * time.Second
)

func (c *Config) setDefaults() {
	c.Storm, c.Every, c.Clients, c.Calm = cmp.Or(c.Storm, time.Minute), cmp.Or(c.Every, time.Second/2), cmp.Or(c.Clients, 24), cmp.Or(c.Calm, 120)
	c.Progress = &lines{to: c.Progress}
}

// Run runs storms and calms, and prints a table of faults and the requests beside them. When ctx
// ends, the table comes at once.
func Run(ctx context.Context, cfg Config) (err error) {
	cfg.setDefaults()
	s := &site{Config: cfg, dir: cfg.Dir, stopped: func() bool { return ctx.Err() != nil }, launch: make(chan func())}
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "warmpath-chaos-"); err != nil {
			return fmt.Errorf("cannot keep logs: %w", err)
		}
	}
	if s.authority, err = newAuthority(); err != nil {
		return err
	}
	fmt.Fprintf(s.Progress, "seed %d, logs in %s\n", s.Seed, s.dir)
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { s.launchAll(running) })
	defer s.release()
	defer end()
	if err := errors.Join(s.prepare(), s.startOracle(running, &group)); err != nil {
		return err
	}
	defer s.endProcesses()
	if err := s.startProcesses(); err != nil {
		return err
	}
	s.storms(ctx)
	s.closeIdle()
	s.print()
	if len(s.violations) > 0 {
		return fmt.Errorf("%w: %d times, seed %d, logs in %s; the first: %s", ErrViolated, len(s.violations), s.Seed, s.dir, s.violations[0])
	}
	return nil
}

// lines is a writer for several goroutines.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(b) //nolint:wrapcheck // is that writer
}

// storms runs storms and calms until the time is over, or a violation.
func (s *site) storms(ctx context.Context) {
	base := s.calm(nil)
	began := time.Now()
	for storm, left := uint64(1), s.Duration; left > 0 && ctx.Err() == nil; storm, left = storm+1, left-s.Storm {
		s.storm(ctx, storm, min(left, s.Storm), began)
		s.calm(base)
		if len(s.violations) > 0 {
			return
		}
	}
}

// storm runs clients beside the schedule's faults, and ends all of them.
func (s *site) storm(ctx context.Context, storm uint64, lasts time.Duration, began time.Time) {
	var size, first [nobody + 1]int
	size, first = [...]int{3, 2, 2, routers, 1, 1, 1}, [...]int{0, 3, 5, 0, 0, 0, 0}
	list := schedule(s.Seed, storm, kinds(), size, first, lasts, s.Every)
	over, end := context.WithCancel(ctx)
	defer end()
	var clients, faults sync.WaitGroup
	for i := range s.Clients {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(s.Seed^storm<<32, uint64(i)+1))
			for over.Err() == nil {
				s.one(rng)
				sleep(over, time.Duration(rng.ExpFloat64()*float64(thinkTime)))
			}
		})
	}
	start := time.Now()
	clients.Go(func() {
		for tick := time.NewTicker(5 * time.Second); ; {
			select {
			case <-over.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
			s.mu.Lock()
			fmt.Fprintf(s.Progress, "%v, storm %d: %d requests (%v), %d faults, %d violations\n", time.Since(began).Round(time.Second), storm, s.asked, s.fatesText(s.counts[:]), len(s.faults), len(s.violations))
			s.mu.Unlock()
		}
	})
	for _, e := range list {
		if !sleep(ctx, time.Until(start.Add(e.at))) {
			break
		}
		s.mu.Lock()
		if e.began = time.Now(); !e.free(s.faults, e.began) {
			s.mu.Unlock()
			continue
		}
		s.faults, s.last = append(s.faults, e), append(s.last, e)
		s.last = s.last[max(0, len(s.last)-20):]
		s.row(e.kind.name)[fates]++
		s.mu.Unlock()
		heal := e.kind.do(s, e.target, e.n)
		faults.Go(func() {
			sleep(ctx, e.hold)
			if heal != nil {
				heal()
			}
			s.mu.Lock()
			e.ended = time.Now()
			s.mu.Unlock()
		})
	}
	sleep(ctx, time.Until(start.Add(lasts)))
	faults.Wait()
	end()
	clients.Wait()
}

// sleep returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// one sends one request, or garbage, and judges its fate.
func (s *site) one(rng *rand.Rand) {
	number := s.number()
	if rng.IntN(40) == 0 {
		list, router := garbage(number), rng.IntN(routers)
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		text := list[rng.IntN(len(list))]
		if status := sendRaw(ctx, func(ctx context.Context) (net.Conn, error) { return s.dial(ctx, router) }, text); status >= 200 && status < 300 {
			s.violate("garbage is answered with %d: %.200q", status, text)
		}
		s.keep(&ask{number: number, key: wrongKey}, left)
		return
	}
	a := draw(rng, number)
	switch rng.IntN(40) {
	case 0:
		s.leave(a, rng.IntN(4))
	case 1:
		s.pipeline(a, rng)
	default:
		s.judge(a, s.ask(a, rng))
	}
}

// leave sends a request, or half of its body, and goes.
func (s *site) leave(a *ask, way int) {
	const (
		halfThenClose = iota
		halfThenEnd
		wholeThenEnd
		wholeThenReset
	)
	a.form, a.key, a.began = measured, steadyKey, time.Now()
	var piece bytes.Buffer
	req, err := a.request(context.Background(), "http://127.0.0.1", keyText(a.key), a.stream)
	s.must(errors.Join(err, req.Write(&piece)))
	if way <= halfThenEnd {
		a.key = wrongKey // no worker may get it
		piece.Truncate(piece.Len() - len(a.body)/2)
	}
	defer s.keep(a, left)
	conn, err := s.dial(context.Background(), a.router)
	if err != nil {
		return
	}
	defer conn.Close()
	s.must(conn.SetDeadline(time.Now().Add(patience)))
	if _, err := conn.Write(piece.Bytes()); err != nil {
		return
	}
	switch way {
	case halfThenEnd, wholeThenEnd:
		if of, ok := conn.(interface{ CloseWrite() error }); ok && of.CloseWrite() == nil {
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				s.violate("a client that has closed its side is kept: #%d of router %d", a.number, a.router)
			}
		}
	case wholeThenReset:
		if of, ok := conn.(interface{ SetLinger(seconds int) error }); ok {
			_ = of.SetLinger(0) // the close matters
		}
	}
}

// pipeline sends several requests in one piece. Their answers come in order.
func (s *site) pipeline(a *ask, rng *rand.Rand) {
	list := []*ask{a}
	for range 1 + rng.IntN(3) {
		list = append(list, draw(rng, s.number()))
	}
	var piece bytes.Buffer
	for _, b := range list {
		b.router, b.key, b.leaves, b.began = a.router, steadyKey, false, time.Now()
		req, err := b.request(context.Background(), "http://127.0.0.1", keyText(b.key), b.stream)
		s.must(errors.Join(err, req.Write(&piece)))
	}
	conn, err := s.dial(context.Background(), a.router)
	if err == nil {
		defer conn.Close()
		s.must(conn.SetDeadline(time.Now().Add(patience)))
		_, err = conn.Write(piece.Bytes())
	}
	if err != nil {
		for _, b := range list {
			s.judge(b, err)
		}
		return
	}
	answers, closes := bufio.NewReader(conn), false
	for _, b := range list {
		if closes { // as the answer before said
			b.key = wrongKey // no worker may get it
		}
		if err != nil {
			s.keep(b, left)
			continue
		}
		var resp *http.Response
		if resp, err = http.ReadResponse(answers, nil); err != nil {
			s.judge(b, err)
			continue
		}
		text, bad := b.read(resp, b.stream)
		_ = resp.Body.Close()
		if bad == nil {
			bad = s.compare(b, text)
		}
		s.judge(b, bad)
		if closes = resp.Close; closes || b.fateOf(bad) == cut {
			err = io.EOF
		}
	}
}

// number is that of the next request.
func (s *site) number() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.asked
}

// ask sends a request; its answer is compared with the oracle's.
func (s *site) ask(a *ask, rng *rand.Rand) error {
	ctx := context.Background()
	if a.leaves {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Duration(rng.Float64()*float64(500*time.Millisecond)))
		defer stop()
	}
	a.began = time.Now()
	text, err := a.send(ctx, s.clients[a.router], s.bases[a.router], keyText(a.key), a.stream)
	if err != nil {
		return err
	}
	return s.compare(a, text)
}

// compare compares an answer with the oracle's.
func (s *site) compare(a *ask, text string) error {
	of := *a
	of.form = measured
	if want, err := of.send(context.Background(), s.plain, s.oracle.URL(), "", false); err != nil || want != text {
		return fmt.Errorf("%w: %q for %q (%w)", errWrong, text, want, err)
	}
	return nil
}

// judge notes the fate of a request, and a violation if no fault explains it.
func (s *site) judge(a *ask, err error) {
	f := a.fateOf(err)
	now := time.Now()
	s.mu.Lock()
	worker, breaks := false, false // faults that explain
	for _, e := range s.faults {
		if over := !e.ended.IsZero(); over && a.began.After(e.ended.Add(graceful)) {
			continue
		}
		worker = worker || e.role <= decode
		breaks = breaks || e.kind.breaks && e.target == a.router
		if e.ended.IsZero() || a.began.Before(e.ended) {
			s.row(e.kind.name)[f]++
		}
	}
	s.mu.Unlock()
	s.keep(a, f)
	what := fmt.Sprintf("request #%d, %s, stream %v, key %d, of router %d after %v: %v", a.number, a.path, a.stream, a.key, a.router, now.Sub(a.began).Round(time.Millisecond), err)
	switch {
	case f == answered && a.key == wrongKey:
		s.violate("a wrong key is answered: %s", what)
	case f == answered, f == left:
	case errors.Is(err, errWrong), errors.Is(err, errTruncated), now.Sub(a.began) > patience-time.Second, strings.Contains(err.Error(), "x509"):
		s.violate("%s", what)
	case f == told && a.status == http.StatusUnauthorized && a.key != steadyKey:
	case f == told && a.status == http.StatusTooManyRequests && a.key == limitedKey:
	case f == told && a.status >= 400 && a.status < 500 && a.status != http.StatusTooManyRequests:
		s.violate("the client is blamed: %s", what)
	case f == told && !worker && !breaks:
		s.violate("no fault explains an error: %s", what)
	case f == refused && !breaks, f == cut && !a.head && !breaks:
		s.violate("no fault explains a broken connection: %s", what)
	case f == cut && !worker && !breaks:
		s.violate("no fault explains an answer that ends: %s", what)
	}
	if f == told {
		reason, _, _ := strings.Cut(err.Error(), "127.0.0.1")
		s.mu.Lock()
		s.reasons[fmt.Sprintf("%.70s", reason)]++
		s.mu.Unlock()
	}
}

// keep counts a request and remembers it for the journals.
func (s *site) keep(a *ask, f fate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[f]++
	a.body = ""
	a.head = f == answered
	s.ended = append(s.ended, a)
}

// row is the table's row of a kind; mu is held.
func (s *site) row(name string) *[fates + 1]int64 {
	if s.table[name] == nil {
		s.table[name] = &[fates + 1]int64{}
	}
	return s.table[name]
}

// deaf has clients ask for long streams and read nothing.
func (s *site) deaf(n int) (heal func()) {
	body := `{"text":"deaf","stream":true,"sampling_params":{"max_new_tokens":3000,"ignore_eos":true}}`
	return s.silent(n, 3, func(int) string {
		return fmt.Sprintf("POST /generate HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", keyText(steadyKey), len(body), body)
	})
}

// dumb has clients send a part of a request, and nothing more.
func (s *site) dumb(n int) (heal func()) {
	parts := []string{"", "P", "POST /generate HTTP/1.1\r\nHost: x\r\n", "POST /generate HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + keyText(steadyKey) + "\r\nContent-Length: 1000000\r\n\r\n{"}
	return s.silent(n, 40, func(i int) string { return parts[i/routers%len(parts)] })
}

// silent has clients send something and then nothing, and read nothing, until heal is called.
func (s *site) silent(n, clients int, says func(i int) string) (heal func()) {
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			conn, err := s.dial(ctx, (n+i)%routers)
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, says(i)) // the router may end just now
			<-ctx.Done()
		})
	}
	return func() { stop(); all.Wait() }
}

// levels is a router at rest.
type levels struct{ goroutines, descriptors, heap, hits float64 }

// calm checks all invariants when nothing fails. base is the first calm's; nil in the first.
func (s *site) calm(base []levels) []levels {
	s.closeIdle()
	s.await("no load, all workers used", s.load)
	if s.stopped() {
		return nil
	}
	s.readJournals()
	s.mu.Lock()
	before := s.counts
	s.faults = s.faults[:0:0] // nothing explains anything now
	s.mu.Unlock()
	s.asks(rand.New(rand.NewPCG(s.Seed, 0)), s.Calm) // warms
	from := s.hits()
	s.asks(rand.New(rand.NewPCG(s.Seed, 0)), s.Calm)
	to := s.hits()
	for _, c := range s.clients {
		c.CloseIdleConnections()
	}
	s.await("no load after the calm", s.load)
	s.readJournals()
	s.mu.Lock()
	now := s.counts
	s.mu.Unlock()
	if s.stopped() {
		return nil
	}
	if now[answered]-before[answered] != 2*int64(s.Calm) {
		s.violate("of %d requests without a fault %d are answered", 2*s.Calm, now[answered]-before[answered])
	}
	s.await("the limited client has its place", s.place)
	s.readJournals()
	var list []levels
	s.await("goroutines, descriptors and memory are back", func() string {
		list = list[:0]
		for i := range s.fronts {
			l := s.levels(i)
			l.hits = (to[0] - from[0]) / max(1, to[1]-from[1])
			if base != nil {
				b := base[i]
				if l.goroutines > 1.5*b.goroutines+50 || l.descriptors > 1.5*b.descriptors+50 || l.heap > 2*b.heap+64<<20 {
					return fmt.Sprintf("router %d: %+v, at first %+v", i, l, b)
				}
			}
			list = append(list, l)
		}
		return ""
	})
	if base != nil && len(list) > 0 && list[0].hits < base[0].hits-0.1 {
		s.violate("the hit rate is %.2f, at first %.2f", list[0].hits, base[0].hits)
	}
	fmt.Fprintf(s.Progress, "calm: %.2f hits, %+v, computed twice beside a fault %d\n", (to[0]-from[0])/max(1, to[1]-from[1]), list, s.twice)
	return list
}

// place names a router that does not answer the client with one place.
func (s *site) place() string {
	for i := range s.fronts {
		a := draw(rand.New(rand.NewPCG(s.Seed, 1)), s.number())
		a.router, a.key, a.leaves = i, limitedKey, false
		err := s.ask(a, nil)
		s.keep(a, a.fateOf(err))
		if err != nil {
			return fmt.Sprintf("router %d: %v", i, err)
		}
	}
	return ""
}

// asks sends requests that must be answered.
func (s *site) asks(rng *rand.Rand, n int) {
	var clients sync.WaitGroup
	turns := make(chan *ask)
	for range 4 {
		clients.Go(func() {
			for a := range turns {
				s.judge(a, s.ask(a, nil))
			}
		})
	}
	for range n {
		if s.stopped() {
			break
		}
		a := draw(rng, s.number())
		a.leaves, a.key = false, steadyKey
		turns <- a
	}
	close(turns)
	clients.Wait()
}

// await waits until nothing is missing.
func (s *site) await(name string, lacks func() string) {
	for end := time.Now().Add(patience); ; time.Sleep(pollEvery) {
		missing := lacks()
		if missing == "" || s.stopped() {
			return
		}
		if time.Now().After(end) {
			s.violate("%s: not after %v: %s", name, patience, missing)
			return
		}
	}
}

// get reads a page; "" if there is none.
func (s *site) get(client *http.Client, url string) []byte {
	resp, err := client.Get(url)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return body
}

// status has the fields of a router's /status that the driver reads.
type status struct {
	InFlight int64   `json:"in_flight"`
	Prompt   float64 `json:"prompt_tokens"`
	Hit      float64 `json:"hit_tokens"`
	Workers  []struct {
		ID       string
		State    string
		InFlight int64                   `json:"in_flight"`
		Pending  int64                   `json:"pending_tokens"`
		Events   *struct{ State string } `json:"events"`
	} `json:"workers"`
}

// load names the work that is not over yet.
func (s *site) load() string {
	for i := range s.fronts {
		var st status
		if err := json.Unmarshal(s.get(s.clients[i], s.bases[i]+"/status"), &st); err != nil {
			return fmt.Sprintf("router %d: %v", i, err)
		}
		if st.InFlight != 0 || len(st.Workers) != len(modes) {
			return fmt.Sprintf("router %d has %d in flight and %d workers", i, st.InFlight, len(st.Workers))
		}
		for _, w := range st.Workers {
			if w.InFlight != 0 || w.Pending != 0 || w.State != "ready" || w.Events == nil || w.Events.State != "live" {
				return fmt.Sprintf("router %d about a worker: %+v, events %+v", i, w, w.Events)
			}
		}
	}
	for i, addr := range s.addrs {
		var st struct {
			Loads []struct {
				Running int `json:"num_running_reqs"`
				Waiting int `json:"num_waiting_reqs"`
			}
		}
		if err := json.Unmarshal(s.get(s.plain, "http://"+addr+"/v1/loads"), &st); err != nil || len(st.Loads) == 0 || st.Loads[0].Running+st.Loads[0].Waiting != 0 {
			return fmt.Sprintf("worker %d: %+v, %v", i, st, err)
		}
	}
	return ""
}

// hits are the cached tokens and the tokens of all prompts so far.
func (s *site) hits() (sum [2]float64) {
	for i := range s.fronts {
		var st status
		_ = json.Unmarshal(s.get(s.clients[i], s.bases[i]+"/status"), &st)
		sum[0], sum[1] = sum[0]+st.Hit, sum[1]+st.Prompt
	}
	return sum
}

// levels reads a router's metrics.
func (s *site) levels(i int) (l levels) {
	for line := range bytes.Lines(s.get(s.clients[i], s.bases[i]+"/metrics")) {
		name, number, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		v, _ := strconv.ParseFloat(number, 64)
		switch name {
		case "go_goroutines":
			l.goroutines = v
		case "go_gc_heap_live_bytes":
			l.heap += v
		case "process_open_fds":
			l.descriptors = v
		case "warmpath_index_bytes", "warmpath_approx_bytes", "warmpath_session_cache_bytes":
			l.heap -= v
		}
	}
	return l
}

// readJournals compares the workers' journals since the last time with the clients' answers.
func (s *site) readJournals() {
	begun, done := map[int64]bool{}, map[int64]map[string][]int{} // workers, by mode
	for i, mode := range modes {
		file, err := os.Open(s.journal(i))
		if err != nil {
			s.must(err)
			continue
		}
		_, _ = file.Seek(s.offsets[s.journal(i)], io.SeekStart)
		for lines := bufio.NewScanner(file); lines.Scan(); {
			s.offsets[s.journal(i)] += int64(len(lines.Bytes())) + 1
			n, err := strconv.ParseInt(lines.Text()[1:], 10, 64)
			s.must(err)
			begun[n] = true
			if lines.Bytes()[0] == '-' {
				if done[n] == nil {
					done[n] = map[string][]int{}
				}
				done[n][mode] = append(done[n][mode], i)
			}
		}
		_ = file.Close()
	}
	s.mu.Lock()
	ended, faults := s.ended, s.faults
	s.ended = nil
	s.mu.Unlock()
	for _, a := range ended {
		if a.key == wrongKey && begun[a.number] {
			s.violate("a worker has got what it must not get: #%d", a.number)
		}
		if a.head && len(done[a.number][""])+len(done[a.number]["decode"]) == 0 {
			s.violate("nobody has computed the answer to #%d", a.number)
		}
		for mode, by := range done[a.number] {
			if len(by) < 2 {
				continue
			}
			s.twice++
			if !slices.ContainsFunc(faults, func(e *entry) bool {
				// Lost before, at or behind the worker.
				return e.role <= front && !a.began.After(e.ended.Add(graceful))
			}) {
				s.violate("#%d is computed %d times, mode %q, by %v, beside no fault", a.number, len(by), mode, by)
			}
		}
	}
}

func (s *site) fatesText(counts []int64) string {
	var parts []string
	for f := range fates {
		parts = append(parts, fmt.Sprintf("%d %v", counts[f], f))
	}
	return strings.Join(parts, ", ")
}

// print prints the table.
func (s *site) print() {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.table))
	for name := range s.table {
		names = append(names, name)
	}
	sort.Strings(names)
	out := tabwriter.NewWriter(s.Progress, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "fault\ttimes\tof the requests beside it: answered\ttold of an error\tcut\trefused\tleft\t")
	for _, name := range names {
		r := s.table[name]
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t\n", name, r[fates], r[answered], r[told], r[cut], r[refused], r[left])
	}
	_ = out.Flush()
	fmt.Fprintf(s.Progress, "%d requests: %s; computed twice beside a fault %d\n", s.asked, s.fatesText(s.counts[:]), s.twice)
	reasons := make([]string, 0, len(s.reasons))
	for r, n := range s.reasons {
		reasons = append(reasons, fmt.Sprintf("%6d  %q", n, r))
	}
	sort.Sort(sort.Reverse(sort.StringSlice(reasons)))
	fmt.Fprintf(s.Progress, "what clients were told:\n%s\n", strings.Join(reasons, "\n"))
	for _, v := range s.violations {
		fmt.Fprintln(s.Progress, "VIOLATION:", v)
	}
	if len(s.violations) > 0 {
		fmt.Fprintf(s.Progress, "seed %d, logs in %s; the last faults of the schedule:\n", s.Seed, s.dir)
		for _, e := range s.last {
			fmt.Fprintln(s.Progress, e)
		}
	}
}
