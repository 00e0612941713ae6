package console_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/dataplane/admin/console"
)

// maxPage keeps the page small enough to read in the source.
const maxPage = 15 << 10

func TestPageIsSmall(t *testing.T) {
	if n := len(console.Page()); n == 0 || n > maxPage {
		t.Errorf("the page has %d bytes, want 1 to %d", n, maxPage)
	}
}

// The page must work without a network, and must not tell anyone that it is open.
func TestPageRefersToNoOtherHost(t *testing.T) {
	outside := regexp.MustCompile(`(?i)https?:|wss?:|["'(=]//|@import|url\(|src=|(href|action)="[^"]*"`)
	for _, found := range outside.FindAll(console.Page(), -1) {
		if string(found) != `href="data:,"` {
			t.Errorf("the page refers to %q", found)
		}
	}
}

// Values of /status come from workers: they must not reach the page as HTML.
func TestPageInsertsTextOnly(t *testing.T) {
	for _, way := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "setAttribute", "srcdoc"} {
		if bytes.Contains(console.Page(), []byte(way)) {
			t.Errorf("the page uses %s", way)
		}
	}
}

// TestPageParses checks that every element that needs an end has one, in order.
func TestPageParses(t *testing.T) {
	page := string(console.Page())
	if !strings.HasPrefix(page, "<!DOCTYPE html>") {
		t.Error("the page does not begin with its doctype")
	}
	void := map[string]bool{"meta": true, "link": true, "input": true}
	raw := regexp.MustCompile(`(?s)(<(?:script|style)>).*?(</(?:script|style)>)`)
	var open []string
	for _, tag := range regexp.MustCompile(`<(/?)([a-z0-9]+)[^>]*>`).FindAllStringSubmatch(raw.ReplaceAllString(page, "$1$2"), -1) {
		switch end, name := tag[1] != "", tag[2]; {
		case void[name]:
		case !end:
			open = append(open, name)
		case len(open) == 0 || open[len(open)-1] != name:
			t.Fatalf("</%s> ends nothing: open are %v", name, open)
		default:
			open = open[:len(open)-1]
		}
	}
	if len(open) != 0 {
		t.Errorf("without an end: %v", open)
	}
}

// TestPageReadsStatus checks that each field of /status that the page promises is read in it.
func TestPageReadsStatus(t *testing.T) {
	fields := []string{
		"s.version", "s.policy", "s.uptime_seconds", "s.requests", "s.in_flight", "s.errors", "s.hit_rate", "s.hit_tokens",
		"s.prompt_tokens", "s.accuracy", "index.blocks", "index.bytes", "w.id", "w.url", "w.model", "w.state", "w.in_flight",
		"approx.accuracy", "approx.bytes", "approx.max_bytes", "w.overlap", "w.role", "w.breaker", "w.gpus", "g.state", "g.weight", "g.reasons",
		`g.state ?? "unknown"`, "w.pending_tokens", "w.requests", "w.share", "w.hit_rate", "w.blocks", ".lag_ms", ".gaps",
	}
	for _, field := range fields {
		if !bytes.Contains(console.Page(), []byte(field)) {
			t.Errorf("the page does not read %s", field)
		}
	}
}
