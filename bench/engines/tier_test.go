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
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	tierPrompt = 1200                                   // tokens of a prompt
	tierHit    = (tierPrompt - 1) / pageSize * pageSize // of them, what a full hit is
	tierAnswer = 16                                     // tokens of an answer that is compared
)

// tierProof is two engines, each with the sidecar of its own node.
type tierProof struct {
	keeper *keeper
	dir    string
	a, b   *engine
	sa, sb *sidecar
	notes  strings.Builder
}

// TestKVTier shows the KV tier with real engines: what one computed is a hit on the other, through two sidecars.
func TestKVTier(t *testing.T) {
	installation(t)
	p := &tierProof{keeper: newKeeper(), dir: t.TempDir(), a: &engine{index: 0}, b: &engine{index: 1}}
	p.sa, p.sb = nodes(t, p.dir, buildWarmpath(t, p.dir))
	p.sa.start(t, p.keeper, p.dir)
	p.sb.start(t, p.keeper, p.dir)
	p.a.attach(t, p.sa)
	p.b.attach(t, p.sb)
	launch(t, p.keeper, p.dir, []*engine{p.a, p.b})
	waitAll(t, []*engine{p.a, p.b})
	p.connected(t)

	t.Run("evicted and back", p.evictedAndBack)
	t.Run("another node", p.anotherNode)
	t.Run("hint", p.hint)
	t.Run("sidecars stopped", p.stopped)
	t.Run("sidecars killed", p.killed)

	keep(t, "tier.txt", p.notes.String())
	keep(t, "env-tier.txt", environment(t))
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
		"warmpath_exists_timeout": 5, "warmpath_get_timeout": 5, "warmpath_set_timeout": 5,
	})
	if err != nil {
		t.Fatal(err)
	}
	e.env = []string{"PYTHONPATH=" + integration}
	e.flags = []string{
		"--enable-hierarchical-cache", "--hicache-ratio", "2", "--hicache-write-policy", "write_through", "--hicache-io-backend", "direct",
		"--hicache-mem-layout", "layer_first", "--hicache-storage-prefetch-policy", "wait_complete", "--hicache-storage-backend", "dynamic",
		"--hicache-storage-backend-extra-config", string(extra),
	}
}

// connected waits until both engines have their sidecars, and these each other.
func (p *tierProof) connected(t *testing.T) {
	t.Helper()
	for _, s := range []*sidecar{p.sa, p.sb} {
		s.wait(t, "the engine and the peer are there", func(s tierStats) bool { return s.Clients >= 3 && s.Peers == 1 })
	}
}

// prompt makes one that no other number has.
func (p *tierProof) prompt(number uint64) []int {
	random := rand.New(rand.NewPCG(number, 11))
	ids := make([]int, tierPrompt)
	for i := range ids {
		ids[i] = 10 + random.IntN(900)
	}
	return ids
}

// compute sends a prompt to A and waits until its pages are in A's tier.
func (p *tierProof) compute(t *testing.T, number uint64, n int) cachedAnswer {
	t.Helper()
	before := p.sa.must(t).Stored
	answer := p.a.ask(t.Context(), p.prompt(number), n)
	if answer.err != nil || answer.cached != 0 {
		t.Fatalf("a new prompt: %d cached tokens, %v", answer.cached, answer.err)
	}
	p.sa.wait(t, "the prompt's pages are stored", func(s tierStats) bool { return s.Stored >= before+tierPrompt/pageSize })
	return answer
}

// same checks an answer against the one that was computed without any cache.
func (p *tierProof) same(t *testing.T, what string, got, want cachedAnswer, storage int) {
	t.Helper()
	if got.err != nil || !slices.Equal(got.ids, want.ids) {
		t.Errorf("%s: %v (%v), want %v", what, got.ids, got.err, want.ids)
	}
	if got.storage != storage {
		t.Errorf("%s: %d tokens from storage, want %d", what, got.storage, storage)
	}
	fmt.Fprintf(&p.notes, "%-40s cached %4d, storage %4d, %6.0f ms; computed in %6.0f ms\n", what, got.cached, got.storage, ms(got.took), ms(want.took))
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (p *tierProof) evictedAndBack(t *testing.T) {
	want := p.compute(t, 1, tierAnswer)
	p.a.flush(t)
	p.same(t, "A again, after /flush_cache", p.a.ask(t.Context(), p.prompt(1), tierAnswer), want, tierHit)
}

func (p *tierProof) anotherNode(t *testing.T) {
	want := p.compute(t, 2, tierAnswer)
	p.same(t, "B, through both sidecars", p.b.ask(t.Context(), p.prompt(2), tierAnswer), want, tierHit)
	var cold, warm []time.Duration
	for n := range uint64(8) {
		cold = append(cold, p.compute(t, 100+n, 1).took)
	}
	for n := range uint64(8) {
		got := p.b.ask(t.Context(), p.prompt(100+n), 1)
		if got.err != nil || got.storage != tierHit {
			t.Errorf("prompt %d: %d tokens from storage, want %d (%v)", 100+n, got.storage, tierHit, got.err)
		}
		warm = append(warm, got.took)
	}
	slices.Sort(cold)
	slices.Sort(warm)
	s := p.sb.must(t)
	if s.Pulled < 9*tierHit/pageSize {
		t.Errorf("%d pages were pulled, want %d and more", s.Pulled, 9*tierHit/pageSize)
	}
	fmt.Fprintf(&p.notes, "first token, %d prompts of %d tokens: computed %.0f ms (median; %.0f to %.0f), from the other node %.0f ms (%.0f to %.0f); "+
		"pulled %d pages, %d bytes in %.3f s, NIXL: %t\n",
		len(cold), tierPrompt, ms(cold[len(cold)/2]), ms(cold[0]), ms(cold[len(cold)-1]), ms(warm[len(warm)/2]), ms(warm[0]), ms(warm[len(warm)-1]),
		s.Pulled, s.PulledBytes, s.PullSeconds, s.NIXL)
}

// hint: pages come before the request does, and the request then asks no peer.
func (p *tierProof) hint(t *testing.T) {
	want := p.compute(t, 3, tierAnswer)
	before := p.sb.must(t).Pulled
	p.sb.hint(t, p.prompt(3))
	p.sb.wait(t, "the pages of the hint are here", func(s tierStats) bool { return s.Pulled >= before+tierHit/pageSize })
	p.same(t, "B, after a hint", p.b.ask(t.Context(), p.prompt(3), tierAnswer), want, tierHit)
}

// stopped: a sidecar that accepts and does not answer costs its deadline once, and pages.
func (p *tierProof) stopped(t *testing.T) {
	want := p.compute(t, 4, tierAnswer)
	p.sb.proc.signal(t, syscall.SIGSTOP)
	p.same(t, "B, its sidecar stopped", p.b.ask(t.Context(), p.prompt(4), tierAnswer), want, 0)
	p.sb.proc.signal(t, syscall.SIGCONT)
	p.connected(t)
	want = p.compute(t, 5, tierAnswer)
	p.sa.proc.signal(t, syscall.SIGSTOP)
	p.same(t, "B, the other node's sidecar stopped", p.b.ask(t.Context(), p.prompt(5), tierAnswer), want, 0)
	p.sa.proc.signal(t, syscall.SIGCONT)
	p.connected(t)
	p.b.flush(t)
	want = p.compute(t, 6, tierAnswer)
	p.same(t, "B, all go on", p.b.ask(t.Context(), p.prompt(6), tierAnswer), want, tierHit)
}

// killed: sidecars die in the middle of traffic. Every request is answered, and with the tokens of an engine alone.
func (p *tierProof) killed(t *testing.T) {
	const prompts = 10
	wants := make([]cachedAnswer, prompts)
	for n := range wants {
		wants[n] = p.compute(t, 200+uint64(n), tierAnswer)
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
				got[n] = p.b.ask(context.Background(), p.prompt(200+uint64(n)), tierAnswer)
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
		want := p.compute(t, 300+uint64(round), tierAnswer)
		p.same(t, "B, with a new sidecar "+victim.name, p.b.ask(t.Context(), p.prompt(300+uint64(round)), tierAnswer), want, tierHit)
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
