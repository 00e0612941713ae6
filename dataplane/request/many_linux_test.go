package request_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

// manyChild makes this binary the other side of TestMany: clients and worker are a process of their
// own, so that the memory measured is the router's. Its value is the authority of the router's
// certificate, or "plain".
const manyChild = "WARMPATH_MANY_CHILD"

// many returns the number of connections for a test: few, or the variable's value.
func many(t *testing.T, variable string, few int) int {
	t.Helper()
	if text := os.Getenv(variable); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		return n
	}
	return few
}

// TestFileLimit: Go raises the soft limit of open files at start for programs that import os.
// Without that, most systems allow 1024 connections.
func TestFileLimit(t *testing.T) {
	var hard unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &hard))
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `ulimit -S -n 100 && exec "$0" -test.run '^TestFileLimitChild$'`, os.Args[0])
	cmd.Env = append(os.Environ(), manyChild+"=limit")
	out, err := cmd.Output()
	require.NoError(t, err)
	var files uint64
	_, err = fmt.Sscanf(string(out), "files %d", &files)
	require.NoError(t, err)
	require.GreaterOrEqual(t, files, hard.Max-1) // Go leaves one out
}

// TestFileLimitChild is the other process of TestFileLimit, and tests nothing alone.
func TestFileLimitChild(t *testing.T) {
	if os.Getenv(manyChild) != "limit" {
		t.Skip("is started by TestFileLimit")
	}
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	fmt.Println("files", limit.Cur)
}

// TestMaxClients: beyond the bound a client takes the place of one without a request. Where all have
// one, further requests get 503, but for the router's health and its operators' API.
func TestMaxClients(t *testing.T) { overBoth(t, testMaxClients) }

func testMaxClients(t *testing.T) {
	t.Helper()
	w := newFakeWorker(t, info(1))
	w.Answers("/v1/completions", `{"ok":1}`)
	begun, release := make(chan struct{}), make(chan struct{})
	w.On("/generate", func(rw http.ResponseWriter, _ *http.Request) {
		begun <- struct{}{}
		<-release
		_, _ = io.WriteString(rw, idsReply)
	})
	h := start(t, []*fakeWorker{w}, func(s *settings) { s.Request.Clients.Clients = 3 })
	ask := func(path, body string) *bufio.Reader {
		conn, br := h.dial()
		t.Cleanup(func() { conn.Close() })
		say(t, conn, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body))
		return br
	}
	var busy []*bufio.Reader
	for range 3 {
		busy = append(busy, ask("/generate", idsBody))
		<-begun
	}
	status, body := answer(t, ask("/v1/completions", `{"model":"tiny","prompt":"x"}`))
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "connections")
	metrics := ""
	for _, path := range []string{"/health", "/ready", "/status", "/metrics"} {
		conn, br := h.dial()
		say(t, conn, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
		status, metrics = answer(t, br)
		require.Equal(t, http.StatusOK, status, path)
		require.NoError(t, conn.Close())
	}
	require.NotContains(t, metrics, `warmpath_client_connections_closed_total{reason="full"} 0`)
	require.Contains(t, metrics, `warmpath_client_connections_closed_total{reason="room"} 0`)
	close(release)
	for _, br := range busy {
		status, body := answer(t, br)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, idsReply, body)
	}
	// Idle ones make room. A connection is idle a moment after its client has the answer.
	for served := 0; served < 10; {
		if status, _ := answer(t, ask("/v1/completions", `{"model":"tiny","prompt":"x"}`)); status == http.StatusOK {
			served++
		}
	}
}

// TestMany holds idle and streaming connections and logs the memory of each. The big run:
//
//	WARMPATH_MANY_IDLE=10000 WARMPATH_MANY_STREAMS=2000 go test -run 'TestMany$' -v ./dataplane/request
func TestMany(t *testing.T) {
	idle, streams := many(t, "WARMPATH_MANY_IDLE", 200), many(t, "WARMPATH_MANY_STREAMS", 50)
	t.Run("plain", func(t *testing.T) { holdMany(t, idle, streams, false) })
	t.Run("tls", func(t *testing.T) { holdMany(t, idle, streams, true) })
}

// Bounds of a connection's heap and stack: more than twice today's, so that only another design
// exceeds them.
const (
	mostIdle, mostStream       = 16 << 10, 64 << 10
	mostIdleTLS, mostStreamTLS = 32 << 10, 96 << 10
)

func holdMany(t *testing.T, idle, streams int, encrypted bool) {
	t.Helper()
	var options []option
	mode, maxIdle, maxStream := "plain", mostIdle, mostStream
	if encrypted {
		ca := tlstest.NewAuthority(t)
		pair := ca.Issue("127.0.0.1")
		options = append(options, withTLS(&tls.Config{Certificates: []tls.Certificate{pair.TLS}}))
		mode, maxIdle, maxStream = ca.File, mostIdleTLS, mostStreamTLS
	}
	child := startMany(t, mode)
	h := start(t, nil, options...)
	_, err := h.Registry.Add(child.hear("worker "))
	require.NoError(t, err)
	h.AwaitReady(1)
	addr := h.addr()

	before := measured()
	child.say("idle %d %s", idle, addr)
	child.hear("idle")
	var perIdle memory
	// A connection that waits for a while gives its buffers back (see ingress.Server).
	require.Eventually(t, func() bool {
		perIdle = measured().minus(before).over(idle)
		return perIdle.heap+perIdle.stack < int64(maxIdle)
	}, patience, 50*time.Millisecond, "idle connections keep too much: %v", &perIdle)
	t.Logf("%d idle connections: each %v", idle, perIdle)
	child.say("close")
	child.hear("closed")
	require.Eventually(t, func() bool { return h.Server.Connections() == 0 }, time.Minute, 10*time.Millisecond)

	before = measured()
	child.say("stream %d %s", streams, addr)
	child.hear("streaming")
	require.EqualValues(t, streams, h.Admin.Status().InFlight)
	var perStream memory
	require.Eventually(t, func() bool {
		perStream = measured().minus(before).over(streams)
		return perStream.heap+perStream.stack < int64(maxStream)
	}, patience, 50*time.Millisecond, "streams keep too much: %v", &perStream)
	t.Logf("%d streams: each %v", streams, perStream)
	child.say("finish")
	require.Equal(t, strconv.Itoa(streams), child.hear("finished "), "streams that ended as they should")
}

// memory is a process's memory in bytes.
type memory struct{ heap, stack, resident int64 }

// measured returns this process's memory after unused memory was freed. It takes two
// collections: pooled objects survive one.
func measured() memory {
	for range 3 {
		runtime.GC()
	}
	debug.FreeOSMemory()
	var st runtime.MemStats
	runtime.ReadMemStats(&st)
	m := memory{heap: int64(st.HeapAlloc), stack: int64(st.StackInuse)}
	status, _ := os.ReadFile("/proc/self/status") // none: not Linux
	if _, rest, ok := strings.Cut(string(status), "VmRSS:"); ok {
		_, _ = fmt.Sscan(rest, &m.resident)
		m.resident <<= 10
	}
	return m
}

func (m memory) minus(o memory) memory {
	return memory{m.heap - o.heap, m.stack - o.stack, m.resident - o.resident}
}

func (m memory) over(n int) memory {
	return memory{m.heap / int64(n), m.stack / int64(n), m.resident / int64(n)}
}

func (m memory) String() string {
	kib := func(n int64) string { return strconv.FormatFloat(float64(n)/1024, 'f', 1, 64) }
	return "heap " + kib(m.heap) + " stack " + kib(m.stack) + " resident " + kib(m.resident) + " KiB"
}

// manyProcess is the other process.
type manyProcess struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
}

func startMany(t *testing.T, mode string) *manyProcess {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestManyChild$", "-test.timeout", "20m")
	cmd.Env = append(os.Environ(), manyChild+"="+mode)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &manyProcess{t, in, bufio.NewScanner(out)}
}

// say sends bytes unchanged.
func (p *manyProcess) say(format string, args ...any) {
	_, err := fmt.Fprintf(p.in, format+"\n", args...)
	require.NoError(p.t, err)
}

// hear waits for a line that begins with prefix and returns the rest.
func (p *manyProcess) hear(prefix string) string {
	p.t.Helper()
	require.True(p.t, p.out.Scan(), "the other process ended before it said %q", prefix)
	rest, ok := strings.CutPrefix(p.out.Text(), prefix)
	require.True(p.t, ok, "the other process said %q, want %q", p.out.Text(), prefix)
	return rest
}

// TestManyChild is the other process of TestMany, and tests nothing alone.
func TestManyChild(t *testing.T) {
	mode := os.Getenv(manyChild)
	if mode == "" || mode == "limit" {
		t.Skip("is started by TestMany")
	}
	w := &manyWorker{finish: make(chan struct{})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = (&http.Server{Handler: w}).Serve(l) }()
	fmt.Println("worker http://" + l.Addr().String())
	c := &manyClients{t: t, dial: manyDialer(t, mode)}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var word, addr string
		var n int
		_, _ = fmt.Sscan(in.Text(), &word, &n, &addr)
		switch word {
		case "idle":
			c.open(n, addr, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n", "ok\n")
			c.open(0, addr, manyRequest(false), "done")
			fmt.Println("idle")
		case "close":
			c.closeAll()
			fmt.Println("closed")
		case "stream":
			c.open(n, addr, manyRequest(true), "data: first\n\n")
			fmt.Println("streaming")
		case "finish":
			close(w.finish)
			fmt.Println("finished", c.ended("data: last\n\n"))
		}
	}
	os.Exit(0) // without the checks of leaks: what is open here ends with the process
}

// manyRequest has the size of a prompt.
func manyRequest(stream bool) string {
	body := fmt.Sprintf(`{"text":%q,"stream":%t}`, strings.Repeat("many words ", 200), stream)
	return fmt.Sprintf("POST /generate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// manyWorker streams an event at once and another one when the test says so.
type manyWorker struct{ finish chan struct{} }

func (w *manyWorker) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/ready":
	case "/server_info":
		_, _ = io.WriteString(rw, info(1))
	case "/v1/models":
		_, _ = io.WriteString(rw, `{"data":[{"id":"tiny"}]}`)
	case "/generate":
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"stream":true`) {
			_, _ = io.WriteString(rw, "done")
			return
		}
		_, _ = io.WriteString(rw, "data: first\n\n")
		rw.(http.Flusher).Flush()
		<-w.finish
		_, _ = io.WriteString(rw, "data: last\n\n")
	}
}

func manyDialer(t *testing.T, mode string) func(addr string) (net.Conn, error) {
	t.Helper()
	if mode == "plain" {
		return func(addr string) (net.Conn, error) { return net.Dial("tcp", addr) }
	}
	pem, err := os.ReadFile(mode)
	require.NoError(t, err)
	cfg := &tls.Config{RootCAs: x509.NewCertPool()}
	cfg.RootCAs.AppendCertsFromPEM(pem)
	return func(addr string) (net.Conn, error) { return tls.Dial("tcp", addr, cfg) }
}

// manyClients are connections of clients.
type manyClients struct {
	t     *testing.T
	dial  func(addr string) (net.Conn, error)
	mu    sync.Mutex
	conns []net.Conn // guarded by mu
}

// open makes n connections, or takes those there are where n is 0, sends one request on each and
// waits for an answer up to where it ends with until.
func (c *manyClients) open(n int, addr, request, until string) {
	c.mu.Lock()
	old := c.conns
	c.mu.Unlock()
	next := make(chan net.Conn)
	var wg sync.WaitGroup
	for range 32 { // at a time
		wg.Go(func() {
			for conn := range next {
				if conn == nil {
					var err error
					if conn, err = c.dial(addr); err != nil {
						c.t.Errorf("cannot connect: %v", err)
						continue
					}
					c.mu.Lock()
					c.conns = append(c.conns, conn)
					c.mu.Unlock()
				}
				if _, err := io.WriteString(conn, request); err != nil || !awaitText(conn, until) {
					c.t.Errorf("no answer: %v", err)
				}
			}
		})
	}
	for range n {
		next <- nil
	}
	if n == 0 {
		for _, conn := range old {
			next <- conn
		}
	}
	close(next)
	wg.Wait()
}

// ended counts the connections whose answers end with text.
func (c *manyClients) ended(text string) (n int) {
	for _, conn := range c.conns {
		if awaitText(conn, text) {
			n++
		}
	}
	return n
}

func (c *manyClients) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// awaitText reads until text was seen.
func awaitText(conn net.Conn, text string) bool {
	var got strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(got.String(), text) {
		n, err := conn.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			return false
		}
	}
	return true
}
