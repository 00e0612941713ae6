package openai_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/valyala/fastjson"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

const lorem = "The quick brown fox jumps over the lazy dog and runs along the river bank. "

// chatBody is a chat body of about size bytes: one message, or one of some 900 bytes each.
func chatBody(size int, escapes bool) []byte {
	text := strings.Repeat(lorem, 12)
	if escapes {
		text = strings.Repeat("line of \"text\"\n\tand a \\path é\n", 30)
	}
	quoted, _ := json.Marshal(text[:min(len(text), max(40, size-150))])
	var sb strings.Builder
	sb.WriteString(`{"model":"meta-llama/Llama-3.1-8B-Instruct","temperature":0.7,"max_tokens":128,"stream":true,"messages":[`)
	for i := 0; i == 0 || sb.Len() < size-len(quoted); i++ {
		if i > 0 {
			sb.WriteByte(',')
		}
		fmt.Fprintf(&sb, `{"role":"user","content":%s}`, quoted)
	}
	sb.WriteString(`]}`)
	return []byte(sb.String())
}

func idsBody(n int) []byte {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = (i*7919 + 13) % 128000
	}
	body, _ := json.Marshal(map[string]any{"input_ids": ids, "sampling_params": map[string]int{"max_new_tokens": 8}})
	return body
}

// BenchmarkIDs reads lists of random ids as compact JSON has them and as Python's json writes them.
func BenchmarkIDs(b *testing.B) {
	const n = 16_384
	for _, separator := range []string{",", ", "} {
		b.Run(fmt.Sprintf("separator=%q", separator), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			body := []byte(`{"input_ids":[7`)
			for range n - 1 {
				body = strconv.AppendUint(append(body, separator...), uint64(rng.Uint32N(128_000)), 10)
			}
			body = append(body, "]}"...)
			var r openai.Request
			b.ReportAllocs()
			for b.Loop() {
				if err := r.Parse(openai.APIGenerate, body); err != nil || len(r.InputIDs) != n {
					b.Fatal(len(r.InputIDs), err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/id")
		})
	}
}

type body struct {
	name string
	api  openai.API
	data []byte
}

func benchBodies() []body {
	return []body{
		{"chat/300B", openai.APIChat, chatBody(300, false)},
		{"chat/8KB", openai.APIChat, chatBody(8<<10, false)},
		{"chat/64KB", openai.APIChat, chatBody(64<<10, false)},
		{"chat/64KB-escaped", openai.APIChat, chatBody(64<<10, true)},
		{"chat/8MB", openai.APIChat, chatBody(8<<20, false)},
		{"ids/12000", openai.APIGenerate, idsBody(12000)},
	}
}

func BenchmarkParse(b *testing.B) {
	for _, c := range benchBodies() {
		b.Run(c.name, func(b *testing.B) {
			var r openai.Request
			b.SetBytes(int64(len(c.data)))
			b.ReportAllocs()
			for b.Loop() {
				if err := r.Parse(c.api, c.data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFastjson is the reference of Parse: a reused fastjson parser over the same bodies,
// reading the same fields. It checks no UTF-8 and gives no raw spans.
func BenchmarkFastjson(b *testing.B) {
	for _, c := range benchBodies() {
		b.Run(c.name, func(b *testing.B) {
			var p fastjson.Parser
			var ids []uint32
			b.SetBytes(int64(len(c.data)))
			b.ReportAllocs()
			for b.Loop() {
				v, err := p.ParseBytes(c.data)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = v.GetStringBytes("model"), v.GetBool("stream")
				ids = ids[:0]
				for _, id := range v.GetArray("input_ids") {
					ids = append(ids, uint32(id.GetUint()))
				}
			}
		})
	}
}

func BenchmarkUsageScanner(b *testing.B) {
	chunk := []byte(`data: {"id":"wp-0123456789abcdef01234567","object":"chat.completion.chunk","created":1795264461,"model":"tiny","choices":[{"index":0,"delta":{"reasoning_content":null,"content":" word"},"logprobs":null,"finish_reason":null,"matched_stop":null}]}` + "\n\n")
	generate := []byte(`data: {"text":"` + strings.Repeat(lorem, 20) + `","output_ids":[1,2,3],"meta_info":{"id":"x","finish_reason":null,"prompt_tokens":1,"weight_version":"default","completion_tokens":1,"cached_tokens":0},"index":0}` + "\n\n")
	for _, c := range []struct {
		name  string
		api   openai.API
		chunk []byte
	}{{"chat", openai.APIChat, chunk}, {"generate", openai.APIGenerate, generate}} {
		b.Run(fmt.Sprintf("%s/chunk=%d", c.name, len(c.chunk)), func(b *testing.B) {
			var s openai.UsageScanner
			s.Reset(c.api, true)
			b.SetBytes(int64(len(c.chunk)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = s.Write(c.chunk)
			}
		})
	}
}
