package sim

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// loaded is one rank's entry of /v1/loads.
type loaded struct {
	Running   int `json:"num_running_reqs"`
	Used      int `json:"num_used_tokens"`
	Prefilled int `json:"total_prefill_uncached_tokens"`
	Busy      int `json:"total_prefill_busy_us"`
}

// awaitLoad polls the load until ok accepts it.
func awaitLoad(t *testing.T, w *Worker, what string, ok func(loaded) bool) (l loaded) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		l = decode[struct {
			Loads []loaded `json:"loads"`
		}](t, get(t, w, "/v1/loads")).Loads[0]
		if ok(l) {
			return l
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %+v", what, l)
		}
	}
}

func TestLoadFaults(t *testing.T) {
	cfg := fast()
	cfg.TimeScale = 10
	w := startWorker(t, cfg)
	computed := 0
	prompt := func(first int) loaded {
		ids := make([]string, 400)
		for i := range ids {
			ids[i] = strconv.Itoa(first + i)
		}
		post(t, w, "/generate", `{"input_ids":[`+strings.Join(ids, ",")+`],"sampling_params":{"max_new_tokens":2}}`)
		computed += 400
		return awaitLoad(t, w, "not computed", func(l loaded) bool { return l.Running == 0 && l.Prefilled >= computed })
	}
	honest := prompt(1000)
	if honest.Used != 0 || honest.Busy == 0 {
		t.Fatalf("an honest worker reports %+v", honest)
	}
	apply := func(x Fault) {
		if err := w.Faults().Apply(x); err != nil {
			t.Fatal(err)
		}
	}
	apply(Fault{Kind: "cached-as-used"})
	awaitLoad(t, w, "cached pages do not count", func(l loaded) bool { return l.Used >= 400 })
	apply(Fault{Kind: "none"})
	awaitLoad(t, w, "cached pages count for good", func(l loaded) bool { return l.Used == 0 })

	apply(Fault{Kind: "busy-runs-behind", Factor: 20})
	if lies := prompt(2000); lies.Busy-honest.Busy > honest.Busy/5 {
		t.Fatalf("busy for %d and then %d µs more", honest.Busy, lies.Busy-honest.Busy)
	}
	before := awaitLoad(t, w, "", func(loaded) bool { return true })
	apply(Fault{Kind: "none"})
	apply(Fault{Kind: "slow", Factor: 5})
	if slow := prompt(3000); slow.Busy-before.Busy < 3*honest.Busy {
		t.Fatalf("a slow worker was busy for %d µs, not %d", slow.Busy-before.Busy, 5*honest.Busy)
	}
}
