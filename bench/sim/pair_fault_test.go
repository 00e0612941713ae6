package sim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/testkit"
)

const legBody = `{"input_ids":[1000,1001,1002,1003,1004,1005],"sampling_params":{"max_new_tokens":8,"ignore_eos":true},"rid":"leg-0001"}`

// short makes the engine's time-outs 20 ms.
func short(cfg *Config) {
	cfg.BootstrapTimeout, cfg.WaitingTimeout = 20*time.Second, 20*time.Second
}

// says fails unless r is an error with this status and text.
func says(t *testing.T, r reply, status int, text string) {
	t.Helper()
	if r.status != status || !strings.Contains(string(r.body), text) {
		t.Errorf("got %d %s\nwant %d with %q", r.status, r.body, status, text)
	}
}

func TestWithoutARoom(t *testing.T) {
	c := startCouple(t, nil)
	const text = `Invalid request: Disaggregated request received without bootstrap room id. req.rid='r'`
	for _, w := range []*Worker{c.prefill, c.decode} {
		r := post(t, w, "/generate", `{"text":"a","rid":"r"}`)
		says(t, r, http.StatusBadRequest, `{"error":{"message":"`+text)
		r = post(t, w, "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"rid":"r"}`)
		says(t, r, http.StatusBadRequest, `"message":"`+text+`","type":"BadRequestError"`)
		r = post(t, w, "/v1/completions", `{"prompt":"a","rid":"r","stream":true}`)
		says(t, r, http.StatusOK, `data: {"error": {"object": "error", "message": "`+text+`", "type": "BAD_REQUEST", "param": null, "code": 400}}`)
		r = post(t, w, "/generate", `{"text":"a","rid":"r","stream":true}`)
		says(t, r, http.StatusOK, `"finish_reason":{"type":"abort","message":"`+text+`","status_code":400,"err_type":null}`)
		if r := get(t, w, "/health"); r.status != http.StatusOK {
			t.Errorf("health says %d", r.status)
		}
	}
	c.idle(t)
}

// TestLegWithoutAPartner sends one leg alone.
func TestLegWithoutAPartner(t *testing.T) {
	c := startCouple(t, short)
	says(t, post(t, c.prefill, "/generate", c.with(legBody)), http.StatusInternalServerError, fmt.Sprintf(
		`{"object":"error","message":"Prefill bootstrap failed for request rank=0 req.rid='leg-0001' req.bootstrap_room=%d `+
			`with exception KVTransferError(bootstrap_room=%d): Request %d timed out after `, c.room, c.room, c.room))
	says(t, post(t, c.decode, "/generate", c.with(legBody)), http.StatusInternalServerError, fmt.Sprintf(
		`{"object":"error","message":"Decode transfer failed for request rank=0 decode_req.req.rid='leg-0001' decode_req.req.bootstrap_room=%d `+
			`with exception KVTransferError(bootstrap_room=%d): Request %d timed out after 20.0s in KVPoll.WaitingForInput","type":"500"`, c.room, c.room, c.room))
	c.idle(t)
}

// TestAbortEndsAWaitingLeg aborts legs without a partner.
func TestAbortEndsAWaitingLeg(t *testing.T) {
	c := startCouple(t, nil)
	for _, w := range []*Worker{c.prefill, c.decode} {
		var r reply
		var wg sync.WaitGroup
		body := c.with(legBody)
		wg.Go(func() { r, _ = trySend(w, http.MethodPost, "/generate", body, nil) })
		testkit.AwaitThat(t, func() bool { return w.Work().Legs == 1 }, func() string { return "no leg" })
		post(t, w, "/abort_request", `{"rid":"leg-0001"}`)
		wg.Wait()
		says(t, r, http.StatusInternalServerError, "Aborted by AbortReq.")
	}
	c.idle(t)
}

// pair sends both legs in the background.
type pair struct {
	wg              sync.WaitGroup
	prefill, decode reply
	perr, derr      error
}

func (c *couple) begin(path, body string) *pair {
	p := &pair{}
	body = c.with(body)
	p.wg.Go(func() { p.prefill, p.perr = trySend(c.prefill, http.MethodPost, path, body, nil) })
	p.wg.Go(func() { p.decode, p.derr = trySend(c.decode, http.MethodPost, path, body, nil) })
	return p
}

func fault(t *testing.T, w *Worker, f Fault) {
	t.Helper()
	if err := w.Faults().Apply(f); err != nil {
		t.Fatal(err)
	}
}

// sending waits until the prefill worker's leg is being sent.
func (c *couple) sending(t *testing.T) {
	t.Helper()
	testkit.AwaitThat(t, func() bool {
		return c.prefill.now.Load().ranks[0].report.snapshot().legs[legSending] == 1
	}, func() string { return fmt.Sprintf("%+v", c.prefill.Work()) })
}

// TestTransferThatNeverEnds holds pages on both sides until a leg is aborted or times out.
func TestTransferThatNeverEnds(t *testing.T) {
	c := startCouple(t, nil)
	fault(t, c.prefill, Fault{Kind: "stall-transfer"})
	p := c.begin("/generate", legBody)
	c.sending(t)
	for name, w := range map[string]*Worker{"prefill": c.prefill, "decode": c.decode} {
		if work := w.Work(); work.Pages == 0 || work.Legs != 1 || work.Requests != 1 {
			t.Errorf("the %s worker holds %+v", name, work)
		}
	}
	post(t, c.decode, "/abort_request", `{"rid":"leg-0001"}`)
	p.wg.Wait()
	says(t, p.decode, http.StatusInternalServerError, "Decode transfer failed")
	says(t, p.prefill, http.StatusInternalServerError, "Prefill transfer failed for request rank=0 req.rid='leg-0001'")
	says(t, p.prefill, http.StatusInternalServerError, "Aborted by decode-side abort notification.")
	c.idle(t)
	_, d := c.both(t, "/generate", c.with(legBody)) // the next one is well
	says(t, d, http.StatusOK, `"completion_tokens":8`)
}

// TestDecodeIsNotToldOfAnAbortedPrefill: a router has to abort both legs.
func TestDecodeIsNotToldOfAnAbortedPrefill(t *testing.T) {
	c := startCouple(t, nil)
	fault(t, c.prefill, Fault{Kind: "stall-transfer"})
	p := c.begin("/generate", legBody)
	c.sending(t)
	post(t, c.prefill, "/abort_request", `{"rid":"leg-0001"}`)
	testkit.AwaitThat(t, func() bool { return c.prefill.Work() == Work{} }, func() string { return fmt.Sprintf("%+v", c.prefill.Work()) })
	if w := c.decode.Work(); w.Legs != 1 {
		t.Errorf("the decode worker holds %+v", w)
	}
	post(t, c.decode, "/abort_request", `{"abort_all":true}`)
	p.wg.Wait()
	says(t, p.prefill, http.StatusInternalServerError, byAbort)
	c.idle(t)
}

// TestPrefillDies kills the prefill worker behind a decode leg that waits for it.
func TestPrefillDies(t *testing.T) {
	c := startCouple(t, nil)
	fault(t, c.prefill, Fault{Kind: "stall-transfer"})
	p := c.begin("/generate", legBody)
	c.sending(t)
	fault(t, c.prefill, Fault{Kind: "crash"})
	p.wg.Wait()
	if p.perr == nil {
		t.Errorf("the killed worker answered %d %s", p.prefill.status, p.prefill.body)
	}
	says(t, p.decode, http.StatusInternalServerError, "Lost connection with prefill instance (bootstrap_addr: 127.0.0.1:")
	c.prefill.Faults().Restart(0)
	testkit.AwaitThat(t, func() bool { return c.prefill.now.Load() != nil }, func() string { return "not back" })
	_, d := c.both(t, "/generate", c.with(legBody))
	says(t, d, http.StatusOK, `"completion_tokens":8`)
	c.idle(t)
}

// TestDecodeDies kills the decode worker behind a prefill leg that sends to it.
func TestDecodeDies(t *testing.T) {
	for latency := 5 * time.Minute; ; latency *= 10 { // at this scale 300 ms, in which a slow machine may not come to kill it
		if c, p, sent := killDecode(t, latency); !sent || latency > 10_000*time.Minute {
			if p.derr == nil {
				t.Errorf("the killed worker answered %d %s", p.decode.status, p.decode.body)
			}
			says(t, p.prefill, http.StatusInternalServerError, "Failed to send kv chunk")
			c.idle(t)
			return
		}
	}
}

// killDecode kills the decode worker of a pair during the transfer, unless that has ended before.
func killDecode(t *testing.T, latency time.Duration) (c *couple, p *pair, sent bool) {
	t.Helper()
	c = startCouple(t, func(cfg *Config) { cfg.Service.TransferLatency = latency })
	p = c.begin("/generate", legBody)
	answered := make(chan struct{})
	go func() { defer close(answered); p.wg.Wait() }()
	testkit.AwaitThat(t, func() bool {
		select {
		case <-answered:
			return true
		default:
			return c.prefill.now.Load().ranks[0].report.snapshot().legs[legSending] == 1
		}
	}, func() string { return fmt.Sprintf("%+v", c.prefill.Work()) })
	fault(t, c.decode, Fault{Kind: "crash"})
	<-answered
	return c, p, p.perr == nil && p.prefill.status == http.StatusOK
}

// TestBootstrapServerIsAway: decode legs fail without a bootstrap server, and succeed if it
// returns in time.
func TestBootstrapServerIsAway(t *testing.T) {
	for _, kind := range []string{"bootstrap-down", "bootstrap-503"} {
		t.Run(kind, func(t *testing.T) {
			c := startCouple(t, nil)
			fault(t, c.prefill, Fault{Kind: kind})
			p := c.begin("/generate", legBody)
			testkit.AwaitThat(t, func() bool { return c.prefill.Work().Legs == 1 }, func() string { return "no leg" })
			testkit.AwaitThat(t, func() bool { return c.decode.Work() == Work{} }, func() string { return fmt.Sprintf("%+v", c.decode.Work()) })
			post(t, c.prefill, "/abort_request", `{"abort_all":true}`)
			p.wg.Wait()
			want := "Decode handshake failed"
			if kind == "bootstrap-down" && strings.Contains(string(p.decode.body), "Lost connection") {
				want = "Lost connection" // two heartbeats may be missed before fifteen look-ups
			}
			says(t, p.decode, http.StatusInternalServerError, want)
			fault(t, c.prefill, Fault{Kind: "none"})
			_, d := c.both(t, "/generate", c.with(legBody))
			says(t, d, http.StatusOK, `"completion_tokens":8`)
			c.idle(t)
		})
	}
}

// TestRequestFaults checks each fault of a single request, as JSON and as a stream.
func TestRequestFaults(t *testing.T) {
	w := startWorker(t, fast())
	const body = `{"prompt":"tell me","max_tokens":200,"ignore_eos":true`
	tests := []struct {
		kind         string
		json, stream func(reply, error) bool
	}{
		{"error-5xx", is(500, "Internal server error"), is(500, "Internal server error")},
		{"error", is(500, "Internal server error"), is(500, "Internal server error")},
		{"empty", is(200, ""), is(200, "")},
		{"error-json", is(200, `{"error":`), is(200, `{"error":`)},
		{"reset", isReset, isReset},
		{"error-event", is(500, "Internal server error"), is(200, `data: {"error": {"object": "error"`)},
		{"reset-late", isReset, isReset},
		{"error-event-late", is(500, "Internal server error"), is(200, `data: {"error": {"object": "error"`)},
	}
	for _, x := range tests {
		for name, ok := range map[string]func(reply, error) bool{"": x.json, `,"stream":true`: x.stream} {
			fault(t, w, Fault{Kind: x.kind})
			if r, err := trySend(w, http.MethodPost, "/v1/completions", body+name+"}", nil); !ok(r, err) {
				t.Errorf("%s%s: got %d %s %v", x.kind, name, r.status, r.body, err)
			}
			if r := post(t, w, "/v1/completions", body+"}"); r.status != http.StatusOK {
				t.Errorf("%s: the next request gets %d", x.kind, r.status)
			}
		}
	}
	testkit.AwaitThat(t, func() bool { return w.Work() == Work{} }, func() string { return fmt.Sprintf("%+v", w.Work()) })
}

func is(status int, text string) func(reply, error) bool {
	return func(r reply, err error) bool {
		return err == nil && r.status == status && strings.Contains(string(r.body), text)
	}
}

func isReset(_ reply, err error) bool { return err != nil }

// TestStalledRequestEndsByAbort: no time-out of the engine ends a stalled request.
func TestStalledRequestEndsByAbort(t *testing.T) {
	w := startWorker(t, fast())
	fault(t, w, Fault{Kind: "stall"})
	var r reply
	var wg sync.WaitGroup
	wg.Go(func() { r, _ = trySend(w, http.MethodPost, "/generate", legBody, nil) })
	testkit.AwaitThat(t, func() bool { return w.Work().Stalled == 1 }, func() string { return fmt.Sprintf("%+v", w.Work()) })
	post(t, w, "/abort_request", `{"rid":"leg-0001"}`)
	wg.Wait()
	says(t, r, http.StatusOK, `"type":"abort"`)
}

// TestBootstrapRoutes sends the requests of routers and decode workers.
func TestBootstrapRoutes(t *testing.T) {
	cfg := fast()
	cfg.Mode, cfg.DPSize = ModePrefill, 2
	w := startWorker(t, cfg)
	cfg.BootstrapDelay = 1e6 * time.Second
	late := startWorker(t, cfg)
	ask := func(of *Worker, path string) (int, string) {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", of.BootstrapPort(), path))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	const topology = "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"
	testkit.AwaitThat(t, func() bool { status, _ := ask(w, topology); return status == http.StatusOK }, func() string { return "not registered" })
	for _, x := range []struct {
		of     *Worker
		path   string
		status int
		want   string
	}{
		{late, "/health", 200, "OK"},
		{late, topology, 503, "Prefill server not fully registered yet (0 workers registered)."},
		{w, "/route?prefill_dp_rank=-1", 400, "Missing inputs for bootstrap server."},
		{w, topology, 200, `"dp_size": 2, "pp_size": 1, "page_size": 4`},
		{w, "/route?prefill_dp_rank=1&prefill_cp_rank=0&target_tp_rank=0&target_pp_rank=0", 200, `{"rank_ip": "127.0.0.1", "rank_port": `},
		{w, "/route?prefill_dp_rank=2&prefill_cp_rank=0&target_tp_rank=0&target_pp_rank=0", 404, "Bootstrap info not found for dp_rank=2"},
		{w, "/elsewhere", 404, "404: Not Found"},
	} {
		if status, got := ask(x.of, x.path); status != x.status || !strings.Contains(got, x.want) {
			t.Errorf("%s: got %d %s, want %d %s", x.path, status, got, x.status, x.want)
		}
	}
	info := decode[struct {
		Mode string `json:"disaggregation_mode"`
		Port int    `json:"disaggregation_bootstrap_port"`
	}](t, get(t, w, "/server_info"))
	if info.Mode != ModePrefill || info.Port != w.BootstrapPort() {
		t.Errorf("server_info says %+v", info)
	}
}

// TestRoomChoosesTheRank sends legs to a prefill worker of three ranks.
func TestRoomChoosesTheRank(t *testing.T) {
	c := startCouple(t, func(cfg *Config) {
		if cfg.Mode == ModePrefill {
			cfg.DPSize = 3
		}
	})
	for room := range 6 {
		c.room = int64(room) - 1000
		p, _ := c.both(t, "/generate", c.with(legBody))
		if a := decode[generatedAnswer](t, p); a.Meta.Rank == nil || *a.Meta.Rank != room%3 {
			t.Errorf("room %d was served by rank %v", room, a.Meta.Rank)
		}
	}
	loads := decode[struct {
		Loads []struct {
			Pair struct {
				Mode string `json:"mode"`
			} `json:"disaggregation"`
		} `json:"loads"`
	}](t, get(t, c.prefill, "/v1/loads"))
	if len(loads.Loads) != 3 || loads.Loads[0].Pair.Mode != ModePrefill {
		t.Errorf("loads say %+v", loads)
	}
}

// FuzzRooms compares the rooms read from a body with encoding/json's.
func FuzzRooms(f *testing.F) {
	f.Add([]byte(`5`))
	f.Add([]byte(`[9223372036854775807,null,3]`))
	f.Add([]byte(`["1"]`))
	f.Fuzz(func(t *testing.T, value []byte) {
		if !json.Valid(value) {
			return
		}
		o := parseObject([]byte(`{"bootstrap_room":` + string(value) + `}`))
		if o.err != nil {
			return // ours is stricter about white space only
		}
		got, one := o.wholeNumbers("bootstrap_room", -1)
		err := o.err
		var single int64
		var list []*int64
		switch {
		case string(o.raw("bootstrap_room")) == "":
		case json.Unmarshal(value, &single) == nil:
			if err != nil || !one || len(got) != 1 || got[0] != single {
				t.Errorf("%s was read as %v %v %v", value, got, one, err)
			}
		case json.Unmarshal(value, &list) == nil:
			if err != nil || one || len(got) != len(list) {
				t.Fatalf("%s was read as %v %v %v", value, got, one, err)
			}
			for i, n := range list {
				if want := int64(-1); n != nil && got[i] != *n || n == nil && got[i] != want {
					t.Errorf("%s was read as %v", value, got)
				}
			}
		}
	})
}
