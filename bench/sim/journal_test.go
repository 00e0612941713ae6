package sim

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/dataplane/testkit"
)

// TestJournal: numbers in bodies are noted as requests begin, and again when an answer is whole.
func TestJournal(t *testing.T) {
	journal := &testkit.Text{}
	cfg := fast()
	cfg.Journal = journal
	w := startWorker(t, cfg)
	generate := func(text, more string) {
		send(t, w, http.MethodPost, "/generate", `{"text":"`+text+`","sampling_params":{"max_new_tokens":2}`+more+`}`, nil)
	}
	generate("shared words, #17 and #18", "")
	generate("#19x", `,"stream":true`)
	generate("no number: #, # 20", "")
	if err := w.Faults().Apply(Fault{Kind: "error"}); err != nil {
		t.Fatal(err)
	}
	generate("#21", "")
	got := strings.Fields(journal.String())
	if want := []string{"+17", "-17", "+19", "-19", "+21"}; !slices.Equal(got, want) {
		t.Errorf("the journal has %q, want %q", got, want)
	}
}
