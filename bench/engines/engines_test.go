//go:build engines

package engines_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// equalAtLeast is what the project promises: on this share of the requests that begin after the previous answer ended, the
// router's expected overlap is the engine's cached_tokens. A request may begin in the millisecond between an answer's last
// byte and the event of its last pages, which leave the engine at the same time; so it is not all of them. Those are not counted of
// which the overlap was another one while the machine stood still.
const equalAtLeast = 0.95

// TestRealEngines runs the whole proof on one pair of engines, because an engine takes a minute to start.
func TestRealEngines(t *testing.T) {
	installation(t)
	dir := t.TempDir()
	k := newKeeper()
	binary := buildWarmpath(t, dir)
	engines := startEngines(t, k, dir, 2)
	p := &proof{keeper: k, dir: dir, binary: binary, engines: engines}

	t.Run("replay", p.replay)
	t.Run("tokens", p.tokens)
	t.Run("client gone", p.clientGone)
	t.Run("aborts of others", p.abortsOfOthers)
	t.Run("overlap is true", p.overlapIsTrue)
	t.Run("answers are judged", p.answersAreJudged)
	t.Run("engine killed", p.engineKilled)

	if len(p.rows) > 0 {
		keep(t, "replay.txt", table(p.rows, engines)+"\n"+p.notes.String())
		keep(t, "env.txt", environment(t))
	}
}

// replay compares the policies on the same conversations, each beginning with empty caches.
func (p *proof) replay(t *testing.T) {
	for _, policy := range []string{"kv", "round-robin"} {
		for _, e := range p.engines {
			e.flush(t)
		}
		r := startRouter(t, p.keeper, p.dir, p.binary, policy, p.engines)
		client := startOpenAI(t, p.keeper, p.dir, r.url)
		p.add(t, measure("one at a time", policy, func() []outcome {
			return sequential(t.Context(), r.url, client, 1, sequentialRequests)
		}))
		p.add(t, measure("8 in flight", policy, func() []outcome {
			return concurrent(t.Context(), r.url, 2, concurrentRequests)
		}))
		for _, w := range r.status(t).Workers {
			if len(w.Load.SetAside) > 0 {
				t.Errorf("%s, %s: a load report of SGLang is not believed: %+v", policy, w.URL, w.Load)
			}
		}
		took := r.proc.stop(5 * time.Second)
		t.Logf("the router ended %.2f s after SIGTERM", took.Seconds())
	}
	if t.Failed() {
		return
	}
	for i := range 2 {
		kv, rr := &p.rows[i], &p.rows[i+2]
		if kv.hitRate() <= rr.hitRate() {
			t.Errorf("%s: kv hits %.3f, round robin %.3f: want more", kv.phase, kv.hitRate(), rr.hitRate())
		}
	}
}

// add checks one row and keeps it for the table. Only requests that follow an answer have an overlap that can be known.
func (p *proof) add(t *testing.T, m measured) {
	t.Helper()
	p.rows = append(p.rows, m)
	t.Logf("\n%s", table([]measured{m}, p.engines))
	if n := m.errors(); n > 0 {
		t.Errorf("%s, %s: %d requests failed", m.phase, m.policy, n)
	}
	v := m.overlap()
	if strings.HasPrefix(m.phase, "one at a time") && v.share() < equalAtLeast {
		t.Errorf("%s, %s: the overlap is as expected on %.3f of the requests, want %v", m.phase, m.policy, v.share(), equalAtLeast)
	}
	// kv looks at every prompt; the others know the overlap only where ids came with the request.
	if m.policy == "kv" && v.compared() < len(m.outcomes)-m.errors() {
		t.Errorf("%s, %s: %d of %d answers carry an expected overlap, want all", m.phase, m.policy, v.compared(), len(m.outcomes))
	}
	if text := mismatches(&m, 20); text != "" && (strings.HasPrefix(m.phase, "one at a time") || m.errors() > 0) {
		t.Logf("%s, %s: not as expected:\n%s", m.phase, m.policy, text)
	}
}

// note keeps a line for the result file.
func (p *proof) note(t *testing.T, format string, args ...any) {
	t.Helper()
	line := fmt.Sprintf(format, args...)
	t.Log(line)
	p.notes.WriteString(line + "\n")
}
