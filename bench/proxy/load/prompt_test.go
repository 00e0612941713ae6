package load

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// body is all that any of the APIs is sent.
type body struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
	Prompt   string   `json:"prompt"`
	Text     string   `json:"text"`
	InputIDs []uint32 `json:"input_ids"`
	Max      int      `json:"max_tokens"`
	Stream   bool     `json:"stream"`
	Sampling struct {
		Max int `json:"max_new_tokens"`
	} `json:"sampling_params"`
}

func parse(t *testing.T, a API, b []byte) (prompt string, got body) {
	t.Helper()
	require.NoError(t, json.Unmarshal(b, &got), "%.300s", b)
	switch a {
	case Chat:
		text, err := json.Marshal(got.Messages)
		require.NoError(t, err)
		prompt = string(text[:len(text)-1]) // as a prefix of what follows
	case Completions:
		prompt = got.Prompt
	case Text:
		prompt = got.Text
	case IDs:
		text, err := json.Marshal(got.InputIDs)
		require.NoError(t, err)
		prompt = string(text[:len(text)-1])
	}
	require.NotEmpty(t, prompt)
	require.Equal(t, 7, got.Max+got.Sampling.Max)
	return prompt, got
}

func config(t *testing.T, a API, size, turns int) *Config {
	t.Helper()
	c := &Config{Targets: []string{"127.0.0.1:1"}, API: a, Size: size, Tokens: 7, Connections: 4, Time: 1, Turns: turns, Seed: 5}
	require.NoError(t, c.normal())
	return c
}

func TestUniquePrompts(t *testing.T) {
	for _, a := range APIs() {
		for _, size := range []int{300, 8 << 10, 1 << 20} {
			cfg := config(t, a, size, 0)
			seen := map[string]bool{}
			for seed := range uint64(2) {
				cfg.Seed = seed
				w, again := newWriter(cfg), newWriter(cfg)
				for range 20 >> (size >> 18) {
					b := w.unique(nil)
					require.Equal(t, b, again.unique(nil), "the same seed, the same prompts")
					require.InDelta(t, size, len(b), idSize, "%s", a)
					prompt, _ := parse(t, a, b)
					if a == Chat {
						prompt = prompt[len(`[{"role":"user","content":"`):]
					}
					begin := prompt[:nameSize+2]
					require.False(t, seen[begin], "%s: two prompts begin with %q", a, begin)
					seen[begin] = true
				}
			}
		}
	}
}

// TestConversations holds each turn to the one before it: it begins with all of that and with the answer to it.
func TestConversations(t *testing.T) {
	for _, a := range APIs() {
		cfg := config(t, a, 16<<10, 5)
		cfg.Conversations = 1
		all := newTalks(newWriter(cfg))
		systems := map[string]bool{}
		for range 4 {
			last := ""
			for turn := range 5 {
				b, k := all.next(nil)
				prompt, _ := parse(t, a, b)
				require.LessOrEqual(t, len(b), cfg.Size+512, "%s turn %d", a, turn)
				if last != "" {
					require.Greater(t, len(prompt), len(last)+1000)
					require.Equal(t, last, prompt[:len(last)], "%s turn %d", a, turn)
				}
				systems[prompt[:2000]] = true
				last = prompt
				all.answered(k)
			}
		}
		require.LessOrEqual(t, len(systems), 4, "conversations begin with one of few system prompts")
	}
}

func TestConversationAfterFailure(t *testing.T) {
	all := newTalks(newWriter(config(t, Chat, 16<<10, 5)))
	n := len(all.ready)
	b, k := all.next(nil)
	all.failed(k)
	require.Len(t, all.ready, n)
	for range n {
		var next []byte
		next, k = all.next(nil)
		all.answered(k)
		require.InDelta(t, len(b), len(next), 64, "all are in their first turn")
	}
}

func TestConfigRefuses(t *testing.T) {
	ok := func() Config {
		return Config{Targets: []string{"127.0.0.1:1"}, API: Chat, Size: 300, Tokens: 1, Connections: 1, Time: 1}
	}
	for name, change := range map[string]func(*Config){
		"API": func(c *Config) { c.API = "soap" }, "size": func(c *Config) { c.Size = 10 }, "time": func(c *Config) { c.Time = 0 },
		"tokens": func(c *Config) { c.Tokens = 0 }, "rate": func(c *Config) { c.Rate = -1 }, "targets": func(c *Config) { c.Targets = nil },
		"connections": func(c *Config) { c.Connections = 0 }, "turns": func(c *Config) { c.Turns = 3 },
	} {
		c := ok()
		require.NoError(t, c.normal())
		change(&c)
		require.ErrorIs(t, c.normal(), ErrConfig, name)
	}
	c := ok()
	c.Targets = []string{"nowhere"}
	_, err := c.resolve()
	require.ErrorIs(t, err, ErrConfig)
}
