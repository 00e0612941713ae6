//go:build engines

package engines_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"
)

// startRouter runs the router, which has the cluster's NATS inside and will learn of engines and tiers from it alone.
func (p *tierProof) startRouter(t *testing.T) {
	t.Helper()
	ports := freePorts(t, 2)
	bus := fmt.Sprintf("127.0.0.1:%d", ports[1])
	p.sa.cluster, p.sb.cluster = "nats://"+bus, "nats://"+bus
	p.router = &router{url: fmt.Sprintf("http://127.0.0.1:%d", ports[0])}
	args := append([]string{"serve", "--policy", "kv", "--cluster-listen", bus, "--listen", p.router.url[len("http://"):]}, slices.Concat(unhurried, allowed(t))...)
	p.router.proc = spawn(t, p.keeper, p.dir, "router", exec.Command(p.binary, args...))
	limit := time.Now().Add(patience)
	for !answers(p.router.url + "/health") {
		if time.Now().After(limit) {
			t.Fatalf("the router does not listen after %v", patience)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// routed sends a prompt through the router, takes the engine that computed it out of the choice, and sends it again: the router knows that
// the pages are in the tier of that engine's node, and has the other node fetch them before its engine asks for them.
func (p *tierProof) routed(t *testing.T) {
	p.router.waitReady(t, 2)
	ids := p.prompt(2000, tierPrompt)
	hit, pages := tierHit(tierPrompt)
	want := askCached(t.Context(), p.router.url, ids, tierAnswer)
	if want.err != nil || want.cached != 0 {
		t.Fatalf("a new prompt: %d cached tokens, %v", want.cached, want.err)
	}
	first, second, holder, taker := p.a, p.b, p.sa, p.sb
	if want.worker == p.b.url {
		first, second, holder, taker = p.b, p.a, p.sb, p.sa
	}
	holder.waitStored(t, ids)
	second.flush(t) // now only the first one's node has it
	p.waitExplained(t, ids, second, "the other node's tier", func(o explainedOverlap) bool { return o.GPU == 0 && o.Tier == 0 && o.Remote == hit })
	first.flush(t)
	p.waitExplained(t, ids, first, "its own node's tier", func(o explainedOverlap) bool { return o.GPU+o.Host == 0 && o.Tier == hit })
	p.router.drain(t, first, true)
	defer p.router.drain(t, first, false)

	// The engine does not run until the pages are there: it cannot have asked for them.
	before := taker.must(t)
	second.proc.signal(t, syscall.SIGSTOP)
	defer second.proc.signal(t, syscall.SIGCONT) // whatever comes: the engine is used again
	got := make(chan cachedAnswer, 1)
	go func() { got <- askCached(t.Context(), p.router.url, ids, tierAnswer) }()
	taker.wait(t, "the router's hint has brought the pages", func(s tierStats) bool { return s.Pulled >= before.Pulled+int64(pages) })
	second.proc.signal(t, syscall.SIGCONT)
	answer := <-got
	p.same(t, "routed to the other node", answer, want, hit)
	if n := taker.must(t).Hints.Pulled - before.Hints.Pulled; n != int64(pages) {
		t.Errorf("%d pages came because of the hint, want %d", n, pages)
	}
	if answer.worker != second.url {
		t.Errorf("the answer is from %s, want %s", answer.worker, second.url)
	}
}

// drain takes an engine out of the choice, or into it again.
func (r *router) drain(t *testing.T, e *engine, drain bool) {
	t.Helper()
	r.post(t, "/workers/drain", map[string]any{"url": e.url, "drain": drain})
}

// post sends JSON to the router and returns its answer, which must be one of success.
func (r *router) post(t *testing.T, path string, body any) []byte {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Post(r.url+path, "application/json", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d, %v: %s", path, answer.StatusCode, err, text)
	}
	return text
}

// explainedOverlap is what the router says of an engine's share in a prompt, in tokens.
type explainedOverlap struct{ GPU, Host, Tier, Remote int }

// waitExplained waits until the router explains an engine's share in a prompt as it should be. Tiers tell what they hold every 100 ms.
func (p *tierProof) waitExplained(t *testing.T, ids []int, e *engine, what string, fits func(explainedOverlap) bool) {
	t.Helper()
	type rank struct {
		ID      string
		Overlap explainedOverlap
	}
	limit := time.Now().Add(patience)
	for {
		text := p.router.post(t, "/explain", map[string]any{"model": served, "input_ids": ids})
		var x struct{ Ranks []rank }
		if err := json.Unmarshal(text, &x); err != nil {
			t.Fatalf("cannot read the explanation %s: %v", text, err)
		}
		at := slices.IndexFunc(x.Ranks, func(r rank) bool { return r.ID == e.url || r.ID == e.url+"#0" })
		if at >= 0 && fits(x.Ranks[at].Overlap) {
			fmt.Fprintf(&p.notes, "the router on %s, pages in %s: %+v\n", e.name(), what, x.Ranks[at].Overlap)
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("after %v the router does not know that pages for %s are in %s: %s", patience, e.url, what, text)
		}
		<-time.After(20 * time.Millisecond)
	}
}
