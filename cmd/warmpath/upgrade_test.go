package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// line is a client's connection that asks again for nothing: what libraries send twice is lost here.
type line struct {
	addr string
	conn net.Conn // nil: the next request opens one
	r    *bufio.Reader
}

// reached is the fate of a request.
type reached struct {
	header  http.Header
	body    string
	closing bool // the router has told the client to close
}

// refusedError is a connection that was not accepted.
type refusedError struct{ error }

// ask sends one request and reads its answer. begun, which may be nil, is called at its head.
func (l *line) ask(path, body string, begun func()) (reached, error) {
	if l.conn == nil {
		conn, err := net.Dial("tcp", l.addr)
		if err != nil {
			return reached{}, refusedError{err}
		}
		l.conn, l.r = conn, bufio.NewReader(conn)
	}
	answer, err := l.answer(path, body, begun)
	if err != nil || answer.closing {
		l.close()
	}
	return answer, err
}

func (l *line) answer(path, body string, begun func()) (reached, error) {
	if err := l.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return reached{}, err
	}
	if _, err := fmt.Fprintf(l.conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body); err != nil {
		return reached{}, err
	}
	resp, err := http.ReadResponse(l.r, nil)
	if err != nil {
		return reached{}, err
	}
	if begun != nil {
		begun()
	}
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = toldError(fmt.Sprint(resp.StatusCode, " ", string(text)))
	}
	return reached{resp.Header, string(text), resp.Close}, err
}

func (l *line) close() {
	if l.conn != nil {
		_ = l.conn.Close()
		l.conn = nil
	}
}

// traffic is clients that count what became of their requests.
type traffic struct {
	addr                           string
	request                        func(n int64, stream bool) (path, body string) // nil: of /generate
	asked                          atomic.Int64                                   // numbers prompts: no two are equal
	answered, refused, cut, denied atomic.Int64
	closing                        atomic.Int64 // answers that told to close the connection
	mu                             sync.Mutex
	first                          string               // failure; guarded by mu
	count                          map[string]int       // answers by worker; guarded by mu
	last                           map[string]time.Time // worker → when the last request that it answered was sent; guarded by mu
}

// one sends a request, a stream or not, over a line.
func (f *traffic) one(l *line, stream bool) {
	n, sent := f.asked.Add(1), time.Now()
	path, body := "/generate", fmt.Sprintf(`{"model":"simulated","input_ids":[%d,%d,7,8,9],"stream":%t,"sampling_params":{"max_new_tokens":%d,"ignore_eos":true}}`, n/1000, 1000+n%1000, stream, 4+n%20)
	if f.request != nil {
		path, body = f.request(n, stream)
	}
	got, err := l.ask(path, body, nil)
	if err == nil && stream && !strings.HasSuffix(got.body, "data: [DONE]\n\n") {
		err = io.ErrUnexpectedEOF
	}
	if got.closing {
		f.closing.Add(1)
	}
	switch err.(type) { //nolint:errorlint // as they are made
	case nil:
		f.answered.Add(1)
		f.note(got.header.Get("X-Warmpath-Worker"), sent)
		return
	case refusedError:
		f.refused.Add(1)
	case toldError:
		f.denied.Add(1)
	default:
		f.cut.Add(1)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first == "" {
		f.first = err.Error()
	}
}

// note notes the worker that answered.
func (f *traffic) note(worker string, sent time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == nil {
		f.count, f.last = map[string]int{}, map[string]time.Time{}
	}
	f.count[worker]++
	if sent.After(f.last[worker]) {
		f.last[worker] = sent
	}
}

// start runs n clients until stop: half of them keep their connections. With a rate they send so
// many requests a second together, whatever the answers take, else each the next one at once.
func (f *traffic) start(n int, rate float64) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	turns := make(chan struct{})
	if rate > 0 {
		clients.Go(func() {
			tick := time.NewTicker(time.Duration(float64(time.Second) / rate))
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				select {
				case turns <- struct{}{}:
				case <-ctx.Done():
					return
				}
			}
		})
	} else {
		close(turns)
	}
	for i := range n {
		clients.Go(func() {
			l := &line{addr: f.addr}
			defer l.close()
			for ctx.Err() == nil {
				select {
				case <-turns:
				case <-ctx.Done():
					return
				}
				f.one(l, i%3 == 0)
				if i%2 == 0 {
					l.close()
				}
			}
		})
	}
	return func() {
		cancel()
		clients.Wait()
	}
}

// more waits for n more answers.
func (f *traffic) more(t *testing.T, n int64) {
	t.Helper()
	from := f.answered.Load()
	testkit.AwaitThat(t, func() bool { return f.answered.Load() >= from+n || f.failures() > 0 }, func() string { return "the clients get no answers" })
}

func (f *traffic) failures() int64 { return f.refused.Load() + f.cut.Load() + f.denied.Load() }

// holder is a worker of a model of its own, whose streams end when the test wants it.
type holder struct {
	*httptest.Server
	release chan struct{}
	held    atomic.Int64 // requests
}

func startHolder(t *testing.T) *holder {
	t.Helper()
	h := &holder{release: make(chan struct{})}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ready":
		case "/v1/models":
			fmt.Fprint(w, `{"data":[{"id":"held"}]}`)
		case "/server_info":
			fmt.Fprint(w, `{"version":"0.5.23","served_model_name":"held","page_size":4}`)
		case "/v1/completions":
			h.held.Add(1)
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n")
			_ = http.NewResponseController(w).Flush()
			<-h.release
			fmt.Fprint(w, "data: [DONE]\n\n")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

// upgraded is a router that is replaced by its successors under load.
type upgraded struct {
	*process
	addr string
	pids []int // of this process and its successors
}

func startUpgraded(t *testing.T, args ...string) *upgraded {
	t.Helper()
	addr := freePorts(t, 1)[0]
	u := &upgraded{process: newProcess(t, serveArgs(append(args, "--listen", addr, "--queue-timeout", patience.String(), "--drain-timeout", patience.String())...)...), addr: addr}
	u.pids = []int{u.cmd.Process.Pid}
	return u
}

var successorLine = regexp.MustCompile(`the upgrade begins.* pid=(\d+)`)

// upgrade has the last process start its successor and waits until that one has taken over.
func (u *upgraded) upgrade() {
	u.t.Helper()
	n := len(u.pids)
	require.NoError(u.t, syscall.Kill(u.pids[n-1], upgradeSignal))
	u.says("the upgrade begins", n)
	begun := successorLine.FindAllStringSubmatch(u.log.String(), -1)
	pid, err := strconv.Atoi(begun[n-1][1])
	require.NoError(u.t, err)
	u.pids = append(u.pids, pid)
	u.says("this process has taken over", n)
}

// ends waits until a process is no more: its parent, who may be anybody, may have to be told yet.
func (u *upgraded) ends(pid int) {
	u.t.Helper()
	testkit.AwaitThat(u.t, func() bool {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		return err != nil || bytes.Contains(stat, []byte(") Z "))
	}, func() string { return fmt.Sprintf("process %d goes on", pid) })
}

// TestUpgradeUnderLoad replaces a router by new processes while clients with kept and with new
// connections send requests and streams: none is refused, cut or sent twice.
func TestUpgradeUnderLoad(t *testing.T) {
	f := startFleet(t, 3, 10_000)
	h := startHolder(t)
	args := []string{"--snapshot", f.file, "--snapshot-interval", "1h", "--worker", h.URL}
	for _, w := range f.sims {
		args = append(args, "--worker", w.URL())
	}
	u := startUpgraded(t, args...)
	awaitReady(t, u.addr, 4)
	base := "http://" + u.addr
	known := send(t, base, prompt(300, 1), `,"model":"simulated"`)
	idle := &line{addr: u.addr}
	_, err := idle.ask("/generate", `{"model":"simulated","input_ids":[1,2,3],"sampling_params":{"max_new_tokens":1}}`, nil)
	require.NoError(t, err)

	load := &traffic{addr: u.addr}
	stop := load.start(upgradeClients, upgradeRate)
	began := time.Now()
	for range upgrades {
		load.more(t, upgradeAnswers)
		streaming, streamed := make(chan struct{}), make(chan error, 1)
		go func() {
			l := &line{addr: u.addr}
			defer l.close() // else the process that streams has a client
			got, err := l.ask("/v1/completions", `{"model":"held","prompt":"a","stream":true}`, func() { close(streaming) })
			if err == nil && !strings.HasSuffix(got.body, "data: [DONE]\n\n") {
				err = fmt.Errorf("%w: %q", io.ErrUnexpectedEOF, got.body)
			}
			streamed <- err
		}()
		<-streaming
		u.upgrade()
		load.more(t, upgradeAnswers)
		h.release <- struct{}{}
		assert.NoError(t, <-streamed, "a stream that began before the upgrade")
	}
	stop()
	took := time.Since(began)
	got, err := idle.ask("/generate", `{"model":"simulated","input_ids":[4,5,6],"sampling_params":{"max_new_tokens":1}}`, nil)
	assert.NoError(t, err, "a connection that was idle for the whole upgrade")
	assert.True(t, got.closing)
	http.DefaultClient.CloseIdleConnections()
	for _, pid := range u.pids[:upgrades] {
		u.ends(pid)
	}
	t.Logf("%d upgrades, %d answers in %v, %.0f a second; refused %d, cut %d, denied %d; %d told to close", upgrades, load.answered.Load(), took.Round(time.Millisecond),
		float64(load.answered.Load())/took.Seconds(), load.refused.Load(), load.cut.Load(), load.denied.Load(), load.closing.Load())
	require.Zero(t, load.failures(), load.first)
	assert.Positive(t, load.closing.Load(), "kept connections are told to close")
	assert.EqualValues(t, upgrades, h.held.Load())
	sent := int(load.answered.Load()) + 3 // known and those of idle
	testkit.AwaitThat(t, func() bool { return served(f.sims) >= sent }, func() string { return "the workers have fewer requests" })
	assert.Equal(t, sent, served(f.sims), "requests at the workers")

	again := send(t, base, prompt(300, 1), `,"model":"simulated"`)
	assert.Equal(t, known.worker, again.worker)
	assert.Equal(t, 288/page, again.matched, "the successor knows what workers hold")
	http.DefaultClient.CloseIdleConnections()
}

// served counts the requests that workers have begun to answer.
func served(sims []*sim.Worker) (n int) {
	for _, w := range sims {
		n += w.Ended()
	}
	return n
}

// TestUpgradeFails: a successor that cannot start has changed nothing.
func TestUpgradeFails(t *testing.T) {
	t.Parallel()
	w := startFleet(t, 1).sims[0]
	config := filepath.Join(t.TempDir(), "warmpath.yaml")
	replace(t, config, "worker: "+w.URL()+"\n")
	u := startUpgraded(t, "--config", config)
	awaitReady(t, u.addr, 1)
	for n := range 2 {
		replace(t, config, "polcy: kv\n")
		require.NoError(t, syscall.Kill(u.pids[0], upgradeSignal))
		u.says("the upgrade has failed; this process serves on", n+1)
		send(t, "http://"+u.addr, prompt(20, n), "")
	}
	replace(t, config, "worker: "+w.URL()+"\n")
	u.upgrade()
	send(t, "http://"+u.addr, prompt(20, 3), "")
	http.DefaultClient.CloseIdleConnections()
	u.ends(u.pids[0])
}

// TestUpgradeWaitsForWorkers: a successor that knows no worker leaves clients to the process that
// does, and SIGTERM ends both.
func TestUpgradeWaitsForWorkers(t *testing.T) {
	t.Parallel()
	w := startFleet(t, 1).sims[0]
	u := startUpgraded(t)
	u.says("warmpath serves", 1)
	resp, err := http.Post("http://"+u.addr+"/workers", "application/json", strings.NewReader(`{"url":"`+w.URL()+`"}`))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	awaitReady(t, u.addr, 1)
	require.NoError(t, syscall.Kill(u.pids[0], upgradeSignal))
	u.says("the upgrade begins", 1)
	pid, err := strconv.Atoi(successorLine.FindStringSubmatch(u.log.String())[1])
	require.NoError(t, err)
	u.pids = append(u.pids, pid)
	u.says("warmpath serves", 2)
	for n := range 20 {
		send(t, "http://"+u.addr, prompt(20, n), "")
	}
	require.NoError(t, syscall.Kill(u.pids[0], upgradeSignal))
	u.says("another process is starting", 1)
	http.DefaultClient.CloseIdleConnections()
	require.NoError(t, syscall.Kill(u.pids[0], syscall.SIGTERM))
	u.ends(u.pids[0])
	u.ends(pid)
}

// TestUpgradeOutlivesItsPredecessor: where the process that a successor waits for dies, it serves,
// and can be upgraded itself.
func TestUpgradeOutlivesItsPredecessor(t *testing.T) {
	t.Parallel()
	u := startUpgraded(t) // no worker: the successor waits
	u.says("warmpath serves", 1)
	require.NoError(t, syscall.Kill(u.pids[0], upgradeSignal))
	u.says("warmpath serves", 2)
	begun := successorLine.FindStringSubmatch(u.log.String())
	pid, err := strconv.Atoi(begun[1])
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, upgradeSignal))
	u.says("this process has not taken over itself yet", 1)
	require.NoError(t, syscall.Kill(u.pids[0], syscall.SIGKILL))
	u.says("this process has taken over", 1)
	resp, err := http.Get("http://" + u.addr + "/health")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.NoError(t, syscall.Kill(pid, upgradeSignal))
	u.says("the upgrade begins", 2)
	http.DefaultClient.CloseIdleConnections()
}

// TestActivation: sockets of systemd are served, and systemd hears how the router is.
func TestActivation(t *testing.T) {
	t.Parallel()
	w := startFleet(t, 1).sims[0]
	told := listenNotify(t)
	addrs, files := boundSockets(t)
	p := &process{t: t, args: serveArgs("--worker", w.URL(), "--listen", "192.0.2.1:80")}
	p.files = files
	p.env = []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=warmpath.socket:operator", "NOTIFY_SOCKET=" + told.path, "WATCHDOG_USEC=400000"}
	t.Cleanup(p.kill)
	p.start()
	for _, f := range files {
		require.NoError(t, f.Close())
	}
	ready := told.await(t, "READY=1")
	assert.Contains(t, ready, "STATUS=Serves requests.")
	send(t, "http://"+addrs[0], prompt(20, 1), "")
	resp, err := http.Get("http://" + addrs[1] + "/status")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	resp, err = http.Get("http://" + addrs[0] + "/status")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, http.StatusNotFound, resp.StatusCode, "operators have a socket of their own")
	told.await(t, "WATCHDOG=1")
	p.hangUp()
	assert.Regexp(t, `^RELOADING=1\nMONOTONIC_USEC=\d+$`, told.await(t, "RELOADING=1"))
	assert.Equal(t, "READY=1", told.await(t, "READY=1"))
	pid := p.cmd.Process.Pid
	require.NoError(t, syscall.Kill(pid, upgradeSignal))
	main := told.await(t, "MAINPID=")
	successor, err := strconv.Atoi(strings.TrimPrefix(main, "MAINPID="))
	require.NoError(t, err)
	told.await(t, "READY=1")
	told.await(t, "WATCHDOG=1")
	http.DefaultClient.CloseIdleConnections()
	(&upgraded{process: p}).ends(pid)
	send(t, "http://"+addrs[0], prompt(20, 2), "")
	require.NoError(t, syscall.Kill(successor, syscall.SIGTERM))
	told.await(t, "STOPPING=1")
	http.DefaultClient.CloseIdleConnections()
	(&upgraded{process: p}).ends(successor)
}

// TestRestartBehindAKeptSocket: while systemd has the socket, clients that come during a restart wait
// for the next process.
func TestRestartBehindAKeptSocket(t *testing.T) {
	t.Parallel()
	w := startFleet(t, 1).sims[0]
	addrs, files := boundSockets(t)
	p := &process{t: t, args: serveArgs("--worker", w.URL(), "--queue-timeout", patience.String()), files: files[:1]}
	p.env = []string{"LISTEN_FDS=1", "LISTEN_FDNAMES=clients"}
	t.Cleanup(p.kill)
	p.start()
	awaitReady(t, addrs[0], 1)
	http.DefaultClient.CloseIdleConnections()
	load := &traffic{addr: addrs[0]}
	stop := load.start(4, 0)
	load.more(t, 50)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	_ = p.cmd.Wait()
	p.start()
	p.says("state=ready", 1)
	load.more(t, 50)
	stop()
	t.Logf("%d answers; refused %d, cut %d, denied %d; %d told to close", load.answered.Load(), load.refused.Load(), load.cut.Load(), load.denied.Load(), load.closing.Load())
	require.Zero(t, load.refused.Load(), load.first)
	if !strings.Contains(p.log.String(), "can serve no model yet") { // else it began without its worker, as this machine is
		require.Zero(t, load.denied.Load(), load.first)
	}
}

// boundSockets returns two sockets as systemd hands them over.
func boundSockets(t *testing.T) (addrs []string, files []*os.File) {
	t.Helper()
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		file, err := l.(*net.TCPListener).File()
		require.NoError(t, err)
		addrs, files = append(addrs, l.Addr().String()), append(files, file)
		require.NoError(t, l.Close())
	}
	return addrs, files
}

// TestActivationRefuses: of two sockets for clients none would be served without a word.
func TestActivationRefuses(t *testing.T) {
	t.Parallel()
	_, files := boundSockets(t)
	p := &process{t: t, args: serveArgs(), files: files, env: []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=warmpath.socket:warmpath.socket"}}
	t.Cleanup(p.kill)
	p.start()
	p.says("FileDescriptorName=operator", 1)
	state, err := p.cmd.Process.Wait()
	require.NoError(t, err)
	require.Equal(t, 1, state.ExitCode())
}

// notified is the messages to systemd.
type notified struct {
	path string
	conn *net.UnixConn
}

func listenNotify(t *testing.T) *notified {
	t.Helper()
	n := &notified{path: filepath.Join(t.TempDir(), "notify")}
	var err error
	n.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: n.path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { n.conn.Close() })
	return n
}

// await returns the next message that begins with a text.
func (n *notified) await(t *testing.T, text string) string {
	t.Helper()
	require.NoError(t, n.conn.SetReadDeadline(time.Now().Add(pairPatience)))
	for b := make([]byte, 4096); ; {
		size, err := n.conn.Read(b)
		require.NoError(t, err, text)
		if message := string(b[:size]); strings.HasPrefix(message, text) {
			return message
		}
	}
}
