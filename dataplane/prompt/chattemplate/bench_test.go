package chattemplate_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
)

// turns makes the messages of a conversation: a system prompt, then n turns of a user and an
// assistant, each of the given length, and a user at the end.
func turns(n, length int) []byte {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog.\n", length/45+1)[:length]
	messages := []map[string]string{{"role": "system", "content": text}}
	for range n {
		messages = append(messages, map[string]string{"role": "user", "content": text}, map[string]string{"role": "assistant", "content": text})
	}
	raw, err := json.Marshal(append(messages, map[string]string{"role": "user", "content": "And now?"}))
	if err != nil {
		panic(err)
	}
	return raw
}

// shownTools is a list of three functions.
func shownTools() []byte {
	one := `{"type":"function","function":{"name":"search","description":"Looks something up.","parameters":{"type":"object",` +
		`"properties":{"query":{"type":"string","description":"what to look for"},"limit":{"type":"integer","default":10}},"required":["query"]}}}`
	return []byte("[" + one + "," + one + "," + one + "]")
}

func benchmark(b *testing.B, m *chattemplate.Model, req chattemplate.Request) {
	b.Helper()
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if dst, err = m.Render(dst[:0], req); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(dst)))
}

func BenchmarkRender(b *testing.B) {
	for _, name := range []string{"turns", "headers"} {
		m := modelOf(b, name)
		for _, length := range []int{100, 3000} {
			b.Run(fmt.Sprintf("template=%s/turns=10/bytes=%d", name, length), func(b *testing.B) {
				benchmark(b, m, chattemplate.Request{Messages: turns(10, length)})
			})
		}
		b.Run("template="+name+"/tools=3", func(b *testing.B) {
			benchmark(b, m, chattemplate.Request{Messages: turns(1, 100), Tools: shownTools()})
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	raw, err := os.ReadFile("testdata/templates/turns.jinja")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := chattemplate.Compile(string(raw)); err != nil {
			b.Fatal(err)
		}
	}
}
