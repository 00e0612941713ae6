//go:build engines

package engines_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	weightPrompts = 4 // that are asked before and after a change of weights
	weightAnswer  = 16
)

// weightProof is a tierProof whose engines change their weights.
type weightProof struct {
	*tierProof
	other string // folder of a model of the same form with other weights
	salts int
}

// TestKVTierWeights shows that pages of other weights are never served: after an update in place,
// on the other node, after a redeploy under the same served name. Pages of equal weights are.
func TestKVTierWeights(t *testing.T) {
	p := &weightProof{tierProof: newTierProof(t, 1), other: otherWeights(t)}
	t.Run("updated from disk", p.updated)
	t.Run("without a flush", p.unflushed)
	t.Run("updated from tensors", p.fromTensors)
	t.Run("updated to what is not there", p.refused)
	t.Run("cleared", p.cleared)
	t.Run("redeployed", p.redeployed)
	keep(t, "tier-weights.txt", p.notes.String())
}

// otherWeights makes the tier's model with another seed.
func otherWeights(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "other")
	cmd := exec.Command(python(t), "mkdear.py", folder, "1")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cannot make a model: %v\n%s", err, out)
	}
	return folder
}

// truth is the answer that an engine computes without any cache: a new salt shares no page.
func (p *weightProof) truth(t *testing.T, e *engine, ids []int) cachedAnswer {
	t.Helper()
	p.salts++
	a := askSalted(t.Context(), e.url, ids, weightAnswer, fmt.Sprintf("salt %d", p.salts))
	if a.err != nil || a.cached != 0 {
		t.Fatalf("a prompt with a salt of its own: %d cached tokens, %v", a.cached, a.err)
	}
	return a
}

// right asks for prompts and compares each answer with the truth. storage is how many tokens of
// each come from the tier.
func (p *weightProof) right(t *testing.T, what string, e *engine, first uint64, storage int) {
	t.Helper()
	wrong, got := 0, 0
	for n := range uint64(weightPrompts) {
		ids := p.prompt(first+n, tierPrompt)
		want := p.truth(t, e, ids)
		answer := e.ask(t.Context(), ids, weightAnswer)
		if answer.err != nil || !slices.Equal(answer.ids, want.ids) {
			wrong++
			t.Errorf("%s, prompt %d: %v (%v), want %v", what, n, answer.ids, answer.err, want.ids)
		}
		if answer.storage != storage {
			t.Errorf("%s, prompt %d: %d tokens from storage, want %d", what, n, answer.storage, storage)
		}
		got += answer.storage
	}
	fmt.Fprintf(&p.notes, "%-44s %d of %d answers right, %d tokens from the tier\n", what, weightPrompts-wrong, weightPrompts, got)
}

// stored has A compute prompts, whose pages its tier then holds.
func (p *weightProof) stored(t *testing.T, first uint64) {
	t.Helper()
	for n := range uint64(weightPrompts) {
		p.compute(t, p.prompt(first+n, tierPrompt), weightAnswer)
	}
}

// post sends JSON to an engine and returns its answer.
func (e *engine) post(t *testing.T, path string, body any) (status int, text string) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Post(e.url+path, "application/json", bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	out, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, strings.TrimSpace(string(out))
}

func (e *engine) update(t *testing.T, folder string, flush bool) {
	t.Helper()
	status, text := e.post(t, "/update_weights_from_disk", map[string]any{"model_path": folder, "flush_cache": flush})
	if flush && strings.Contains(text, "the cache was not flushed") {
		e.flush(t) // the engine had not yet put its last, answered request away
		return
	}
	if status != http.StatusOK {
		t.Fatalf("%s does not load %s: %d %s", e.name(), folder, status, text)
	}
}

// updated: an update in place. The pages of the old weights are no hits on the engine itself, and
// those of the new ones are on another node's engine that has them too.
func (p *weightProof) updated(t *testing.T) {
	hit, _ := tierHit(tierPrompt)
	p.stored(t, 3000)
	p.right(t, "B, from A's tier", p.b, 3000, hit)
	p.a.update(t, p.other, true)
	p.right(t, "A, updated from disk", p.a, 3000, 0)
	p.b.flush(t)
	p.right(t, "B, not yet updated", p.b, 3000, hit)
	p.b.update(t, p.other, true)
	for n := range uint64(weightPrompts) {
		p.sa.waitStored(t, p.prompt(3000+n, tierPrompt))
	}
	p.right(t, "B, updated too: A's new pages", p.b, 3000, hit)
}

// unflushed: an update that keeps the engine's own cache leaves pages of two weights in one prompt.
// Nothing of that reaches the tier.
func (p *weightProof) unflushed(t *testing.T) {
	first := filepath.Join(installation(t), tierModel)
	p.a.update(t, first, false)
	before := p.sa.must(t).Stored
	for n := range uint64(weightPrompts) {
		if a := p.a.ask(t.Context(), p.prompt(3100+n, tierPrompt), weightAnswer); a.err != nil || a.storage != 0 {
			t.Errorf("prompt %d: %d tokens from storage, %v", n, a.storage, a.err)
		}
	}
	if after := p.sa.must(t).Stored; after != before {
		t.Errorf("%d pages were stored while the engine held KV of two weights, want none", after-before)
	}
	p.a.flush(t)
	p.right(t, "A, flushed after an update without", p.a, 3100, 0)
}

// fromTensors: weights that came in another way and are equal find the pages of the other node.
func (p *weightProof) fromTensors(t *testing.T) {
	hit, _ := tierHit(tierPrompt)
	p.stored(t, 3150)
	out, err := exec.Command(python(t), "tensors.py", p.a.url, p.other).CombinedOutput()
	if err != nil {
		t.Fatalf("cannot give tensors to %s: %v\n%s", p.a.name(), err, out)
	}
	p.right(t, "A, updated from tensors", p.a, 3150, 0)
	p.right(t, "A, pages of B, which has the same from disk", p.a, 3000, hit)
}

// refused: an update that fails leaves the weights, and so the pages, as they were.
func (p *weightProof) refused(t *testing.T) {
	hit, _ := tierHit(tierPrompt)
	p.stored(t, 3200)
	status, text := p.a.post(t, "/update_weights_from_disk", map[string]any{"model_path": "/nowhere"})
	if status == http.StatusOK {
		t.Fatalf("weights from /nowhere: %s", text)
	}
	p.a.flush(t)
	p.right(t, "A, after an update that failed", p.a, 3200, hit)
}

// cleared: the endpoint that says so leaves no page, here or on the other node.
func (p *weightProof) cleared(t *testing.T) {
	p.stored(t, 3300)
	hit, _ := tierHit(tierPrompt)
	p.right(t, "B, from A's tier again", p.b, 3300, hit)
	p.a.flush(t) // which waits until all that was computed is stored
	p.b.flush(t)
	if status, text := p.a.post(t, "/hicache/storage-backend/clear", nil); status != http.StatusOK {
		t.Fatalf("clear: %d %s", status, text)
	}
	for _, s := range []*sidecar{p.sa, p.sb} {
		s.wait(t, "no page is left", func(stats tierStats) bool { return stats.Pages == 0 })
	}
	p.right(t, "A, after a clear", p.a, 3300, 0)
	for n := range uint64(weightPrompts) {
		p.sa.waitStored(t, p.prompt(3300+n, tierPrompt))
	}
	p.right(t, "B, after a clear: A's new pages", p.b, 3300, hit)
}

// redeployed: an engine of the same served name begins with other weights, and then with equal
// ones.
func (p *weightProof) redeployed(t *testing.T) {
	hit, _ := tierHit(tierPrompt)
	p.a.flush(t)
	p.stored(t, 3400)
	own := slices.Clone(p.a.flags)
	for _, c := range []struct {
		what, folder string
		storage      int
	}{
		{"A, redeployed with other weights", filepath.Join(installation(t), tierModel), 0},
		{"A, redeployed with a copy of its weights", copyOf(t, p.other), hit},
	} {
		p.a.proc.kill()
		p.sa.wait(t, "the engine is gone", func(stats tierStats) bool { return stats.Clients == 0 })
		p.a.flags = slices.Clone(own)
		p.a.flags[slices.Index(own, "--model-path")+1] = c.folder
		p.a.start(t, p.keeper, p.dir)
		waitAll(t, []*engine{p.a})
		p.connected(t)
		p.right(t, c.what, p.a, 3400, c.storage)
	}
}

// copyOf is the same model at another path.
func copyOf(t *testing.T, folder string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	return dir
}
