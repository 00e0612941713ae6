//go:build engines

package engines_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	tierModel  = "dear" // whose computation is dear beside its KV; served as the other one
	tierPrompt = 1200   // tokens of a prompt
	tierAnswer = 16     // tokens of an answer that is compared
	tierTokens = 12288  // of an engine's cache
)

// tierHit is what a full hit is of so many tokens, and on how many pages.
func tierHit(tokens int) (hit, pages int) {
	pages = (tokens - 1) / pageSize
	return pages * pageSize, pages
}

// tierProof is two engines, each with the sidecar of its own node, and the router that has the cluster inside.
type tierProof struct {
	keeper *keeper
	dir    string
	binary string
	a, b   *engine
	sa, sb *sidecar
	router *router
	notes  strings.Builder
}

// newTierProof starts both engines, each of so many tensor-parallel ranks, with all that there is around them.
func newTierProof(t *testing.T, ranks int) *tierProof {
	t.Helper()
	installation(t)
	p := &tierProof{keeper: newKeeper(), dir: t.TempDir(), a: &engine{index: 0}, b: &engine{index: 1}}
	p.binary = buildWarmpath(t, p.dir)
	p.attach(t, ranks)
	launch(t, p.keeper, p.dir, []*engine{p.a, p.b})
	p.surround(t)
	return p
}

// attach makes both engines, which are not yet started, use the sidecars of two nodes.
func (p *tierProof) attach(t *testing.T, ranks int) {
	t.Helper()
	p.sa, p.sb = nodes(t, p.dir)
	p.sa.ranks, p.sb.ranks = ranks, ranks
	p.a.attach(t, p.sa)
	p.b.attach(t, p.sb)
}

// surround starts the router and the sidecars and waits until they and the engines have found each other.
func (p *tierProof) surround(t *testing.T) {
	t.Helper()
	p.sa.binary, p.sb.binary = p.binary, p.binary
	p.sa.worker, p.sb.worker = p.a.url, p.b.url
	p.startRouter(t)
	p.sa.start(t, p.keeper, p.dir)
	p.sb.start(t, p.keeper, p.dir)
	waitAll(t, []*engine{p.a, p.b})
	p.connected(t)
}

// TestKVTier shows the KV tier with real engines: what one computed is a hit on the other, through two sidecars.
func TestKVTier(t *testing.T) {
	p := newTierProof(t, 1)
	t.Run("hits", func(t *testing.T) { p.hits(t, 1) })
	t.Run("first token", p.firstToken)
	t.Run("routed", p.routed)
	t.Run("sidecars stopped", p.stopped)
	t.Run("sidecars killed", p.killed)

	keep(t, "tier.txt", p.notes.String())
	keep(t, "env-tier.txt", environment(t))
}

// TestKVTierRanks shows the same with engines of two tensor-parallel ranks, each of which has its own half of every page: a prompt is a hit
// only where both have theirs.
func TestKVTierRanks(t *testing.T) {
	p := newTierProof(t, 2)
	hit, pages := tierHit(tierPrompt)
	const prompts = 3
	for n := range uint64(prompts) {
		p.hits(t, n)
	}
	s := p.sb.must(t)
	if s.Namespaces != 2 || s.Pulled != int64(2*prompts*pages) {
		t.Errorf("%d pages of %d ranks were pulled, want %d of 2", s.Pulled, s.Namespaces, 2*prompts*pages)
	}
	w := &weightProof{tierProof: p, other: otherWeights(t)}
	p.a.update(t, w.other, true)
	w.right(t, "two ranks: A, updated from disk", p.a, 0, 0)
	p.b.update(t, w.other, true)
	for n := range uint64(weightPrompts) {
		p.sa.waitStored(t, p.prompt(n, tierPrompt))
	}
	w.right(t, "two ranks: B, updated too", p.b, 0, hit)
	keep(t, "tier-ranks.txt", p.notes.String())
}

// attach makes the engine use a sidecar's tier.
func (e *engine) attach(t *testing.T, s *sidecar) {
	t.Helper()
	integration, err := filepath.Abs("../../integrations/sglang")
	if err != nil {
		t.Fatal(err)
	}
	extra, err := json.Marshal(map[string]any{
		"backend_name": "warmpath", "module_path": "warmpath_sglang.backend", "class_name": "WarmpathStorage", "interface_v1": 1, "allocator": "shm",
		"prefetch_threshold": pageSize, "hicache_storage_pass_prefix_keys": true, "warmpath_socket": s.socket,
		// Far beyond the defaults, so that a busy machine does not look like a dead sidecar.
		"warmpath_exists_timeout": 15, "warmpath_get_timeout": 15, "warmpath_set_timeout": 15,
	})
	if err != nil {
		t.Fatal(err)
	}
	e.env = []string{"PYTHONPATH=" + integration}
	if s.ranks > 1 {
		e.env = append(e.env, fmt.Sprintf("BIND=0|%d", runtime.NumCPU()-1))
	}
	e.flags = append(dear(t), "--tp-size", strconv.Itoa(s.ranks),
		"--context-length", "4096", "--max-total-tokens", strconv.Itoa(tierTokens),
		"--enable-hierarchical-cache", "--hicache-ratio", "2", "--hicache-write-policy", "write_through", "--hicache-io-backend", "direct",
		"--hicache-mem-layout", "layer_first", "--hicache-storage-prefetch-policy", "wait_complete", "--hicache-storage-backend", "dynamic",
		"--hicache-storage-backend-extra-config", string(extra))
}

// dear makes an engine answer with the model that is dear, under the name of the other one.
func dear(t *testing.T) []string {
	t.Helper()
	return []string{"--model-path", filepath.Join(installation(t), tierModel), "--dtype", "float32"}
}

// connected waits until both engines have their sidecars, and these each other.
func (p *tierProof) connected(t *testing.T) {
	t.Helper()
	for _, s := range []*sidecar{p.sa, p.sb} {
		s.wait(t, "the engine and the peer are there", func(tiers tierStats) bool { return tiers.Clients >= int64(3*s.ranks) && tiers.Peers == 1 })
	}
}

// prompt makes one that no other number has.
func (p *tierProof) prompt(number uint64, tokens int) []int {
	random := rand.New(rand.NewPCG(number, 11))
	ids := make([]int, tokens)
	for i := range ids {
		ids[i] = 10 + random.IntN(900)
	}
	return ids
}

// compute sends a prompt to A and waits until its pages are in A's tier.
func (p *tierProof) compute(t *testing.T, ids []int, n int) cachedAnswer {
	t.Helper()
	answer := p.a.ask(t.Context(), ids, n)
	if answer.err != nil || answer.cached != 0 {
		t.Fatalf("a new prompt: %d cached tokens, %v", answer.cached, answer.err)
	}
	p.sa.waitStored(t, ids)
	return answer
}

// same checks an answer against the one that was computed without any cache. storage is how many tokens of the prompt come from the tier.
func (p *tierProof) same(t *testing.T, what string, got, want cachedAnswer, storage int) {
	t.Helper()
	p.equal(t, what, got, want, storage)
	fmt.Fprintf(&p.notes, "%-40s cached %4d, storage %4d, %6.0f ms; computed in %6.0f ms\n", what, got.cached, got.storage, ms(got.took), ms(want.took))
}

func (p *tierProof) equal(t *testing.T, what string, got, want cachedAnswer, storage int) {
	t.Helper()
	if got.err != nil || !slices.Equal(got.ids, want.ids) {
		t.Errorf("%s: %v (%v), want %v", what, got.ids, got.err, want.ids)
	}
	if got.storage != storage {
		t.Errorf("%s: %d tokens from storage, want %d", what, got.storage, storage)
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// hits: what A has computed comes from its tier once A has lost it, and to B from the other node's.
func (p *tierProof) hits(t *testing.T, number uint64) {
	t.Helper()
	ids := p.prompt(number, tierPrompt)
	hit, _ := tierHit(tierPrompt)
	want := p.compute(t, ids, tierAnswer)
	p.a.flush(t)
	p.same(t, "A again, after /flush_cache", p.a.ask(t.Context(), ids, tierAnswer), want, hit)
	p.same(t, "B, through both sidecars", p.b.ask(t.Context(), ids, tierAnswer), want, hit)
}

// stopped: a sidecar that accepts and does not answer costs its deadline once, and pages.
func (p *tierProof) stopped(t *testing.T) {
	hit, _ := tierHit(tierPrompt)
	want := p.compute(t, p.prompt(4, tierPrompt), tierAnswer)
	p.sb.proc.signal(t, syscall.SIGSTOP)
	p.same(t, "B, its sidecar stopped", p.b.ask(t.Context(), p.prompt(4, tierPrompt), tierAnswer), want, 0)
	p.sb.proc.signal(t, syscall.SIGCONT)
	p.connected(t)
	want = p.compute(t, p.prompt(5, tierPrompt), tierAnswer)
	p.sa.proc.signal(t, syscall.SIGSTOP)
	p.same(t, "B, the other node's sidecar stopped", p.b.ask(t.Context(), p.prompt(5, tierPrompt), tierAnswer), want, 0)
	p.sa.proc.signal(t, syscall.SIGCONT)
	p.connected(t)
	p.b.flush(t)
	want = p.compute(t, p.prompt(6, tierPrompt), tierAnswer)
	p.same(t, "B, all go on", p.b.ask(t.Context(), p.prompt(6, tierPrompt), tierAnswer), want, hit)
}

// killed: sidecars die in the middle of traffic. Every request is answered, and with the tokens of an engine alone.
func (p *tierProof) killed(t *testing.T) {
	const prompts = 6
	hit, _ := tierHit(tierPrompt)
	wants := make([]cachedAnswer, prompts)
	for n := range wants {
		wants[n] = p.compute(t, p.prompt(200+uint64(n), tierPrompt), tierAnswer)
	}
	for round, victim := range []*sidecar{p.sa, p.sb} {
		p.a.flush(t)
		p.b.flush(t)
		var all sync.WaitGroup
		got := make([]cachedAnswer, prompts)
		half := make(chan struct{})
		all.Go(func() {
			for n := range got {
				if n == 2 {
					close(half)
				}
				got[n] = p.b.ask(context.Background(), p.prompt(200+uint64(n), tierPrompt), tierAnswer)
			}
		})
		<-half
		victim.proc.kill()
		all.Wait()
		hits, right := 0, prompts
		for n := range got {
			if got[n].err != nil || !slices.Equal(got[n].ids, wants[n].ids) {
				right--
				t.Errorf("sidecar %s killed, prompt %d: %v (%v), want %v", victim.name, n, got[n].ids, got[n].err, wants[n].ids)
			}
			if got[n].storage > 0 {
				hits++
			}
		}
		fmt.Fprintf(&p.notes, "sidecar %s killed in the middle: %d of %d answers right, %d with pages of the tier\n", victim.name, right, prompts, hits)
		victim.start(t, p.keeper, p.dir)
		p.connected(t)
		ids := p.prompt(300+uint64(round), tierPrompt)
		want := p.compute(t, ids, tierAnswer)
		p.same(t, "B, with a new sidecar "+victim.name, p.b.ask(t.Context(), ids, tierAnswer), want, hit)
	}
}

// TestKVTierBackend runs the unit tests of the Python package, with SGLang's own classes and a real sidecar.
func TestKVTierBackend(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(python(t), "-m", "unittest", "discover", "-v", "-s", "tests", "-t", ".")
	cmd.Dir = "../../integrations/sglang"
	shim, err := filepath.Abs("shim")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "WARMPATH_BINARY="+buildWarmpath(t, dir), "PYTHONPATH="+shim, "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	t.Logf("%s", strings.Join(lines[max(0, len(lines)-4):], "\n"))
}
