//go:build engines

package engines_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// sidecar is one `warmpath node` process with a KV tier. Two of them stand for two nodes.
type sidecar struct {
	name, binary, socket string
	port, peerPort       int // of its HTTP API and of its tier
	other                *sidecar
	proc                 *process
	lives                int
}

// nodes makes two sidecars that will know each other.
func nodes(t *testing.T, dir, binary string) (a, b *sidecar) {
	t.Helper()
	ports := freePorts(t, 4)
	a = &sidecar{name: "a", binary: binary, socket: filepath.Join(dir, "a.sock"), port: ports[0], peerPort: ports[1]}
	b = &sidecar{name: "b", binary: binary, socket: filepath.Join(dir, "b.sock"), port: ports[2], peerPort: ports[3]}
	a.other, b.other = b, a
	return a, b
}

// start runs the sidecar, also again after its death, on the same socket and ports.
func (s *sidecar) start(t *testing.T, k *keeper, dir string) {
	t.Helper()
	s.lives++
	cmd := exec.Command(s.binary, "node", "--no-find", "--name", s.name, "--listen", fmt.Sprintf("127.0.0.1:%d", s.port),
		"--kv-tier", "64MiB", "--kv-tier-socket", s.socket, "--kv-tier-listen", fmt.Sprintf("127.0.0.1:%d", s.peerPort),
		"--kv-tier-peer", fmt.Sprintf("127.0.0.1:%d", s.other.peerPort),
		"--kv-tier-ask", "10s", "--kv-tier-warm", "0") // the machine may be busy; and what is a hit shall be one of the request's
	cmd.Env = append(os.Environ(), "NIXL_CAPI_LIB="+nixlLibrary(t))
	s.proc = spawn(t, k, dir, fmt.Sprintf("sidecar-%s%d", s.name, s.lives), cmd)
}

// nixlLibrary is NIXL's as the engines' installation has it.
func nixlLibrary(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(installation(t), "sglang/lib/python3*/site-packages/.nixl_cu*/libnixl_capi.so"))
	if err != nil || len(found) == 0 {
		return "" // The tiers then use TCP.
	}
	return found[0]
}

// tierStats are the counts of GET /tier that the test looks at.
type tierStats struct {
	Pages, Clients, Peers, Stored, Read, Pulled int64
	PulledBytes                                 int64   `json:"pulled_bytes"`
	PullSeconds                                 float64 `json:"pull_seconds"`
	NIXL                                        bool
}

// stats asks the sidecar; ok is false where it does not answer.
func (s *sidecar) stats() (stats tierStats, ok bool) {
	client := http.Client{Timeout: time.Second}
	answer, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/tier", s.port))
	if err != nil {
		return stats, false
	}
	defer answer.Body.Close()
	return stats, json.NewDecoder(answer.Body).Decode(&stats) == nil
}

// must is stats of a sidecar that is known to live.
func (s *sidecar) must(t *testing.T) tierStats {
	t.Helper()
	stats, ok := s.stats()
	if !ok {
		t.Fatalf("sidecar %s does not answer", s.name)
	}
	return stats
}

// wait waits for what the sidecar will say.
func (s *sidecar) wait(t *testing.T, what string, ok func(tierStats) bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		stats, answers := s.stats()
		if answers && ok(stats) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("sidecar %s: %s: not after a minute: %+v", s.name, what, stats)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// hint tells the sidecar of a prompt that is on its way to its engine.
func (s *sidecar) hint(t *testing.T, ids []int) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"model": "tiny", "input_ids": ids})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Post(fmt.Sprintf("http://127.0.0.1:%d/prefetch", s.port), "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	var told struct{ Namespaces, Pages, Ready int }
	if err := json.Unmarshal(text, &told); err != nil || told.Namespaces != 1 || told.Ready != told.Pages {
		t.Errorf("the hint was answered %s", text)
	}
}

// cachedAnswer is what one /generate request said, with where its prompt's pages came from.
type cachedAnswer struct {
	ids                   []int
	cached, host, storage int
	took                  time.Duration // to the whole answer
	err                   error
}

// ask sends a prompt and waits for the whole greedy answer of n tokens: with n = 1, the time to the first token.
func (e *engine) ask(ctx context.Context, ids []int, n int) (a cachedAnswer) {
	body, err := json.Marshal(map[string]any{
		"input_ids": ids, "return_cached_tokens_details": true,
		"sampling_params": map[string]any{"max_new_tokens": n, "temperature": 0, "ignore_eos": true},
	})
	if err != nil {
		return cachedAnswer{err: err}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/generate", bytes.NewReader(body))
	if err != nil {
		return cachedAnswer{err: err}
	}
	request.Header.Set("Content-Type", "application/json")
	began := time.Now()
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return cachedAnswer{err: err}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	a.took = time.Since(began)
	var g struct {
		OutputIDs []int `json:"output_ids"`
		Meta      struct {
			Cached  int                         `json:"cached_tokens"`
			Details struct{ Host, Storage int } `json:"cached_tokens_details"`
		} `json:"meta_info"`
	}
	if err == nil {
		err = json.Unmarshal(text, &g)
	}
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", answer.StatusCode, text)
	}
	return cachedAnswer{g.OutputIDs, g.Meta.Cached, g.Meta.Details.Host, g.Meta.Details.Storage, a.took, err}
}
