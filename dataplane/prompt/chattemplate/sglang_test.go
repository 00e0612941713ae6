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

// asked is one line of scripts/chattemplates/expect_sglang.py: a template, or a request.
type asked struct {
	Template, Source, Version string
	Tokens                    map[string]string
	Body                      string
	Defaults                  json.RawMessage
	Want                      *string
	Begun                     *int // where a continued message begins, which SGLang encodes apart
	Raised                    string
}

// tally counts how cases ended.
type tally struct {
	equal, raised, unsure, wrong int
	why                          map[string]int
}

// TestSGLang compares with SGLang's own code on the same request bodies.
func TestSGLang(t *testing.T) {
	n := compareRequests(t, "testdata/requests.jsonl")
	if n.equal < 130 {
		t.Errorf("%d texts are equal, want more than half of 240", n.equal)
	}
}

// TestSGLangContinues is the same for chats whose answer continues the last message.
func TestSGLangContinues(t *testing.T) {
	n := compareRequests(t, "testdata/continued.jsonl")
	if n.equal < 40 {
		t.Errorf("%d texts are equal, want half of 80", n.equal)
	}
}

// compareRequests reads a file of requests. Only a text that differs, or one where SGLang refuses,
// fails; requests that this package leaves to the worker are counted.
func compareRequests(t *testing.T, name string) tally {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	n := tally{why: map[string]int{}}
	var head asked
	models := map[string]*chattemplate.Model{}
	for lines.Scan() {
		var a asked
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		if a.Source != "" {
			head = a
			clear(models)
			continue
		}
		m, ok := models[string(a.Defaults)]
		if !ok {
			if m, err = newModel(head, a.Defaults); err != nil {
				n.why[err.Error()]++
			}
			models[string(a.Defaults)] = m
		}
		if m == nil {
			n.unsure++
			continue
		}
		compareRequest(t, m, head.Version, &a, &n)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	for reason, count := range n.why {
		t.Logf("%d left to the worker: %s", count, reason)
	}
	t.Logf("%d texts equal, %d refused by both, %d left to the worker, %d wrong", n.equal, n.raised, n.unsure, n.wrong)
	return n
}

func newModel(head asked, defaults json.RawMessage) (*chattemplate.Model, error) {
	return chattemplate.New(chattemplate.Config{
		Source: chattemplate.Source{Template: head.Source, Tokens: head.Tokens},
		Engine: chattemplate.Engine{Version: head.Version, DefaultKwargs: defaults},
		Now:    clock,
	})
}

// begun is the offset of the continued message, or the length of the text.
func (a *asked) begun() int {
	if a.Begun != nil {
		return *a.Begun
	}
	return len(*a.Want)
}

func compareRequest(t *testing.T, m *chattemplate.Model, version string, a *asked, n *tally) {
	t.Helper()
	req, err := chattemplate.ParseRequest([]byte(a.Body))
	if err != nil {
		t.Fatal(err)
	}
	got, begun, err := m.RenderBegun(nil, req)
	switch {
	case errors.Is(err, chattemplate.ErrUnsupported):
		if n.unsure++; a.Want != nil {
			n.why[err.Error()]++
		}
	case err != nil && a.Want == nil:
		n.raised++
	case strings.Contains(a.Raised, "invalid 'parameters' schema"):
		n.raised++ // the worker checks schemas, and refuses this before any rendering
	case err == nil && a.Want != nil && string(got) == *a.Want && begun == a.begun():
		n.equal++
	default:
		if n.wrong++; n.wrong > 5 {
			t.Fail()
			return
		}
		want := "an error: " + a.Raised
		if a.Want != nil {
			want = *a.Want
		}
		t.Errorf("SGLang %s, %s: error %v\n got %q\nwant %q\nbody %s\ndefaults %s", version, a.Template, err, got, want, a.Body, a.Defaults)
	}
}
