package sim

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// notes is a journal in memory.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notes) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(b)
}

// TestJournal: numbers in bodies are noted as requests begin, and again when an answer is whole.
func TestJournal(t *testing.T) {
	journal := &notes{}
	cfg := fast()
	cfg.Journal = journal
	w := startWorker(t, cfg)
	generate := func(text, more string) {
		send(t, w, http.MethodPost, "/generate", `{"text":"`+text+`","sampling_params":{"max_new_tokens":2}`+more+`}`, nil)
	}
	generate("shared words, #17 and #18", "")
	generate("#19x", `,"stream":true`)
	generate("no number: #, # 20", "")
	w.Faults().Fail(1)
	generate("#21", "")
	journal.mu.Lock()
	defer journal.mu.Unlock()
	got := strings.Fields(journal.text.String())
	if want := []string{"+17", "-17", "+19", "-19", "+21"}; !slices.Equal(got, want) {
		t.Errorf("the journal has %q, want %q", got, want)
	}
}
