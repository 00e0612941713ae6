//go:build engines

package engines_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// router is one `warmpath serve` process.
type router struct {
	url  string
	proc *process
}

// buildWarmpath compiles the command that is under test from this working tree. WARMPATH_BIN names a built one instead.
func buildWarmpath(t *testing.T, dir string) string {
	t.Helper()
	if given := os.Getenv("WARMPATH_BIN"); given != "" {
		return given
	}
	binary := filepath.Join(dir, "warmpath")
	if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/warmpath").CombinedOutput(); err != nil {
		t.Fatalf("cannot build warmpath: %v\n%s", err, out)
	}
	return binary
}

// startRouter runs the router on the engines, which it knows by URL alone, and waits until every engine has answered a
// request through it: only then are its expectations worth a comparison.
func startRouter(t *testing.T, k *keeper, dir, binary, policy string, engines []*engine, more ...string) *router {
	t.Helper()
	r := &router{url: fmt.Sprintf("http://127.0.0.1:%d", freePorts(t, 1)[0])}
	args := append([]string{"serve", "--listen", r.url[len("http://"):], "--policy", policy}, more...)
	for _, e := range engines {
		args = append(args, "--worker", e.url)
	}
	name := fmt.Sprintf("router-%s-%d", policy, time.Now().UnixMilli())
	r.proc = spawn(t, k, dir, name, exec.Command(binary, args...))
	r.waitWorkers(t, len(engines))
	return r
}

// waitWorkers sends the smallest requests there are until n workers have answered one. Prompt and answer of three tokens
// fill no cache page, so they leave no trace in what is measured.
func (r *router) waitWorkers(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	seen := map[string]bool{}
	var last outcome
	for len(seen) < n {
		if ctx.Err() != nil {
			t.Fatalf("after 30 s requests reach %d of %d engines: %v; the last: %+v", len(seen), n, seen, last)
		}
		o := generate(ctx, r.url, []int{5, 6}, 1, false)
		if o.err == nil && o.worker != "" {
			seen[o.worker] = true
			continue
		}
		last = o
		<-time.After(20 * time.Millisecond)
	}
}
