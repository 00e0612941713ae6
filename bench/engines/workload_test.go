//go:build engines

package engines_test

import (
	"context"
	"math/rand/v2"
	"strings"
)

// The replay's shape. Twelve conversations are open at a time and each grows to about 620 tokens, so together they hold
// about 4,300 tokens: half of them fit into one engine's 4,096 tokens with room for the ended ones to be evicted slowly,
// all of them do not. A router that keeps each conversation on one engine therefore finds nearly all of its history,
// and one that does not makes both engines evict what they will need.
const (
	openConversations = 12
	turnsEach         = 8
	systemTokens      = 120
	turnTokens        = 55
	maxNewTokens      = 8 // 4 to 8: the answers cost most of the time on a CPU
	vocabulary        = 1024
)

// kind is the API that a conversation speaks, in all of its turns.
type kind int

const (
	kindGenerate kind = iota
	kindChat
	kindCompletions
)

// conversation is one user's session: each turn sends the whole history again.
type conversation struct {
	kind     kind
	rnd      *rand.Rand
	turn     int
	ids      []int     // kindGenerate
	messages []message // kindChat
	text     string    // kindCompletions
}

// newConversation opens the n-th conversation. System prompts are shared: two for /generate, one for each other API.
func newConversation(seed uint64, n int, k kind) *conversation {
	c := &conversation{kind: k, rnd: rand.New(rand.NewPCG(seed, uint64(n)))}
	system := rand.New(rand.NewPCG(seed, uint64(1<<32+n%2)))
	switch k {
	case kindGenerate:
		c.ids = randomIDs(system, systemTokens)
	case kindChat:
		c.messages = []message{{"system", sentence(rand.New(rand.NewPCG(seed, 1<<33)), systemTokens)}}
	case kindCompletions:
		c.text = sentence(rand.New(rand.NewPCG(seed, 1<<34)), systemTokens)
	}
	return c
}

// kindOf mixes the APIs: half of the conversations use /generate, a quarter each the other two.
func kindOf(n int) kind {
	return [...]kind{kindGenerate, kindChat, kindGenerate, kindCompletions}[n%4]
}

// next sends the conversation's next turn and appends the answer to its history.
func (c *conversation) next(ctx context.Context, base string, client *openaiClient, stream bool) outcome {
	c.turn++
	maxNew := maxNewTokens/2 + c.rnd.IntN(maxNewTokens/2+1)
	var o outcome
	switch c.kind {
	case kindGenerate:
		c.ids = append(c.ids, randomIDs(c.rnd, turnTokens)...)
		o = generate(ctx, base, c.ids, maxNew, stream)
		c.ids = append(c.ids, o.ids...)
	case kindChat:
		c.messages = append(c.messages, message{"user", sentence(c.rnd, turnTokens)})
		o = client.do(openaiRequest{API: "chat", Stream: stream, MaxTokens: maxNew, Messages: c.messages})
		c.messages = append(c.messages, message{"assistant", o.text})
	case kindCompletions:
		c.text += "\n" + sentence(c.rnd, turnTokens)
		o = client.do(openaiRequest{API: "completions", Stream: stream, MaxTokens: maxNew, Prompt: c.text})
		c.text += o.text
	}
	return o
}

func (c *conversation) ended() bool { return c.turn >= turnsEach }

// randomIDs makes token ids, away from the first five, which are the tiny model's special tokens.
func randomIDs(rnd *rand.Rand, n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = 5 + rnd.IntN(vocabulary-5)
	}
	return ids
}

// sentence makes a text of about n tokens of the tiny tokenizer, which cuts these words into two or three tokens each.
func sentence(rnd *rand.Rand, n int) string {
	words := [...]string{
		"warm", "path", "cache", "prefix", "router", "worker", "page", "token", "quick", "brown", "fox", "dog",
		"lazy", "over", "helpful", "assistant", "engine", "block", "event", "stream",
	}
	var text strings.Builder
	for i := range n * 2 / 5 {
		if i > 0 {
			text.WriteByte(' ')
		}
		text.WriteString(words[rnd.IntN(len(words))])
	}
	return text.String()
}
