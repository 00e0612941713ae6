package sim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// capture is one line of testdata/real.
type capture struct {
	Name, Method, Path string
	Headers            map[string]string
	Body               string
	Status             int
	Type, Answer       string
}

func captures(t *testing.T, group string) (all []capture) {
	t.Helper()
	b, err := os.ReadFile("testdata/real/" + group + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	s := bufio.NewScanner(bytes.NewReader(b))
	s.Buffer(nil, 1<<24)
	for s.Scan() {
		var c capture
		if err := json.Unmarshal(s.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// TestAnswersHaveTheEnginesShape sends the captured requests of a real engine to a simulated
// worker.
func TestAnswersHaveTheEnginesShape(t *testing.T) {
	cfg := fast()
	cfg.TimeScale = 8 // slow enough for most streams to have an event for each token
	w := startWorker(t, cfg)
	for _, group := range []string{"generate", "chat", "completions", "tokenize", "other", "messages"} {
		for _, c := range captures(t, group) {
			t.Run(c.Name, func(t *testing.T) {
				r := send(t, w, c.Method, c.Path, c.Body, c.Headers)
				if r.status != c.Status {
					t.Fatalf("status %d, the engine's is %d: %s", r.status, c.Status, r.body)
				}
				if c.Type != "" && r.kind != c.Type {
					t.Errorf("content type %q, the engine's is %q", r.kind, c.Type)
				}
				got, want := shapes(t, r.body), shapes(t, []byte(c.Answer))
				if !agrees(got, want) {
					t.Errorf("shape\n%s\nthe engine's is\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				if given(c.Body) {
					equalCounts(t, r.body, []byte(c.Answer))
				}
			})
		}
	}
}

// agrees reports whether got is want, in any order, and possibly without shapes of events that
// merged with others here. The last two shapes must be present.
func agrees(got, want []string) bool {
	for _, s := range got {
		if !slices.Contains(want, s) {
			return false
		}
	}
	for _, s := range want[max(0, len(want)-2):] {
		if !slices.Contains(got, s) {
			return false
		}
	}
	return len(got) > 0 && got[len(got)-1] == want[len(want)-1]
}

// given reports whether the prompt was given as token ids, so that its length does not depend
// on the tokenizer.
func given(body string) bool {
	return strings.Contains(body, `"input_ids":[`) || strings.Contains(body, `"prompt":[1`) ||
		strings.Contains(body, `"prompt":[[`)
}

// equalCounts compares the numbers of tokens of two answers.
func equalCounts(t *testing.T, got, want []byte) {
	t.Helper()
	for _, key := range []string{`"prompt_tokens":`, `"cached_tokens":`, `"completion_tokens":`, `"total_tokens":`} {
		if g, w := last(got, key), last(want, key); g != w {
			t.Errorf("%s %s, the engine's is %s", key, g, w)
		}
	}
}

// last returns the digits after the last key in b.
func last(b []byte, key string) string {
	_, rest, ok := strings.Cut(string(b[max(0, bytes.LastIndex(b, []byte(key))):]), key)
	if !ok {
		return ""
	}
	return rest[:strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })]
}

// shapes describes an answer: the shape of each event, or of the whole body. Each shape counts
// once, where it comes first, because the tokens of an event and the turns of sequences depend
// on timing.
func shapes(t *testing.T, body []byte) (out []string) {
	t.Helper()
	if !bytes.HasPrefix(body, []byte("data: ")) && !bytes.HasPrefix(body, []byte("event: ")) {
		if len(body) == 0 || body[0] != '{' && body[0] != '[' {
			return []string{string(body)}
		}
		return []string{shape(t, body)}
	}
	for _, e := range events(body) {
		s := e
		if e != "[DONE]" {
			s = shape(t, []byte(e))
		}
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// shape describes one JSON document: keys in order, and the kind of each value.
func shape(t *testing.T, doc []byte) string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(doc))
	var b strings.Builder
	if err := describe(d, &b); err != nil {
		t.Fatalf("%v in %s", err, doc)
	}
	// Anthropic's usage has it only where something was cached, which depends on the template.
	return strings.ReplaceAll(b.String(), " cache_read_input_tokens:number", "")
}

func describe(d *json.Decoder, b *strings.Builder) error {
	tok, err := d.Token()
	if err != nil {
		return err
	}
	switch v := tok.(type) {
	case json.Delim:
		return describeGroup(d, b, v)
	case string:
		b.WriteString("text")
	case float64:
		b.WriteString("number")
	default:
		fmt.Fprint(b, v)
	}
	return nil
}

// describeGroup describes an object, or a list by its first element.
func describeGroup(d *json.Decoder, b *strings.Builder, open json.Delim) error {
	b.WriteString(open.String())
	for n := 0; d.More(); n++ {
		into := b
		if open == '{' {
			key, err := d.Token()
			if err != nil {
				return err
			}
			fmt.Fprintf(b, " %v:", key)
		} else if n > 0 {
			into = new(strings.Builder)
		}
		if err := describe(d, into); err != nil {
			return err
		}
	}
	end, err := d.Token()
	if err == nil {
		b.WriteString(end.(json.Delim).String())
	}
	return err
}
