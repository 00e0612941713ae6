package request_test

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/dataplane/request"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// kind is a kind of request with its budget. A request is of a prompt that nobody knows, each time
// another one, over connections that are there.
type kind struct {
	name, path, body, end string
	events                bool    // a worker tokenizes chats, and the index follows the prompt
	pair                  bool    // of a prefill and a decode worker
	calls                 float64 // system calls that move bytes
	allocs                float64 // with those of fasthttp and of the trees, which grow with new prompts
}

// fresh is a number that each request has anew, as a word or as a token id.
const fresh = "10000000"

// kinds are the budgets. Beside a request's own calls, /v1/tokenize has two, and a pair has two for
// each worker. They are bounds of what is measured: lower them with the cost.
func kinds() []kind {
	chat := func(n int, more string) string {
		return fmt.Sprintf(`{"model":"tiny","messages":[{"role":"user","content":"%s %s"}]%s}`, fresh, strings.Repeat("be brief. ", n/10), more)
	}
	ids := func(n int) string {
		return fmt.Sprintf(`{"input_ids":[%s,%s7],"sampling_params":{"max_new_tokens":4}}`, fresh, strings.Repeat("1234,", n/5))
	}
	const chats, generate, last = "/v1/chat/completions", "/generate", "\r\n0\r\n\r\n"
	return []kind{
		{"chat of 300 B", chats, chat(300, ""), decodeReply, false, false, 4, 3},
		{"chat of 8 KB", chats, chat(8<<10, ""), decodeReply, false, false, 4, 3},
		{"ids of 300 B", generate, ids(300), decodeReply, false, false, 4, 3},
		{"ids of 8 KB", generate, ids(8 << 10), decodeReply, false, false, 4, 3},
		{"chat of 300 B, events", chats, chat(300, ""), decodeReply, true, false, 6, 5},
		{"chat of 8 KB, events", chats, chat(8<<10, ""), decodeReply, true, false, 6, 5},
		{"ids of 300 B, events", generate, ids(300), decodeReply, true, false, 4, 4},
		{"ids of 8 KB, events", generate, ids(8 << 10), decodeReply, true, false, 4, 4},
		{"stream of 64 events", chats, chat(300, `,"stream":true`), last, false, false, 5, 4},
		{"pair", generate, ids(300), decodeReply, false, true, 6, 3},
	}
}

// budgeted starts a router for a kind, and returns a client that sends a new prompt with each call.
func budgeted(t *testing.T, k *kind) (once func()) {
	t.Helper()
	view := &ingest.View{}
	if k.events {
		view.Shapes = []ingest.Shape{{Model: "tiny", BlockSize: 16}}
	}
	with := func(s *settings) {
		s.Workers.Interval = time.Hour // a probe costs, too
		s.View = func() *ingest.View { return view }
		s.RequestParts = append(s.RequestParts, func(p *request.Parts) { remember(t, p, view.BlockSize) })
	}
	var prefill atomic.Pointer[worker.Rank]
	workers := []*fakeWorker{leanWorker(t, "null", decodeReply, nil), leanWorker(t, "null", decodeReply, nil)}
	if k.pair {
		workers = []*fakeWorker{leanWorker(t, "prefill", prefillReply, nil), leanWorker(t, "decode", decodeReply, &prefill)}
	}
	h := start(t, workers, with)
	for _, rank := range h.Registry.Snapshot().Ranks {
		rank.SetExact(k.events)
		for range 64 { // answers have met its events
			rank.CompareEvents(time.Now(), worker.EventClaim{Told: 160, Expect: 160, Cached: 160, Page: 16})
		}
		if rank.Worker.Role() == worker.RolePrefill {
			prefill.Store(rank)
		}
	}
	return renewed(t, h, k)
}

// remember gives a router the workers' tokenizer, and the memory of prompts.
func remember(t *testing.T, p *request.Parts, block func() int) {
	t.Helper()
	registry := p.Registry
	fetch := tokens.NewWorkerFetcher(p.Transport, func(url string) (upstream.Target, error) {
		w, err := registry.Get(url)
		if err != nil {
			return upstream.Target{}, err
		}
		return upstream.Target{Addr: w.Addr}, nil
	})
	source, err := tokens.New(tokens.Config{Fetch: fetch, Index: p.Index, BlockSize: block, Deadline: patience})
	require.NoError(t, err)
	p.Tokenizer = source
	p.PromptCache, err = promptcache.New(promptcache.Config{Index: p.Index, BlockSize: block})
	require.NoError(t, err)
}

// renewed is repeatAt with a new prompt for each request.
func renewed(t *testing.T, h *harness, k *kind) (once func()) {
	t.Helper()
	conn, err := net.Dial("tcp", h.addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", k.path, len(k.body), k.body)
	at := bytes.Index(request, []byte(fresh))
	number := request[at:][:len(fresh)]
	buf, end, n := make([]byte, 8<<10), []byte(k.end), 0
	return func() {
		n++
		strconv.AppendInt(number[:0], int64(10_000_000+n), 10)
		if _, err := conn.Write(request); err != nil {
			panic(err)
		}
		for n := 0; !bytes.HasSuffix(buf[:n], end); {
			m, err := conn.Read(buf[n:])
			if n += m; err != nil {
				panic(fmt.Sprintf("%v after %q", err, buf[:n]))
			}
		}
	}
}
