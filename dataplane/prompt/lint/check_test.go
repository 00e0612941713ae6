package lint_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/lint"
)

// words makes text of about so many tokens (4 bytes each); equal seeds give equal text.
func words(seed uint64, tokens int) string {
	rng := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	for b.Len() < 4*tokens-1 {
		for range 3 + rng.IntN(5) {
			b.WriteByte(byte('a' + rng.IntN(26)))
		}
		b.WriteByte(' ')
	}
	return b.String()[:4*tokens-1] + " "
}

// body is a chat as a client sends it.
func body(t *testing.T, model string, messages ...string) []byte {
	t.Helper()
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var list []message
	for i := 0; i+1 < len(messages); i += 2 {
		list = append(list, message{messages[i], messages[i+1]})
	}
	raw, err := json.Marshal(map[string]any{"model": model, "messages": list})
	require.NoError(t, err)
	return raw
}

func parse(t *testing.T, body []byte) *lint.Prompt {
	t.Helper()
	p, err := lint.Parse(body)
	require.NoError(t, err)
	return p
}

// TestSevenToSeventyFour is the published example: a time in the system prompt, and 7 % of the
// tokens before it; with stable parts first 74 % are.
func TestSevenToSeventyFour(t *testing.T) {
	var prompts []*lint.Prompt
	for i := range 40 {
		system := words(1, 70) + fmt.Sprintf("%02d:%02d:%02d\n", i%24, i%60, (i*7)%60) + words(2, 670)
		prompts = append(prompts, parse(t, body(t, "m", "system", system, "user", words(100+uint64(i), 258))))
	}
	r := lint.Check(prompts)
	require.Len(t, r.Finding, 1)
	f := r.Finding[0]
	require.Equal(t, "7 %", lint.Percent(f.Now))
	require.Equal(t, "74 %", lint.Percent(f.Then))
	require.Equal(t, 40, f.Prompts)
	require.InDelta(t, 670, f.StableAfter, 3)
	require.Equal(t, "system", f.Part)
	require.Equal(t, 280, f.Offset, "the time begins behind 70 tokens of 4 bytes")
	require.Equal(t, lint.KindTime, f.Kind)
	require.Equal(t, 1, f.Changes)
	require.Regexp(t, `«\d\d:\d\d:\d\d»`, f.Example)
	require.Contains(t, f.Advice, "Put the time at the end")
}

// TestIDs has the same in token ids, where it is exact.
func TestSevenToSeventyFourOfIDs(t *testing.T) {
	var prompts []*lint.Prompt
	next := uint32(1_000_000)
	for range 10 {
		ids := make([]uint32, 0, 1000)
		for i := range 1000 {
			if i >= 70 && i < 80 || i >= 750 {
				// 10 that change, then 670 that do not, then the question.
				next++
				ids = append(ids, next)
			} else {
				ids = append(ids, uint32(i))
			}
		}
		raw, err := json.Marshal(map[string]any{"input_ids": ids})
		require.NoError(t, err)
		prompts = append(prompts, parse(t, raw))
	}
	r := lint.Check(prompts)
	require.Len(t, r.Finding, 1)
	f := r.Finding[0]
	require.InDelta(t, 0.07, f.Now, 1e-9)
	require.InDelta(t, 0.74, f.Then, 1e-9)
	require.InDelta(t, 670, f.StableAfter, 1e-9)
	require.Equal(t, "ids", f.Part)
	require.Equal(t, 70, f.Offset)
}

// TestTemplatesAreToldApart mixes four templates with different first lines, among them two without
// a fault.
func TestTemplatesAreToldApart(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	var prompts []*lint.Prompt
	names := []string{"Ada", "Grace", "Edsger", "Barbara", "Donald", "Frances", "Alan", "Radia"}
	for i := range 200 {
		switch i % 4 {
		case 0: // a user's name first
			system := "You help " + names[rng.IntN(len(names))] + strconv.Itoa(rng.IntN(1e6)) + ". " + words(11, 300)
			prompts = append(prompts, parse(t, body(t, "m", "system", system, "user", words(rng.Uint64(), 50))))
		case 1: // documents before the instructions
			text := words(rng.Uint64(), 400+rng.IntN(100)) + words(12, 400)
			raw, err := json.Marshal(map[string]any{"prompt": text})
			require.NoError(t, err)
			prompts = append(prompts, parse(t, raw))
		case 2: // as it should be, with a history that grows
			prompts = append(prompts, parse(t, body(t, "m", "system", words(13, 300), "user", words(uint64(i%7), 40), "assistant", words(uint64(i%7)+50, 80), "user", words(rng.Uint64(), 30))))
		default: // short: nothing to gain
			prompts = append(prompts, parse(t, body(t, "m", "system", strconv.Itoa(rng.IntN(1e6))+" "+words(14, 30), "user", words(rng.Uint64(), 20))))
		}
	}
	r := lint.Check(prompts)
	require.Len(t, r.Finding, 2)
	docs, name := r.Finding[0], r.Finding[1]
	if docs.Kind != lint.KindText {
		docs, name = name, docs
	}
	require.Equal(t, lint.KindText, docs.Kind)
	require.Equal(t, 50, docs.Prompts)
	require.InDelta(t, 400, docs.StableAfter, 4)
	require.Equal(t, lint.KindName, name.Kind)
	require.Equal(t, 50, name.Prompts)
	require.InDelta(t, 300, name.StableAfter, 3)
	require.LessOrEqual(t, len(name.Values), 3)
}

func TestToolsInAnotherOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	var prompts []*lint.Prompt
	for range 30 {
		var tools []string
		for i := range 6 {
			tools = append(tools, fmt.Sprintf(`{"type":"function","function":{"name":"tool%d","description":%q}}`, i, words(uint64(i)+20, 120)))
		}
		rng.Shuffle(len(tools), func(i, j int) { tools[i], tools[j] = tools[j], tools[i] })
		raw := fmt.Sprintf(`{"messages":[{"role":"system","content":%q},{"role":"user","content":%q}],"tools":[%s]}`,
			words(30, 100), words(rng.Uint64(), 60), strings.Join(tools, ","))
		prompts = append(prompts, parse(t, []byte(raw)))
	}
	r := lint.Check(prompts)
	require.Len(t, r.Finding, 1)
	require.Equal(t, "tools", r.Finding[0].Part)
	require.Greater(t, r.Finding[0].Lost, 0.3)
}

func TestParse(t *testing.T) {
	tests := []struct {
		name, body string
		want       lint.Prompt
	}{
		{"text", `{"text":"a"}`, lint.Prompt{Parts: []lint.Part{{"prompt", "a"}}}},
		{"prompt", `{"model":"m","prompt":"a"}`, lint.Prompt{Model: "m", Parts: []lint.Part{{"prompt", "a"}}}},
		{"prompts", `{"prompt":["a","b"]}`, lint.Prompt{Parts: []lint.Part{{"prompt", "a"}}}},
		{"ids", `{"prompt":[1,2]}`, lint.Prompt{IDs: []uint64{1, 2}, IDsTokens: 1}},
		{"input ids", `{"input_ids":[[1,2],[3]]}`, lint.Prompt{IDs: []uint64{1, 2}, IDsTokens: 1}},
		{"trace", `{"timestamp":0,"hash_ids":[5,6]}`, lint.Prompt{IDs: []uint64{5, 6}, IDsTokens: 512}},
		{"batch file", `{"custom_id":"x","body":{"text":"a"}}`, lint.Prompt{Parts: []lint.Part{{"prompt", "a"}}}},
		{
			"chat", `{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"u"}]}],"tools":[1]}`,
			lint.Prompt{Parts: []lint.Part{{"system", "s"}, {"tools", "[1]"}, {"user", "u"}}, TemplateParts: 2},
		},
		{
			"messages", `{"system":[{"type":"text","text":"s"},{"type":"text","text":"t"}],"tools":[1],"messages":[{"role":"user","content":[` +
				`{"type":"tool_result","content":[{"type":"text","text":"r"}]}]},{"role":"assistant","content":[{"type":"tool_use","input":{"a":1}}]}]}`,
			lint.Prompt{Parts: []lint.Part{{"system", "st"}, {"tools", "[1]"}, {"user", "r"}, {"assistant", `{"a":1}`}}, TemplateParts: 2},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, *parse(t, []byte(tt.body)))
		})
	}
	for _, bad := range []string{``, `{`, `[]`, `{"input":"embed me"}`, `{"messages":[]}`} {
		_, err := lint.Parse([]byte(bad))
		require.ErrorIs(t, err, lint.ErrBody, "%s", bad)
	}
}
