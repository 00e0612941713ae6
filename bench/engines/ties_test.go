//go:build engines

package engines_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
)

// tied is how far apart the log probabilities of two tokens may be that are equally likely to an engine: two steps of bfloat16. The same prompt, found
// in the cache or computed, makes a difference of one step in one answer of 16 (measured: 96 answers, each computed both ways), and the two likeliest
// tokens of the tiny model are within half a step of each other at one place of 20.
const tied = 1.0 / 128

// likely is a token that an engine took, with those that it might have taken.
type likely struct {
	Token string
	Prob  float64 `json:"logprob"`
	Top   []struct {
		Token string
		Prob  float64 `json:"logprob"`
	} `json:"top_logprobs"`
}

// likelihoods has the engine itself answer a chat and tells how likely its tokens were.
func (e *engine) likelihoods(t *testing.T, b *chatBody) []likely {
	t.Helper()
	raw, err := json.Marshal(struct {
		*chatBody
		Logprobs bool `json:"logprobs"`
		Top      int  `json:"top_logprobs"`
	}{b, true, 5})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Post(e.url+"/v1/chat/completions", "application/json", bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Choices []struct {
			Logprobs struct{ Content []likely }
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil || len(doc.Choices) != 1 || len(doc.Choices[0].Logprobs.Content) == 0 {
		t.Fatalf("%s does not say how likely its tokens are: %v: %s", e.name(), err, text)
	}
	return doc.Choices[0].Logprobs.Content
}

// atTie says in words at which token two answers part, where that is one that was as likely as the other; "" where it is not, or cannot be told.
func atTie(tokens []likely, a, b string) string {
	before := ""
	for _, l := range tokens {
		next := func(answer string) (token string, ok bool) {
			if strings.HasPrefix(answer, before+l.Token) {
				return l.Token, true
			}
			for _, other := range l.Top {
				if math.Abs(other.Prob-l.Prob) <= tied && strings.HasPrefix(answer, before+other.Token) {
					return other.Token, true
				}
			}
			return "", false
		}
		first, ok1 := next(a)
		second, ok2 := next(b)
		if !ok1 || !ok2 {
			return ""
		}
		if first != second {
			return fmt.Sprintf("behind %q: %q and %q", before, first, second)
		}
		if first != l.Token {
			return "" // the engine went a third way, and tells nothing of what follows on theirs
		}
		before += l.Token
	}
	return ""
}

// TestAtTie needs no engine.
func TestAtTie(t *testing.T) {
	token := func(text string, prob float64, others ...any) likely {
		l := likely{Token: text, Prob: prob}
		for i := 0; i < len(others); i += 2 {
			l.Top = append(l.Top, struct {
				Token string
				Prob  float64 `json:"logprob"`
			}{others[i].(string), others[i+1].(float64)})
		}
		return l
	}
	tokens := []likely{token("a", -1, "a", -1.0, "b", -1.004, "c", -2.0), token("x", -1, "x", -1.0, "y", -1.0)}
	for _, x := range []struct {
		a, b string
		tie  bool
	}{
		{"ax", "bz", true}, {"bz", "ax", true}, {"ax", "ay", true}, {"ax", "cx", false}, {"bx", "by", false}, {"ax", "az", false}, {"ax", "dx", false}, {"ax", "ax", false},
	} {
		if got := atTie(tokens, x.a, x.b); (got != "") != x.tie {
			t.Errorf("%q and %q part at a tie: %q, want %t", x.a, x.b, got, x.tie)
		}
	}
}
