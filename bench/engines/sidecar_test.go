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
	"testing"
	"time"
)

// sidecar is one `warmpath node` process with a KV tier. Two of them stand for two nodes.
type sidecar struct {
	name, binary, socket string
	cluster, worker      string // URLs of the cluster's NATS and of the node's engine
	ranks                int    // of that engine: each is a namespace of the tier
	port, peerPort       int    // of its HTTP API and of its tier
	other                *sidecar
	proc                 *process
	lives                int
}

// nodes makes two sidecars that will know each other.
func nodes(t *testing.T, dir string) (a, b *sidecar) {
	t.Helper()
	ports := freePorts(t, 4)
	a = &sidecar{name: "a", socket: filepath.Join(dir, "a.sock"), port: ports[0], peerPort: ports[1]}
	b = &sidecar{name: "b", socket: filepath.Join(dir, "b.sock"), port: ports[2], peerPort: ports[3]}
	a.other, b.other = b, a
	return a, b
}

// start runs the sidecar, also again after its death, on the same socket and ports.
func (s *sidecar) start(t *testing.T, k *keeper, dir string) {
	t.Helper()
	s.lives++
	cmd := exec.Command(s.binary, "node", "--no-find", "--worker", s.worker, "--name", s.name, "--listen", fmt.Sprintf("127.0.0.1:%d", s.port),
		"--cluster", s.cluster, "--advertise", "127.0.0.1", "--link-bytes", "1MiB",
		"--kv-tier", "256MiB", "--kv-tier-socket", s.socket, "--kv-tier-listen", fmt.Sprintf("127.0.0.1:%d", s.peerPort),
		"--kv-tier-peer", fmt.Sprintf("127.0.0.1:%d", s.other.peerPort), // which the cluster would tell as well, a little later
		"--kv-tier-ask", "10s") // the machine may be busy
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
	Namespaces                                  int
	PulledBytes                                 int64   `json:"pulled_bytes"`
	PullSeconds                                 float64 `json:"pull_seconds"`
	NIXL                                        bool
	Hints                                       struct {
		Pulled int64 `json:"pulled_pages"` // that came because of a router's hint
	}
}

// stats asks the sidecar; ok is false where it does not answer.
func (s *sidecar) stats() (stats tierStats, ok bool) {
	client := http.Client{Timeout: patience}
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
	deadline := time.Now().Add(patience)
	for {
		stats, answers := s.stats()
		if answers && ok(stats) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("sidecar %s: %s: not after %v: %+v", s.name, what, patience, stats)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// expected is what a sidecar says to a hint.
type expected struct{ Namespaces, Pages, Ready int }

// hint tells the sidecar of a prompt that is on its way to its engine. All its pages must be in a tier.
func (s *sidecar) hint(t *testing.T, ids []int) {
	t.Helper()
	if told := s.expect(t, ids); told.Namespaces != s.ranks || told.Ready != told.Pages {
		t.Errorf("the hint was answered %+v", told)
	}
}

// waitStored waits until the sidecar has all whole pages of a prompt that its engine has computed, and no other engine.
func (s *sidecar) waitStored(t *testing.T, ids []int) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		told := s.expect(t, ids)
		if told.Pages == s.ranks*(len(ids)/pageSize) && told.Ready == told.Pages {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("sidecar %s: the prompt's pages are not stored after %v: %+v", s.name, patience, told)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func (s *sidecar) expect(t *testing.T, ids []int) (told expected) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"model": served, "input_ids": ids})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Post(fmt.Sprintf("http://127.0.0.1:%d/prefetch", s.port), "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	if err := json.Unmarshal(text, &told); err != nil {
		t.Fatalf("the hint was answered %s", text)
	}
	return told
}
