package sim

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/testkit"
)

// patience bounds every wait of a test.
const patience = 60 * time.Second

// couple is a prefill and a decode worker of one model, and a regular one with the answers
// to compare with.
type couple struct {
	prefill, decode, oracle *Worker
	room                    int64
}

func startCouple(t *testing.T, change func(*Config)) *couple {
	t.Helper()
	one := func(mode string) *Worker {
		cfg := fast()
		cfg.Mode = mode
		cfg.BootstrapTimeout, cfg.WaitingTimeout = 1e6*time.Second, 1e6*time.Second // nothing may depend on the machine's speed
		if change != nil {
			change(&cfg)
		}
		return startWorker(t, cfg)
	}
	return &couple{prefill: one(ModePrefill), decode: one(ModeDecode), oracle: one(""), room: 1 << 40}
}

// with returns body with the bootstrap fields of both legs.
func (c *couple) with(body string) string {
	c.room += 1000
	return fmt.Sprintf(`%s,"bootstrap_host":"127.0.0.1","bootstrap_port":%d,"bootstrap_room":%d}`,
		strings.TrimSuffix(body, "}"), c.prefill.BootstrapPort(), c.room)
}

// both sends body to both workers at once.
func (c *couple) both(t *testing.T, path, body string) (prefill, decode reply) {
	t.Helper()
	var wg sync.WaitGroup
	var perr, derr error
	wg.Go(func() { prefill, perr = trySend(c.prefill, http.MethodPost, path, body, nil) })
	wg.Go(func() { decode, derr = trySend(c.decode, http.MethodPost, path, body, nil) })
	wg.Wait()
	if perr != nil || derr != nil {
		t.Fatalf("%s: prefill %v, decode %v", path, perr, derr)
	}
	return prefill, decode
}

// idle waits until the workers have no work in progress.
func (c *couple) idle(t *testing.T) {
	t.Helper()
	for _, w := range []*Worker{c.prefill, c.decode} {
		testkit.AwaitThat(t, func() bool { return w.Work() == Work{} }, func() string { return fmt.Sprintf("%+v", w.Work()) })
	}
}

// meta is what tests read of an answer of /generate.
type meta struct {
	IDs  []uint32 `json:"output_ids"`
	Meta struct {
		Cached int `json:"cached_tokens"`
	} `json:"meta_info"`
}

// TestBatchesMeetRoomByRoom sends lists of rooms, and one room for a whole batch.
func TestBatchesMeetRoomByRoom(t *testing.T) {
	for name, rooms := range map[string]string{"list": `[70,71,75]`, "one": `9007199254740993`} {
		t.Run(name, func(t *testing.T) {
			c := startCouple(t, func(cfg *Config) { cfg.DPSize = 2 })
			body := `{"text":["a","b","c"],"sampling_params":{"max_new_tokens":5,"ignore_eos":true}}`
			want := decode[[]meta](t, post(t, c.oracle, "/generate", body))
			p, d := c.both(t, "/generate", fmt.Sprintf(`%s,"bootstrap_host":"127.0.0.1","bootstrap_port":%d,"bootstrap_room":%s}`,
				strings.TrimSuffix(body, "}"), c.prefill.BootstrapPort(), rooms))
			got := decode[[]meta](t, d)
			if len(decode[[]meta](t, p)) != 3 || len(got) != 3 {
				t.Fatalf("got %d answers", len(got))
			}
			for i := range want {
				if !slices.Equal(got[i].IDs, want[i].IDs) {
					t.Errorf("answer %d is %v, want %v", i, got[i].IDs, want[i].IDs)
				}
			}
			if seen, reused := c.prefill.Rooms(); len(seen) != 3 || reused != 0 {
				t.Errorf("rooms %v, %d reused", seen, reused)
			}
		})
	}
}

// TestPrefixIsReported: the decode leg reports the hits of the prefill worker's cache, and a
// decode worker with its own cache stores the answer.
func TestPrefixIsReported(t *testing.T) {
	for _, own := range []bool{false, true} {
		c := startCouple(t, func(cfg *Config) { cfg.DecodeCache = own && cfg.Mode == ModeDecode })
		ids := sequence(500, 41)
		for turn := range 2 {
			_, d := c.both(t, "/generate", c.with(generateBody(ids, 6, "")))
			if got, want := decode[meta](t, d).Meta.Cached, turn*40; got != want {
				t.Errorf("turn %d: cached %d, want %d", turn, got, want)
			}
		}
		c.idle(t)
		tree := c.decode.now.Load().ranks[0].report.snapshot().tree
		if own != (tree > 0) {
			t.Errorf("own cache %v: the decode worker's tree has %d pages", own, tree)
		}
	}
}

// TestOverridesTravelInHeaders: headers override the body.
func TestOverridesTravelInHeaders(t *testing.T) {
	c := startCouple(t, func(cfg *Config) { cfg.HeaderOverrides = true })
	header := map[string]string{
		"x-override-bootstrap-host": "127.0.0.1", "x-override-bootstrap-room": "9223372036854775807",
		"x-override-bootstrap-port": strconv.Itoa(c.prefill.BootstrapPort()),
	}
	const body = `{"messages":[{"role":"user","content":"hi"}],"max_tokens":5}`
	var p, d reply
	var wg sync.WaitGroup
	wg.Go(func() { p, _ = trySend(c.prefill, http.MethodPost, "/v1/chat/completions", body, header) })
	wg.Go(func() { d, _ = trySend(c.decode, http.MethodPost, "/v1/chat/completions", body, header) })
	wg.Wait()
	if p.status != http.StatusOK || d.status != http.StatusOK || !bytes.Contains(d.body, []byte(`"completion_tokens":5`)) {
		t.Errorf("prefill %d, decode %d %s", p.status, d.status, d.body)
	}
	header["x-override-bootstrap-room"] = "x"
	if r := send(t, c.decode, http.MethodPost, "/v1/chat/completions", body, header); r.status != http.StatusBadRequest {
		t.Errorf("a room of letters gets %d", r.status)
	}
}
