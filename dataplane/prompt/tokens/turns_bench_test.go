package tokens_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/radix"
)

// BenchmarkTurns takes the chats of conversations with ten turns, of about 1 KB a question and 1 KB
// an answer, from their messages to token ids: with the prompt cache of the turns before, and
// without. One operation is one request. WARMPATH_MODEL names the folder of a real model; else
// tokens are bytes.
func BenchmarkTurns(b *testing.B) {
	folder := os.Getenv("WARMPATH_MODEL")
	if folder == "" {
		folder = modelFolder(b, template)
	}
	for _, remember := range []bool{true, false} {
		name := "each turn alone"
		if remember {
			name = "remembered"
		}
		b.Run(name, func(b *testing.B) { benchTurns(b, folder, remember) })
	}
}

func benchTurns(b *testing.B, folder string, remember bool) {
	b.Helper()
	s := newTestModels(b, map[string]string{"m": folder})
	s.models.WorkerUp("w", "m", tokens.Settings{Version: "0.5.23"})
	m := s.loaded(b)
	x := radix.New(radix.Config{Seed: 1})
	c, err := promptcache.New(promptcache.Config{Index: x, BlockSize: func() int { return 16 }})
	require.NoError(b, err)
	w := tokens.NewWriter(nil)
	if remember {
		w = tokens.NewWriter(c.NewCursor())
	}
	talks := conversations(b, 40)
	var ids []uint32
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		// Many conversations go on at once, each from its first turn to its tenth.
		req := talks[i%len(talks)][i/len(talks)%10]
		if ids, _, err = w.Append(ids[:0], m, req); err != nil {
			b.Fatal(err)
		}
	}
}

// conversations are n times ten requests.
func conversations(tb testing.TB, n int) [][]*openai.Request {
	tb.Helper()
	words := strings.Fields(proseForBench)
	r := rand.New(rand.NewPCG(1, 2))
	said := func() string {
		var text strings.Builder
		for text.Len() < 1000 {
			fmt.Fprintf(&text, "%s ", words[r.IntN(len(words))])
		}
		return text.String()
	}
	var all [][]*openai.Request
	for range n {
		var talk []*openai.Request
		history := []map[string]string{{"role": "system", "content": said()}}
		for range 10 {
			history = append(history, map[string]string{"role": "user", "content": said()})
			body, err := json.Marshal(map[string]any{"model": "m", "messages": history})
			if err != nil {
				tb.Fatal(err)
			}
			talk = append(talk, parse(tb, openai.APIChat, string(body)))
			history = append(history, map[string]string{"role": "assistant", "content": said()})
		}
		all = append(all, talk)
	}
	return all
}

// proseForBench is words and signs as people and programs write them.
const proseForBench = `The quick brown fox jumps over the lazy dog; 42 tokens, naïve café, func main() { return nil } "quoted text" 北京 is the capital
of China, isn't it? E = mc², https://example.com/path?q=1 and 3.14159 or 1,000,000 units — under_scores, camelCase, SHOUTING, emails@example.org`
