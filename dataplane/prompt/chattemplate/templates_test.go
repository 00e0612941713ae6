//go:build templates

package chattemplate_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
)

// expected is one line of scripts/chattemplates/expect.py.
type expected struct {
	Template, Source, Broken string
	Messages, Tools, Kwargs  json.RawMessage
	Generate                 bool
	Want                     *string
	Raised                   string
}

// TestSGLangRequests is TestSGLang on a file of one's own.
func TestSGLangRequests(t *testing.T) {
	name := os.Getenv("CHAT_REQUESTS")
	if name == "" {
		t.Skip("CHAT_REQUESTS names no file; see scripts/chattemplates/expect_sglang.py")
	}
	compareRequests(t, name)
}

// TestTransformers compares with transformers on the same conversations. A render that ends in
// ErrUnsupported is counted; a text that differs, or an error on one side only, fails.
func TestTransformers(t *testing.T) {
	name := os.Getenv("CHAT_TEMPLATES")
	if name == "" {
		t.Skip("CHAT_TEMPLATES names no file; see scripts/chattemplates/expect.py")
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	compiled := map[string]*chattemplate.Template{}
	tallies := map[string]*tally{}
	var all tally
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e expected
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if e.Source != "" {
			tmpl, err := chattemplate.Compile(e.Source)
			if (err != nil) != (e.Broken != "") && !errors.Is(err, chattemplate.ErrUnsupported) {
				t.Errorf("%s: Compile gives %v; transformers says %q", e.Template, err, e.Broken)
			}
			compiled[e.Template], tallies[e.Template] = tmpl, &tally{}
			continue
		}
		if tmpl := compiled[e.Template]; tmpl != nil {
			compare(t, tmpl, &e, tallies[e.Template])
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	for name, n := range tallies {
		all.equal += n.equal
		all.raised += n.raised
		all.unsure += n.unsure
		all.wrong += n.wrong
		if n.unsure > 0 {
			t.Logf("%s: %d equal, %d raised, %d left to the worker", name, n.equal, n.raised, n.unsure)
		}
	}
	t.Logf("%d templates: %d texts equal, %d raised by both, %d left to the worker, %d wrong",
		len(tallies), all.equal, all.raised, all.unsure, all.wrong)
}

func compare(t *testing.T, tmpl *chattemplate.Template, e *expected, n *tally) {
	t.Helper()
	in := chattemplate.Input{Messages: e.Messages, Tools: e.Tools, Kwargs: e.Kwargs, AddGenerationPrompt: e.Generate, Now: now}
	got, err := tmpl.Render(nil, in)
	switch {
	case errors.Is(err, chattemplate.ErrUnsupported):
		n.unsure++
		if testing.Verbose() {
			t.Logf("%s: %v", e.Template, err)
		}
	case err == nil && e.Want != nil && string(got) == *e.Want:
		n.equal++
	case err != nil && e.Want == nil:
		n.raised++
	default:
		n.wrong++
		if n.wrong > 2 {
			break
		}
		want := "an error: " + e.Raised
		if e.Want != nil {
			want = *e.Want
		}
		at := 0
		for at < len(want) && at < len(got) && want[at] == got[at] {
			at++
		}
		from := strings.LastIndexByte(want[:at], '\n') + 1
		t.Errorf("%s: error %v\n got ...%.300q\nwant ...%.300q\nmessages %s\ntools %.300s\nkwargs %s", e.Template, err,
			got[min(from, len(got)):], want[from:], e.Messages, e.Tools, e.Kwargs)
	}
}
