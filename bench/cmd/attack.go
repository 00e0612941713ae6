package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/bench/proxy"
)

// attackConfig names the routers to attack, and the address of the workers behind them.
type attackConfig struct {
	peers     map[string]string
	pids      map[string]int
	operators map[string]string
	worker    string
	workers   int
	only      string
}

func newAttackCommand() *cobra.Command {
	cfg := attackConfig{}
	c := &cobra.Command{
		Use:   "attack",
		Short: "Send hostile requests and answers through routers, and show what came of each",
		Long: `Attack serves workers of its own, which answer well, or as badly as a request asks for. Routers in
front of them get hostile requests and answers, one kind after the other, beside good requests of eight
clients. The first table shows what came of each; LOST and DOUBLED count the good requests, and SMUGGLED
says that workers got more requests than the client got answers. The second shows what each router had
left at the end. Start the routers first, with the workers' addresses.`,
		Example: `  bin/bench attack --worker 127.0.0.1:9001 --workers 2 \
    --peer warmpath=http://127.0.0.1:3000 --pid warmpath=123 --operator warmpath=http://127.0.0.1:3001 \
    --peer haproxy=http://127.0.0.1:3100 --pid haproxy=124`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return attack(cmd.Context(), &cfg, cmd.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringToStringVar(&cfg.peers, "peer", nil, "NAME=URL of a router (repeatable)")
	f.StringToIntVar(&cfg.pids, "pid", nil, "NAME=PID of its process, for its memory (repeatable)")
	f.StringToStringVar(&cfg.operators, "operator", nil, "NAME=URL of its Go profiles, for its goroutines (repeatable)")
	f.StringVar(&cfg.worker, "worker", "127.0.0.1:9001", "address of the first worker; the others have the ports after it")
	f.IntVar(&cfg.workers, "workers", 2, "workers")
	f.StringVar(&cfg.only, "only", "", "only attacks whose name contains this")
	return c
}

// patience bounds each attack and each good request.
const patience = 20 * time.Second

// stand is the workers behind the routers.
type stand struct {
	mu      sync.Mutex
	seen    map[string]int // requests by id; guarded by mu
	open    atomic.Int64   // requests under way
	aborted atomic.Int64
}

// attack attacks each peer with everything, and prints the tables.
func attack(ctx context.Context, cfg *attackConfig, out io.Writer) error {
	s := &stand{seen: map[string]int{}}
	host, port, err := net.SplitHostPort(cfg.worker)
	if err != nil {
		return fmt.Errorf("cannot use --worker: %w", err)
	}
	first, err := strconv.Atoi(port)
	if err != nil {
		return fmt.Errorf("cannot use --worker: %w", err)
	}
	for i := range cfg.workers {
		var listen net.ListenConfig
		l, err := listen.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(first+i)))
		if err != nil {
			return fmt.Errorf("cannot serve a worker: %w", err)
		}
		defer func() { _ = l.Close() }()
		go s.accept(l)
	}
	fmt.Fprintln(out, "| router | attack | what came of it | good ones beside it |\n| --- | --- | --- | --- |")
	var ends strings.Builder
	ends.WriteString("\n| router | resident at rest, before → after | descriptors | threads | goroutines | requests left at the workers |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, name := range slices.Sorted(mapKeys(cfg.peers)) {
		at, err := url.Parse(cfg.peers[name])
		if err != nil {
			return fmt.Errorf("cannot use --peer: %w", err)
		}
		p := &target{name: name, addr: at.Host, stand: s, pid: cfg.pids[name], operator: cfg.operators[name]}
		if err := p.await(ctx); err != nil {
			return err
		}
		before := p.state(ctx)
		for _, a := range attacks() {
			if ctx.Err() == nil && strings.Contains(a.name, cfg.only) {
				fmt.Fprintf(out, "| %s | %s | %s |\n", name, a.name, p.run(ctx, &a))
			}
		}
		after := p.settle(ctx, before)
		fmt.Fprintf(&ends, "| %s | %s → %s MB | %d → %d | %d → %d | %s → %s | %d |\n", name, mb(before.RSS), mb(after.RSS),
			before.Descriptors, after.Descriptors, before.Threads, after.Threads, before.goroutines, after.goroutines, s.open.Load())
	}
	fmt.Fprint(out, ends.String())
	return nil
}

func mapKeys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func mb(n int64) string { return strconv.FormatInt(n>>20, 10) }

// accept serves a worker.
func (s *stand) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go s.serve(c)
	}
}

// prompt is the text of a request to the workers: the kind of its answer, and its id.
type prompt struct{ kind, id string }

func readPrompt(body []byte) (p prompt) {
	var doc struct {
		Text any
		RID  string
	}
	_ = json.Unmarshal(body, &doc)
	text, _ := doc.Text.(string)
	if list, ok := doc.Text.([]any); ok && len(list) > 0 {
		text, _ = list[0].(string)
	}
	_, _ = fmt.Sscan(text, &p.kind, &p.id)
	return p
}

func (s *stand) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	br := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if !s.answer(c, br, r, body) {
			return
		}
	}
}

// answer answers one request, and reports whether the connection goes on.
func (s *stand) answer(c net.Conn, br *bufio.Reader, r *http.Request, body []byte) bool {
	send := func(text string) bool { _, err := io.WriteString(c, text); return err == nil }
	switch r.URL.Path {
	case "/abort_request":
		s.aborted.Add(1)
		return send(sized("{}"))
	case "/generate", "/v1/completions":
	default:
		return send(sized(`{"model_path":"m","served_model_name":"m","object":"list","data":[{"id":"m","object":"model"}],"max_total_num_tokens":100000}`))
	}
	p := readPrompt(body)
	s.mu.Lock()
	s.seen[p.id]++
	s.mu.Unlock()
	s.open.Add(1)
	defer s.open.Add(-1)
	switch p.kind {
	case "stream":
		ok := send(eventsHead)
		for i := 0; ok && i < 20; i++ {
			time.Sleep(2 * time.Millisecond)
			ok = send(chunk(fmt.Sprintf("data: {\"text\":\"%d\",\"meta_info\":{\"id\":\"x\",\"prompt_tokens\":3,\"completion_tokens\":%d,\"finish_reason\":null}}\n\n", i, i+1)))
		}
		return ok && send(chunk("data: [DONE]\n\n")+"0\r\n\r\n")
	case "hold": // until its client has left
		_, err := br.Peek(1)
		return err == nil
	}
	if f := badAnswers[p.kind]; f != nil {
		f(c)
		return false
	}
	return send(sized(goodBody))
}

const (
	goodBody   = `{"text":"ok","output_ids":[1],"meta_info":{"id":"x","finish_reason":{"type":"stop"},"prompt_tokens":3,"completion_tokens":1,"cached_tokens":0}}`
	okHead     = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	eventsHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)

func sized(body string) string {
	return okHead + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
}

func chunk(data string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(data), data) }

// says returns an answer of these bytes, after which the worker closes the connection.
func says(text string) func(net.Conn) {
	return func(c net.Conn) { _, _ = io.WriteString(c, text) }
}

// repeats returns an answer that goes on until the router closes the connection, or for so many
// bytes.
func repeats(begin, again string, most int) func(net.Conn) {
	return func(c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(patience))
		n, err := io.WriteString(c, begin)
		for err == nil && n < most {
			var m int
			m, err = io.WriteString(c, again)
			n += m
		}
	}
}

// badAnswers are the answers of ill workers, by name.
var badAnswers = map[string]func(net.Conn){
	"two-lengths":         says(okHead + "Content-Length: 2\r\nContent-Length: 40\r\n\r\n" + goodBody),
	"length-and-chunks":   says(okHead + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(goodBody) + "0\r\n\r\n"),
	"more-than-it-says":   says(sized(goodBody) + sized(`{"not":"yours"}`)),
	"less-than-it-says":   says(okHead + "Content-Length: 4000\r\n\r\n" + goodBody),
	"bad-chunk-size":      says(okHead + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"),
	"huge-chunk-size":     says(okHead + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff0\r\n{}\r\n0\r\n\r\n"),
	"chunk-without-end":   says(okHead + "Transfer-Encoding: chunked\r\n\r\n" + chunk(goodBody)),
	"lf-only":             says(strings.ReplaceAll(sized(goodBody), "\r\n", "\n")),
	"nul-in-head":         says(okHead + "X-A: a\x00b\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(goodBody)) + goodBody),
	"split-in-field":      says(okHead + "X-A: a\rSet-Cookie: b\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(goodBody)) + goodBody),
	"nuls":                says(okHead + "Content-Length: 100\r\n\r\n" + strings.Repeat("\x00", 100)),
	"204-with-a-body":     says("HTTP/1.1 204 No Content\r\nContent-Length: 15\r\n\r\n{\"not\":\"yours\"}"),
	"1xx-flood":           repeats("", "HTTP/1.1 102 Processing\r\n\r\n", 1<<30),
	"endless-head":        repeats("HTTP/1.1 200 OK\r\n", "X-A: b\r\n", 1<<30),
	"endless-line":        repeats("HTTP/1.1 200 OK\r\nX-A: ", "aaaaaaaaaaaaaaaa", 1<<30),
	"switching-protocols": says("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
	"http-2":              says("HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
	"garbage":             says("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
	"nothing":             says(""),
	"not-json":            says(okHead + "Content-Length: 5\r\n\r\n<html"),
	"event-of-256-MB":     repeats("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: ", strings.Repeat("x", 64<<10), 256<<20),
	"gzip-bomb":           gzipBomb,
	"events-of-nothing":   repeats("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n", strings.Repeat("\n", 64<<10), 64<<20),
	"long-trailers":       repeats(okHead+"Trailer: A\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk(goodBody)+"0\r\n", "A: b\r\n", 1<<30),
	"error-500":           says("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"),
}

// zeros are a hundred megabytes in a hundred kilobytes.
var zeros = sync.OnceValue(func() string {
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	_, _ = zw.Write(make([]byte, 100<<20))
	_ = zw.Close()
	return b.String()
})

func gzipBomb(c net.Conn) {
	_, _ = io.WriteString(c, okHead+fmt.Sprintf("Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", len(zeros()))+zeros())
}

// target is a router under attack.
type target struct {
	name, addr, operator string
	pid                  int
	stand                *stand
	number               atomic.Int64
}

func (t *target) id() string { return fmt.Sprintf("%s-%d", t.name, t.number.Add(1)) }

// await waits until the router serves.
func (t *target) await(ctx context.Context) error {
	for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(100 * time.Millisecond) {
		if err := t.good(ctx, t.id()); err == nil {
			return nil
		} else if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("cannot get an answer of %s at %s: start it with the workers of --worker", t.name, t.addr)
}

// good sends a good request, every other one streamed, and checks its answer.
func (t *target) good(ctx context.Context, id string) error {
	kind, want := "good", goodBody
	if id[len(id)-1]%2 == 0 {
		kind, want = "stream", "data: [DONE]\n\n"
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	body := fmt.Sprintf(`{"model":"m","text":"%s %s","stream":%t}`, kind, id, kind == "stream")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+t.addr+"/generate", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || !strings.HasSuffix(string(got), want)) {
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	return err
}

var client = &http.Client{Transport: &http.Transport{DisableCompression: true}}

// beside sends good requests until stop is called, which counts them.
func (t *target) beside(ctx context.Context) (stop func() string) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var mu sync.Mutex
	var sent []string
	lost, slowest := map[string]int{}, time.Duration(0)
	var ending atomic.Bool
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for n := 0; n < 10 || !ending.Load(); n++ {
				id, begun := t.id(), time.Now()
				err := t.good(ctx, id)
				mu.Lock()
				sent = append(sent, id)
				slowest = max(slowest, time.Since(begun))
				if err != nil {
					lost[shortened(err.Error())]++
				}
				mu.Unlock()
			}
		})
	}
	return func() string {
		ending.Store(true)
		wg.Wait()
		cancel()
		doubled := 0
		t.stand.mu.Lock()
		for _, id := range sent {
			if t.stand.seen[id] > 1 {
				doubled++
			}
		}
		t.stand.mu.Unlock()
		var text strings.Builder
		fmt.Fprintf(&text, "%d sent, slowest %.2f s", len(sent), slowest.Seconds())
		for why, n := range lost {
			fmt.Fprintf(&text, ", LOST %d (%s)", n, why)
		}
		if doubled > 0 {
			fmt.Fprintf(&text, ", DOUBLED %d", doubled)
		}
		return text.String()
	}
}

func shortened(text string) string {
	if i := strings.LastIndex(text, ": "); i >= 0 {
		text = text[i+2:]
	}
	return strings.NewReplacer("|", "/", "\n", " ").Replace(text[:min(len(text), 40)])
}

// run runs one attack, and returns its row.
func (t *target) run(ctx context.Context, a *hostility) string {
	for range 60 { // an earlier one must not count here
		if t.stand.open.Load() == 0 || ctx.Err() != nil {
			break
		}
		time.Sleep(time.Second)
	}
	if t.pid > 0 {
		proxy.ResetPeak(t.pid)
	}
	stop := t.beside(ctx)
	begun := time.Now()
	what := a.do(ctx, t)
	took := time.Since(begun)
	beside := stop()
	if took > time.Second {
		what += fmt.Sprintf(", %.1f s", took.Seconds())
	}
	if t.pid > 0 {
		if u, err := proxy.Use(t.pid); err == nil && u.Peak > 100<<20 {
			what += ", peak " + mb(u.Peak) + " MB"
		}
	}
	return what + " | " + beside
}

// state is the use of a router at rest.
type state struct {
	proxy.Usage
	goroutines string
}

func (t *target) state(ctx context.Context) (s state) {
	if t.pid > 0 {
		s.Usage, _ = proxy.Use(t.pid)
	}
	s.goroutines = "-"
	if t.operator != "" {
		if req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.operator+"/debug/pprof/goroutine?debug=1", nil); err == nil {
			if resp, err := client.Do(req); err == nil {
				line, _ := bufio.NewReader(resp.Body).ReadString('\n')
				_ = resp.Body.Close()
				if f := strings.Fields(line); len(f) > 0 {
					s.goroutines = f[len(f)-1]
				}
			}
		}
	}
	return s
}

// settle returns the state after at most three minutes, once as much is in use as before.
func (t *target) settle(ctx context.Context, before state) (s state) {
	client.CloseIdleConnections()
	for range 180 {
		s = t.state(ctx)
		if t.stand.open.Load() == 0 && s.Descriptors <= before.Descriptors+4 && s.RSS < before.RSS+64<<20 || ctx.Err() != nil {
			break
		}
		time.Sleep(time.Second)
	}
	return s
}

// hostility is one kind of attack.
type hostility struct {
	name string
	do   func(ctx context.Context, t *target) string
}

// attacks returns all attacks. In raw requests {} is a good body with an id, # its length.
func attacks() (all []hostility) {
	const post = "POST /generate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	const inner = "POST /generate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 45\r\n\r\n{\"model\":\"m\",\"text\":\"good hidden 0123456789\"}"
	raw := func(name, send string) {
		all = append(all, hostility{name, func(ctx context.Context, t *target) string { return t.sendRaw(ctx, send) }})
	}
	chunked := post + "Transfer-Encoding: chunked\r\n\r\n"
	raw("length and chunks", post+"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+inner)
	raw("chunks and a longer length", post+"Transfer-Encoding: chunked\r\nContent-Length: 300\r\n\r\n0\r\n\r\n"+inner)
	raw("two lengths", post+"Content-Length: #\r\nContent-Length: 0\r\n\r\n{}"+inner)
	raw("a space before the colon", post+"Transfer-Encoding : chunked\r\nContent-Length: #\r\n\r\n{}"+inner)
	raw("a vertical tab before chunked", post+"Transfer-Encoding: \vchunked\r\nContent-Length: #\r\n\r\n{}"+inner)
	raw("xchunked", post+"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"+inner)
	raw("chunked, identity", post+"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"+inner)
	raw("a signed length", post+"Content-Length: +#\r\n\r\n{}"+inner)
	raw("a bare LF ends the head", "POST /generate HTTP/1.1\nHost: x\nContent-Length: #\n\n{}")
	raw("a bare CR in a field", post+"X-A: b\rTransfer-Encoding: chunked\r\nContent-Length: #\r\n\r\n{}"+inner)
	raw("a NUL in a field", post+"X-A: b\x00c\r\nContent-Length: #\r\n\r\n{}")
	raw("a bare LF in a chunk's extension", chunked+"2;x\n{}\r\n0\r\n\r\n"+inner)
	raw("a chunk size in C", chunked+"0x2\r\n{}\r\n0\r\n\r\n"+inner)
	raw("a chunk longer than it says", chunked+"1\r\n{}\r\n0\r\n\r\n"+inner)
	raw("a chunk of 2^64", chunked+"10000000000000002\r\n{}\r\n0\r\n\r\n"+inner)
	raw("an endless chunk extension", chunked+"2;"+strings.Repeat("x", 1<<20)+"\r\n{}\r\n0\r\n\r\n")
	raw("fields behind chunks", chunked+"0\r\nContent-Length: 300\r\nTransfer-Encoding: x\r\n\r\n"+inner)
	raw("a body behind GET", "GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n"+inner)
	raw("absolute form, another host", "POST http://other:99/generate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: #\r\nConnection: close\r\n\r\n{}")
	raw("dots in the target", "POST /x/../generate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: #\r\nConnection: close\r\n\r\n{}")
	raw("an escaped slash in the target", "POST /x%2f..%2fgenerate HTTP/1.1\r\nHost: x\r\nContent-Length: #\r\nConnection: close\r\n\r\n{}")
	raw("CONNECT", "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: x\r\n\r\n")
	raw("TRACE", "TRACE /generate HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n\r\n")
	raw("HTTP/1.0, kept alive", "POST /generate HTTP/1.0\r\nConnection: keep-alive\r\nContent-Type: application/json\r\nContent-Length: #\r\n\r\n{}"+inner)
	raw("HTTP/0.9", "GET /health\r\n\r\n")
	raw("HTTP/9.9", "POST /generate HTTP/9.9\r\nHost: x\r\nContent-Length: #\r\n\r\n{}")
	raw("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	raw("an upgrade to h2c", post+"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\nContent-Length: #\r\n\r\n{}")
	raw("an upgrade to a web socket", post+"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nContent-Length: #\r\n\r\n{}"+inner)
	raw("Connection names fields", post+"Connection: close, Content-Type, Authorization, X-Forwarded-For\r\nContent-Length: #\r\n\r\n{}")
	raw("Expect: 100-continue, with the body at once", post+"Expect: 100-continue\r\nContent-Length: #\r\nConnection: close\r\n\r\n{}")
	raw("Expect: something else", post+"Expect: 200-ok\r\nContent-Length: #\r\nConnection: close\r\n\r\n{}")
	raw("TLS on the plain port", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"+strings.Repeat("\x00", 500))
	raw("a field of 1 MB", post+"X-A: "+strings.Repeat("a", 1<<20)+"\r\nContent-Length: #\r\nConnection: close\r\n\r\n{}")
	raw("100,000 fields", post+strings.Repeat("a: b\r\n", 100_000)+"Content-Length: #\r\nConnection: close\r\n\r\n{}")
	raw("20 requests at a time", strings.Repeat(post+"Content-Length: #\r\n\r\n{}", 20))
	raw("an id of 1 MB", strings.ReplaceAll(post+"Content-Length: #\r\nConnection: close\r\n\r\n{}", "{}", `{"rid":"`+strings.Repeat("r", 1<<20)+`","model":"m","text":"stream ID","stream":true}`))
	for _, name := range slices.Sorted(mapKeys(badAnswers)) {
		all = append(all, hostility{"answer: " + name, func(ctx context.Context, t *target) string { return t.askBadly(ctx, name) }})
	}
	return append(all,
		hostility{"300 clients leave in a stream", func(ctx context.Context, t *target) string {
			return t.crowd(ctx, 300, func(c net.Conn) {
				_, _ = io.WriteString(c, t.request("stream"))
				_, _ = c.Read(make([]byte, 1))
			})
		}},
		hostility{"300 clients leave while they wait", func(ctx context.Context, t *target) string {
			return t.crowd(ctx, 300, func(c net.Conn) {
				_, _ = io.WriteString(c, t.request("hold"))
				time.Sleep(50 * time.Millisecond)
			})
		}},
		hostility{"500 resets behind pipelined requests", func(ctx context.Context, t *target) string {
			return t.crowd(ctx, 500, func(c net.Conn) {
				_, _ = io.WriteString(c, strings.Repeat(t.request("good"), 5))
				if tcp, ok := c.(*net.TCPConn); ok {
					_ = tcp.SetLinger(0)
				}
			})
		}},
		hostility{"400 silent connections for 3 s", func(ctx context.Context, t *target) string {
			return t.crowd(ctx, 400, func(net.Conn) { time.Sleep(3 * time.Second) })
		}},
		hostility{"200 bodies at 10 bytes a second for 5 s", func(ctx context.Context, t *target) string {
			return t.crowd(ctx, 200, func(c net.Conn) {
				_, _ = io.WriteString(c, post+"Content-Length: 60000000\r\n\r\n")
				for range 50 {
					_, _ = io.WriteString(c, " ")
					time.Sleep(100 * time.Millisecond)
				}
			})
		}},
		hostility{"30 clients do not read 256 MB", func(ctx context.Context, t *target) string {
			return t.crowd(ctx, 30, func(c net.Conn) {
				_, _ = io.WriteString(c, t.request("event-of-256-MB"))
				time.Sleep(5 * time.Second)
			})
		}},
		hostility{"2,000 aborts of a batch", abortFlood},
		hostility{"20 bodies of gzip bombs", func(ctx context.Context, t *target) string { return t.bombs(ctx, 20) }},
	)
}

// request returns a raw request of one kind.
func (t *target) request(kind string) string {
	body := fmt.Sprintf(`{"model":"m","text":"%s %s","stream":%t}`, kind, t.id(), kind != "good")
	return "POST /generate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

// sendRaw sends bytes, and tells the answers and the requests that reached a worker.
func (t *target) sendRaw(ctx context.Context, send string) string {
	id := t.id()
	body := fmt.Sprintf(`{"model":"m","text":"good %s"}`, id)
	send = strings.ReplaceAll(send, "{}", body)
	send = strings.ReplaceAll(send, "stream ID", "stream "+id)
	whole := len(body)
	if at := strings.Index(send, `{"rid"`); at >= 0 {
		whole = len(send) - at
	}
	send = strings.ReplaceAll(send, "Length: #", "Length: "+strconv.Itoa(whole))
	send = strings.ReplaceAll(send, "Length: +#", "Length: +"+strconv.Itoa(whole))
	t.stand.mu.Lock()
	hidden := t.stand.seen["hidden"]
	t.stand.mu.Unlock()
	c, err := t.dial(ctx)
	if err != nil {
		return "no connection"
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(3 * time.Second))
	go func() { _, _ = io.WriteString(c, send) }()
	got, err := io.ReadAll(c)
	codes := answersOf(got)
	what := summary(codes)
	var ne net.Error
	switch {
	case errors.As(err, &ne) && ne.Timeout():
		what += ", open"
	case err != nil:
		what += ", reset"
	default:
		what += ", closed"
	}
	t.stand.mu.Lock()
	defer t.stand.mu.Unlock()
	hidden = t.stand.seen["hidden"] - hidden
	if n := t.stand.seen[id] + hidden; n > 0 {
		what += fmt.Sprintf("; %d reached a worker", n)
		if n > len(codes) {
			what += ", SMUGGLED"
		}
	}
	return what
}

// answersOf lists the statuses of answers in a row.
func answersOf(got []byte) (codes []string) {
	br := bufio.NewReader(bytes.NewReader(got))
	for {
		if _, err := br.Peek(1); err != nil {
			break
		}
		r, err := http.ReadResponse(br, nil)
		if err != nil {
			codes = append(codes, fmt.Sprintf("%.12q", got))
			break
		}
		code := strconv.Itoa(r.StatusCode)
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			code += " cut"
		}
		codes = append(codes, code)
	}
	return codes
}

func summary(codes []string) string {
	switch {
	case len(codes) == 0:
		return "no answer"
	case len(codes) > 3:
		return fmt.Sprintf("%d answers, %s … %s", len(codes), codes[0], codes[len(codes)-1])
	}
	return strings.Join(codes, ", ")
}

func (t *target) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: patience}
	return d.DialContext(ctx, "tcp", t.addr)
}

// askBadly sends ten requests that get a bad answer each, and tells the different ones.
func (t *target) askBadly(ctx context.Context, kind string) string {
	n, reached := 10, 0
	if strings.Contains(kind, "MB") || strings.Contains(kind, "endless") || strings.Contains(kind, "flood") {
		n = 2
	}
	found := map[string]int{}
	for range n {
		id := t.id()
		body := fmt.Sprintf(`{"model":"m","text":"%s %s","stream":%t}`, kind, id, strings.Contains(kind, "event"))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+t.addr+"/generate", strings.NewReader(body))
		if err != nil {
			return err.Error()
		}
		req.Header.Set("Content-Type", "application/json")
		once := &http.Client{Timeout: patience, Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
		what := "no answer"
		if resp, err := once.Do(req); err == nil {
			var tail [4096]byte
			size, last := 0, ""
			for {
				m, rerr := resp.Body.Read(tail[:])
				if size += m; m > 0 {
					last = string(tail[:m])
				}
				if rerr != nil {
					err = rerr
					break
				}
			}
			_ = resp.Body.Close()
			what = strconv.Itoa(resp.StatusCode)
			switch {
			case !errors.Is(err, io.EOF):
				what += " cut"
			case last == goodBody:
				what += " whole"
			case strings.Contains(last, "error"):
				what += " with an error"
			default:
				what += fmt.Sprintf(" and %d bytes", size)
			}
		}
		found[what]++
		t.stand.mu.Lock()
		reached += t.stand.seen[id]
		t.stand.mu.Unlock()
	}
	var parts []string
	for what, n := range found {
		parts = append(parts, fmt.Sprintf("%d × %s", n, what))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ") + fmt.Sprintf("; %d reached a worker", reached)
}

// crowd has many clients do the same at once and close their connections. It tells whether requests
// of theirs are left at the workers.
func (t *target) crowd(ctx context.Context, n int, do func(net.Conn)) string {
	var refused atomic.Int64
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			c, err := t.dial(ctx)
			if err != nil {
				refused.Add(1)
				return
			}
			do(c)
			_ = c.Close()
		})
	}
	wg.Wait()
	begun := time.Now()
	for time.Since(begun) < patience && t.stand.open.Load() > 8 { // those beside
		time.Sleep(10 * time.Millisecond)
	}
	what := fmt.Sprintf("workers free %.1f s later", time.Since(begun).Seconds())
	if left := t.stand.open.Load(); left > 8 {
		what = fmt.Sprintf("%d LEFT at the workers", left)
	}
	if r := refused.Load(); r > 0 {
		what += fmt.Sprintf(", %d connections refused", r)
	}
	return what
}

// abortFlood aborts a batch of a thousand prompts again and again.
func abortFlood(ctx context.Context, t *target) string {
	c, err := t.dial(ctx)
	if err != nil {
		return "no connection"
	}
	body := `{"model":"m","rid":"mine","text":["hold ` + t.id() + `"` + strings.Repeat(`,"x"`, 999) + `]}`
	_, _ = fmt.Fprintf(c, "POST /generate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	time.Sleep(200 * time.Millisecond)
	before, found := t.stand.aborted.Load(), map[string]int{}
	for range 2000 {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+t.addr+"/abort_request", strings.NewReader(`{"rid":"mine"}`))
		if err != nil {
			return err.Error()
		}
		req.Header.Set("Content-Type", "application/json")
		what := "no answer"
		if resp, err := client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			what = strconv.Itoa(resp.StatusCode)
		}
		found[what]++
	}
	_ = c.Close()
	time.Sleep(3 * time.Second) // they are repeated
	return fmt.Sprintf("%v; workers got %d", found, t.stand.aborted.Load()-before)
}

// bombs sends bodies that are a thousand times as long without their coding.
func (t *target) bombs(ctx context.Context, n int) string {
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	_, _ = zw.Write([]byte(`{"model":"m","text":"good bomb `))
	for range 1000 {
		_, _ = zw.Write(bytes.Repeat([]byte("x"), 1<<20))
	}
	_, _ = zw.Write([]byte(`"}`))
	_ = zw.Close()
	var mu sync.Mutex
	found := map[string]int{}
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			what := "no answer"
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+t.addr+"/generate", bytes.NewReader(b.Bytes()))
			if err != nil {
				return
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Content-Encoding", "gzip")
			if resp, err := client.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				what = strconv.Itoa(resp.StatusCode)
			}
			mu.Lock()
			found[what]++
			mu.Unlock()
		})
	}
	wg.Wait()
	return fmt.Sprintf("%v of a body of %d KB", found, b.Len()>>10)
}
